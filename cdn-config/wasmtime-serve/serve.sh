#!/bin/sh
# Serves the edge of this folder, as edge.env and settings.env say.
set -eu
cd "$(dirname "$0")"
set -a
. ./edge.env
. ./settings.env
set +a
exec wasmtime serve -S cli -W max-memory-size=16777216 --addr "$LISTEN" --max-instance-reuse-count 1000 \
  --env ROPELINE_SETTINGS --env ROPELINE_GATEWAY --env ROPELINE_SHOP --env ROPELINE_CLIENT_ADDRESS \
  ropeline_edge_wasi_http.wasm
