#!/usr/bin/env bash
# Licences, bans and sources always; advisories when their database can be fetched.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh

# One list for both workspaces, so that each finds exceptions in it that are the other's: those are no errors.
deny() {
  cargo deny --log-level error --all-features --workspace check "$@"
  cargo deny --config deny.toml --log-level error --all-features --workspace \
    --manifest-path edge-wasm/Cargo.toml check "$@"
}

deny bans licenses sources
if timeout 120 cargo deny --log-level error fetch db 2>/dev/null; then
  deny --disable-fetch advisories
else
  echo "deny: the advisory database cannot be reached from here; advisories were NOT checked" >&2
fi
