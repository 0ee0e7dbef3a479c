#!/usr/bin/env bash
# Installs what is missing on a Debian or Ubuntu machine, says what it does, and asks for nothing.
# Silent when everything is there. Works as root, and as a user who may use sudo.
#
#   scripts/setup.sh build   what a release build needs
#   scripts/setup.sh test    what the whole test run needs
#   scripts/setup.sh lint    what a release build and the linters need
#   scripts/setup.sh bench   what a release build and the benchmarks need
#   scripts/setup.sh fuzz    what fuzzing needs
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh
. scripts/packages.sh

# Used when the tool is absent; whatever version is already installed is taken as it is.
NEXTEST_VERSION=0.9.143
DENY_VERSION=0.20.2
FUZZ_VERSION=0.13.2
LOCALSTRIPE_VERSION=1.15.10
AIOSMTPD_VERSION=1.4.6
SCHEMATHESIS_VERSION=4.32.5

# === System packages ===

for_build() {
  have cc || want gcc "dependencies with C sources"
  [ -e /usr/include/stdlib.h ] || want libc6-dev "C headers for those sources"
  have cmake || want cmake "builds zlib-ng for the proxy"
  have make || want make "for those builds"
  have pkg-config || want pkg-config "finds system libraries"
  have git || want git "dependency and advisory sources"
  have curl || have rustup || want curl "fetches the Rust installer"
  [ -e /etc/ssl/certs/ca-certificates.crt ] || want ca-certificates "trust roots for TLS"
}

for_test() {
  have chromium || have chromium-browser || have google-chrome || want chromium "browser tests"
  have chromedriver || want chromium-driver "browser tests"
  have redis-server || want redis-server "store tests"
  have ip || want iproute2 "tests of partitions"
  have postgres || have initdb || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null ||
    want postgresql "reservation tests"
  compgen -G '/usr/lib*/faketime/libfaketime.so.1' >/dev/null ||
    compgen -G '/usr/lib/*/faketime/libfaketime.so.1' >/dev/null ||
    want faketime "tests with the database's clock stepped"
  have node || want nodejs "tests of the waiting page's script"
  python3 -c 'import ensurepip' 2>/dev/null || want python3-venv "programs in Python that the reservation tests start"
}

for_bench() {
  have wrk || want wrk "load for the HTTP benchmarks"
  have nginx || want nginx-light "the proxy that ours is compared with"
  have postgres || have initdb || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null ||
    want postgresql "the database of the reservations' benchmark"
}

for_fuzz() {
  have c++ || want g++ "builds the fuzzing engine"
}

# === Rust ===

rust_toolchain() {
  if ! have rustup; then
    say "rustup is missing; installing it with its official installer into ${CARGO_HOME:-$HOME/.cargo}"
    curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs |
      sh -s -- -y --quiet --no-modify-path --profile minimal --default-toolchain none
  fi
  . scripts/env.sh
  local toolchain="${RUSTUP_TOOLCHAIN:-$rust_version}"
  if ! rustup run "$toolchain" rustc --version >/dev/null 2>&1; then
    say "installing Rust $toolchain"
    rustup toolchain install "$toolchain" --profile minimal --no-self-update
  fi
  local installed wanted name
  installed="$(rustup component list --toolchain "$toolchain" --installed)"
  for name in clippy rustfmt; do
    grep -q "^$name\b" <<<"$installed" && continue
    say "adding $name to Rust $toolchain"
    rustup component add --toolchain "$toolchain" "$name"
  done
  installed="$(rustup target list --toolchain "$toolchain" --installed)"
  wanted="$(sed -n 's/^targets *= *\[\(.*\)\]/\1/p' rust-toolchain.toml | tr -d '",')"
  for name in $wanted; do
    grep -qx "$name" <<<"$installed" && continue
    say "adding the target $name to Rust $toolchain"
    rustup target add --toolchain "$toolchain" "$name"
  done
}

# cargo_tool NAME VERSION: builds a cargo subcommand from its published source when it is absent. Built to be
# ready soon rather than to run fast: each works for seconds here.
cargo_tool() {
  have "$1" && return 0
  say "$1 is missing; building version $2 (a few minutes, once)"
  CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_OPT_LEVEL=1 \
    CARGO_PROFILE_RELEASE_DEBUG=0 \
    cargo install --quiet --locked --version "$2" "$1"
}

# === Stand-ins for others, and who puts the service to the test ===

# python_tool NAME VERSION: in a folder of its own in the cache; origin/tests/suite/ starts it from there.
python_tool() {
  local folder="${XDG_CACHE_HOME:-$HOME/.cache}/ropeline/$1-$2"
  [ -e "$folder/ready" ] && return 0
  say "$1 is missing; installing version $2 into $folder"
  python3 -m venv --clear "$folder"
  "$folder/bin/pip" install --quiet --disable-pip-version-check "$1==$2"
  touch "$folder/ready"
}

# === What for ===

case "${1:-}" in
build)
  for_build
  install_packages
  rust_toolchain
  ;;
test)
  for_build
  for_test
  install_packages
  rust_toolchain
  cargo_tool cargo-nextest "$NEXTEST_VERSION"
  cargo_tool cargo-deny "$DENY_VERSION"
  scripts/edge-hosts.sh
  python_tool localstripe "$LOCALSTRIPE_VERSION"
  python_tool aiosmtpd "$AIOSMTPD_VERSION"
  python_tool schemathesis "$SCHEMATHESIS_VERSION"
  ;;
lint)
  for_build
  install_packages
  rust_toolchain
  cargo_tool cargo-deny "$DENY_VERSION"
  ;;
bench)
  for_build
  for_bench
  install_packages
  rust_toolchain
  scripts/edge-hosts.sh
  ;;
fuzz)
  for_build
  for_fuzz
  install_packages
  rust_toolchain
  cargo_tool cargo-fuzz "$FUZZ_VERSION"
  ;;
*)
  fail "usage: scripts/setup.sh build|test|lint|bench|fuzz"
  ;;
esac
