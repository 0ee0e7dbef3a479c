#!/usr/bin/env bash
# Clippy for the guests of edge-wasm, each on the target that it is shipped for.
set -euo pipefail
# The workspace of the guests has settings of its own, which hold in its folder.
cd "$(dirname "$0")/../edge-wasm"
. ../scripts/env.sh

check() {
  local target="$1" packages=() name
  for name in "${@:2}"; do packages+=(--package "ropeline-edge-$name"); done
  cargo clippy --quiet --locked --target "$target" "${packages[@]}" -- -D warnings
}

check wasm32-unknown-unknown abi
check wasm32-wasip1 proxy-wasm fastly
check wasm32v1-none http-wasm
check wasm32-wasip2 wasi-http
