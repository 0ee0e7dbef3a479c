#!/usr/bin/env bash
# Builds a guest of edge-wasm as it is shipped, if it is not built already, and prints where the module is. The same
# source gives the same bytes wherever it lies: no path of this machine gets into a module.
#
#   scripts/guest.sh PACKAGE TARGET PROFILE
set -euo pipefail
[ $# = 3 ] || { sed -n '2,5s/^# \{0,1\}//p' "$0" >&2 && exit 2; }
target="$(realpath --canonicalize-missing "${CARGO_TARGET_DIR:-$(dirname "$0")/../edge-wasm/target}")"
# The workspace of the guests has settings of its own, which hold in its folder.
cd "$(dirname "$0")/../edge-wasm"
. ../scripts/env.sh

commit="$(rustc -vV | sed -n 's/^commit-hash: //p')"

# The last that fits a path is taken.
flags=
for pair in "$HOME=/home" "${CARGO_HOME:-$HOME/.cargo}=/cargo" "$ropeline_root=/ropeline" "$target=/target" \
  "$(rustc --print sysroot)/lib/rustlib/src/rust=/rustc/$commit"; do
  flags+="'--remap-path-prefix=$pair',"
done

cargo build --quiet --locked --package "$1" --target "$2" --profile "$3" --target-dir "$target" \
  --config "target.$2.rustflags=[$flags]" >&2
echo "$target/$2/$3/${1//-/_}.wasm"
