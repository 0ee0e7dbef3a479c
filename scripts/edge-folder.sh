#!/usr/bin/env bash
# Puts together the folder of a deployment that runs JavaScript: the files of cdn-config/NAME, with the package of
# edge-wasm/js and its module in `ropeline`.
#
#   scripts/edge-folder.sh NAME FOLDER    NAME is cloudflare, deno-netlify, vercel or lambda-edge
#   scripts/edge-folder.sh module FILE    the WebAssembly module alone
set -euo pipefail
[ $# = 2 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2 && exit 2; }
to="$(realpath --canonicalize-missing "$2")"
cd "$(dirname "$0")/.."
module="$(scripts/guest.sh ropeline-edge-abi wasm32-unknown-unknown abi)"

if [ "$1" = module ]; then
  cp "$module" "$to"
  exit
fi
[ -e "cdn-config/$1" ] && [ "$1" != . ] || { echo "no such folder: cdn-config/$1" >&2 && exit 2; }
mkdir -p "$to/ropeline"
# FOLDER may lie among these files itself, as it does in the pages' own command.
for file in "cdn-config/$1"/*; do
  [ "$(realpath "$file")" = "$to" ] || cp -R "$file" "$to/"
done
cp edge-wasm/js/*.js edge-wasm/js/*.d.ts edge-wasm/js/package.json edge-wasm/js/LICENSE "$to/ropeline/"
cp "$module" "$to/ropeline/ropeline_edge.wasm"
