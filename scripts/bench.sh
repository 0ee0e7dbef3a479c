#!/usr/bin/env bash
# Runs every benchmark of the workspace, one after another, or only those named as arguments. Never part of the
# tests: a busy machine would make them lie.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh

ran=0
while read -r file; do
  bench="$(basename "$file" .rs)"
  [ $# -eq 0 ] || [[ " $* " == *" $bench "* ]] || continue
  manifest="$(dirname "$(dirname "$file")")/Cargo.toml"
  echo "bench: $bench ($manifest)"
  packages=(--manifest-path "$manifest")
  if [ "$manifest" = tests/Cargo.toml ]; then
    # Whole-system benchmarks start these. Asked for together, what they share is built once.
    packages=(-p ropeline-gateway -p ropeline-origin -p ropeline-tests)
    cargo build --quiet --locked --release "${packages[@]}" --all-features --bins --examples
  fi
  cargo bench --quiet --locked "${packages[@]}" --all-features --bench "$bench"
  ran=$((ran + 1))
done < <(git ls-files --cached --others --exclude-standard '*/benches/*.rs' | grep -E '/benches/[^/]+\.rs$')
if [ $# -eq 0 ] || [[ " $* " == *" wasm "* ]]; then
  scripts/wasm-size.sh
  ran=$((ran + 1))
fi
[ "$ran" -gt 0 ] || { echo "bench: nothing of that name" >&2 && exit 1; }
