#!/usr/bin/env bash
# Tests of what runs as JavaScript, the waiting page's script and the edges' loader, by Node's own runner: no packages,
# no lock file.
set -euo pipefail
cd "$(dirname "$0")/.."
mapfile -t files < <(git ls-files --cached --others --exclude-standard '*.test.js' '*.test.mjs' '*.test.cjs')
[ ${#files[@]} -gt 0 ] || exit 0
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
export ROPELINE_EDGE_MODULE="$scratch/ropeline_edge.wasm"
scripts/edge-folder.sh module "$ROPELINE_EDGE_MODULE"
node --test "${files[@]}"
