#!/bin/sh
# Serves the edge of this folder, as edge.env says, with the settings in settings/settings.json.
set -eu
cd "$(dirname "$0")"
set -a
. ./edge.env
set +a
# The component may look into that one folder, and reads the file again once a second.
# Without a pool there is no number of requests at once after which everybody gets a 500: memory is the limit.
exec wasmtime serve -S cli -O pooling-allocator=n -W max-memory-size=16777216 --addr "$LISTEN" --max-instance-reuse-count 1000 \
  --dir settings::settings --env ROPELINE_SETTINGS=settings.json \
  --env ROPELINE_GATEWAY --env ROPELINE_SHOP --env ROPELINE_CLIENT_ADDRESS ropeline_edge_wasi_http.wasm
