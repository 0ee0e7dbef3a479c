#!/usr/bin/env bash
# Tests of the waiting page's script, run by Node's own runner: no packages, no lock file.
set -euo pipefail
cd "$(dirname "$0")/.."
mapfile -t files < <(git ls-files --cached --others --exclude-standard '*.test.js' '*.test.mjs' '*.test.cjs')
[ ${#files[@]} -gt 0 ] || exit 0
exec node --test "${files[@]}"
