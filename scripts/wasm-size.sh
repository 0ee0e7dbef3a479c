#!/usr/bin/env bash
# Builds the guests and says how large they are, and exits with an error if one has grown past what its hosts take well.
set -euo pipefail
cd "$(dirname "$0")/../edge-wasm"
. ../scripts/env.sh

target="${CARGO_TARGET_DIR:-$PWD/target}"

# guest CRATE TARGET PROFILE LIMIT: the limit is in bytes, with gzip.
guest() {
  local module raw compressed
  cargo build --quiet --locked --package "$1" --target "$2" --profile "$3" --target-dir "$target"
  module="$target/$2/$3/${1//-/_}.wasm"
  raw="$(wc -c <"$module")"
  compressed="$(gzip -9nc "$module" | wc -c)"
  echo "wasm: $1 has $raw bytes, $compressed with gzip (at most $4)"
  [ "$compressed" -le "$4" ] || { echo "wasm: that is too much" >&2 && exit 1; }
}

guest ropeline-edge-abi wasm32-unknown-unknown abi 30000
guest ropeline-edge-proxy-wasm wasm32-wasip1 abi 70000
guest ropeline-edge-http-wasm wasm32v1-none abi 37000
guest ropeline-edge-wasi-http wasm32-wasip2 wasi-http 60000
guest ropeline-edge-fastly wasm32-wasip1 release 280000
