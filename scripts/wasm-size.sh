#!/usr/bin/env bash
# Builds the guests and says how large they are. Exits with an error if one has grown past what its hosts take well, or
# is not the module whose SHA-256 stands in edge-wasm/modules.sha256.
#
#   scripts/wasm-size.sh [--record]    --record writes that file anew, after a change of a guest or of the compiler
set -euo pipefail
cd "$(dirname "$0")/.."
case "$*" in
'' | --record) ;;
*) sed -n '2,5s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
esac

recorded=edge-wasm/modules.sha256
sums=

# guest CRATE TARGET PROFILE LIMIT: the limit is in bytes, with gzip.
guest() {
  local module raw compressed
  module="$(scripts/guest.sh "$1" "$2" "$3")"
  raw="$(wc -c <"$module")"
  compressed="$(gzip -9nc "$module" | wc -c)"
  echo "wasm: $1 has $raw bytes, $compressed with gzip (at most $4)"
  [ "$compressed" -le "$4" ] || { echo "wasm: that is too much" >&2 && exit 1; }
  sums+="$(sha256sum <"$module" | cut -d ' ' -f 1)  ${module##*/}"$'\n'
}

guest ropeline-edge-abi wasm32-unknown-unknown abi 30000
guest ropeline-edge-proxy-wasm wasm32-wasip1 abi 70000
guest ropeline-edge-http-wasm wasm32v1-none abi 37000
guest ropeline-edge-wasi-http wasm32-wasip2 wasi-http 60000
guest ropeline-edge-fastly wasm32-wasip1 release 280000

if [ "$*" = --record ]; then
  printf %s "$sums" >"$recorded"
elif ! diff "$recorded" <(printf %s "$sums") >&2; then
  echo "wasm: other modules than in $recorded; if they are meant to be: scripts/wasm-size.sh --record" >&2
  exit 1
fi
