# Sourced by the scripts that install things: says what is done, and installs system packages on Debian and Ubuntu,
# as root or as a user who may use sudo, asking for nothing.
#
#   want PACKAGE REASON    puts a package on the list
#   install_packages       installs what is on the list

say() { printf '%s: %s\n' "$(basename "$0" .sh)" "$*" >&2; }
fail() { say "$*" && exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

# Debian keeps servers out of a user's path.
PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"

packages=()
reasons=()
want() { packages+=("$1") && reasons+=("$2"); }

as_root() {
  if [ "$(id -u)" = 0 ]; then
    env "$@"
  elif have sudo && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
    sudo env "$@"
  else
    say "not root, and sudo is not to be had; run as root: $*"
    return 1
  fi
}

# apt's own words are shown only when it fails.
apt() {
  local log
  log="$(mktemp)"
  if ! as_root DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 \
    -o DPkg::Lock::Timeout=300 "$@" </dev/null >"$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    return 1
  fi
  rm -f "$log"
}

install_packages() {
  [ ${#packages[@]} -gt 0 ] || return 0
  local i
  for i in "${!packages[@]}"; do say "${packages[$i]} is missing (${reasons[$i]})"; done
  if ! have apt-get; then
    say "this is no Debian or Ubuntu: please install these by hand: ${packages[*]}"
    return 1
  fi
  say "installing with apt-get: ${packages[*]}"
  if [ -z "${lists_refreshed:-}" ]; then
    apt update || say "some package lists could not be refreshed; going on with those there are"
    lists_refreshed=yes
  fi
  # Ubuntu has Chromium as a snap only, and its driver under another name.
  local chosen=() package
  for package in "${packages[@]}"; do
    if [[ "$(apt-cache policy "$package")" != *"Candidate: "[0-9]* ]]; then
      case "$package" in
      chromium) package=chromium-browser ;;
      chromium-driver) package=chromium-chromedriver ;;
      esac
    fi
    chosen+=("$package")
  done
  packages=()
  reasons=()
  apt install --yes --no-install-recommends "${chosen[@]}"
}
