#!/usr/bin/env bash
# Builds the decision as a bare Wasm module and says how large it is. Edges load it anew in each place, so more than
# 30 kB compressed is an error.
set -euo pipefail
cd "$(dirname "$0")/../edge-wasm/core"
. ../../scripts/env.sh

target="${CARGO_TARGET_DIR:-$PWD/target}"
cargo build --quiet --locked --release --target wasm32-unknown-unknown --target-dir "$target"
module="$target/wasm32-unknown-unknown/release/ropeline_edge_core.wasm"
raw="$(wc -c <"$module")"
compressed="$(gzip -9nc "$module" | wc -c)"
echo "wasm: the decision's module has $raw bytes, $compressed with gzip"
[ "$compressed" -le 30000 ] || { echo "wasm: that is more than 30,000" >&2 && exit 1; }
