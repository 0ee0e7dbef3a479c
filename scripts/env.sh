# Sourced by every recipe of the Makefile and by the scripts: puts rustup's tools on the PATH and chooses the
# toolchain that rust-toolchain.toml pins. Where rustup holds that version under another name only (`stable`,
# say), that one is used, so that nothing is downloaded twice and a machine without a network still builds.
cargo_bin="${CARGO_HOME:-$HOME/.cargo}/bin"
case ":$PATH:" in
*":$cargo_bin:"*) ;;
*) PATH="$cargo_bin:$PATH" && export PATH ;;
esac

ropeline_root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
rust_version="$(sed -n 's/^channel *= *"\(.*\)"/\1/p' "$ropeline_root/rust-toolchain.toml")"

if [ -z "${RUSTUP_TOOLCHAIN:-}" ] && command -v rustup >/dev/null; then
  installed_toolchains="$(rustup toolchain list -q 2>/dev/null)"
  if ! grep -q "^$rust_version\(-\|\$\)" <<<"$installed_toolchains"; then
    for name in $installed_toolchains; do
      if [[ "$(rustup run "$name" rustc --version 2>/dev/null)" == "rustc $rust_version "* ]]; then
        export RUSTUP_TOOLCHAIN="$name"
        break
      fi
    done
  fi
  unset installed_toolchains name
fi
