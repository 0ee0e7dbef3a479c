#!/usr/bin/env bash
# Runs every fuzz target for FUZZ_SECONDS (60 unless told), or only those named as arguments. Stops at the first
# crash; the input that made it is left in tests/fuzz/artifacts.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh

# Sanitizer and coverage flags are nightly's. Without a nightly toolchain the pinned one is told to accept them.
if rustup run nightly rustc --version >/dev/null 2>&1; then
  export RUSTUP_TOOLCHAIN=nightly
else
  export RUSTC_BOOTSTRAP=1
fi

targets=("$@")
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(cargo fuzz list --fuzz-dir tests/fuzz)
[ ${#targets[@]} -gt 0 ] || { echo "fuzz: no targets in tests/fuzz" >&2 && exit 1; }
for target in "${targets[@]}"; do
  echo "fuzz: $target for ${FUZZ_SECONDS:-60} s"
  cargo fuzz run --fuzz-dir tests/fuzz "$target" -- \
    -max_total_time="${FUZZ_SECONDS:-60}" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1
done
