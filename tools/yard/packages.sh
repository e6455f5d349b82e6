# shellcheck shell=bash
# Debian packages by name: tools/packages/<group>.txt, one a line, `#` starts a comment; and packages
# from PyPI. Only what is missing is installed, so a second run calls neither apt nor pip.

# packages_of GROUP... - the names, one a line.
packages_of() {
  local group
  for group in "$@"; do
    sed -e 's/#.*//' -e 's/[[:space:]]//g' -e '/^$/d' "tools/packages/$group.txt"
  done | sort -u
}

# missing_packages NAME... - those that dpkg does not have installed, one a line.
missing_packages() {
  comm -23 <(printf '%s\n' "$@" | sort -u) \
    <(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "$@" 2>/dev/null |
      sed -n 's/^installed //p' | sort -u)
}

# install_packages GROUP... - says what it installs, and uses sudo when not root.
install_packages() {
  local names missing as_root=()
  mapfile -t names < <(packages_of "$@")
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    say "This is not Debian; going on with what is here. On Debian 12 it would be: ${names[*]}"
    return
  fi
  mapfile -t missing < <(missing_packages "${names[@]}")
  if ((${#missing[@]} == 0)); then
    return
  fi
  if ((EUID != 0)); then
    as_root=(sudo)
    if ! command -v sudo >/dev/null; then
      say "Not root and no sudo; going on without: ${missing[*]}"
      return
    fi
  fi
  say "Installing with apt: ${missing[*]}"
  if [[ " ${missing[*]} " == *" libboost1.81-dev "* &&
    -z $(missing_packages libboost1.74-dev) ]]; then
    say "libboost1.74-dev is installed; it conflicts with libboost1.81-dev: apt will replace it."
  fi
  as_root+=(env DEBIAN_FRONTEND=noninteractive)
  "${as_root[@]}" apt-get update -qq >/dev/null ||
    say "apt-get update failed; trying with the package lists that are here."
  "${as_root[@]}" apt-get install -y -qq --no-install-recommends \
    -o DPkg::Lock::Timeout=120 "${missing[@]}" >/dev/null ||
    die "apt could not install: ${missing[*]} (gpuyard is built on Debian 12)"
}

# prepare_venv VENV REQUIREMENTS - a Python of its own with packages from PyPI, once for each set of
# versions.
prepare_venv() {
  local venv=$1 requirements=$2 wanted
  wanted=$(sha256sum "$requirements")
  [[ ! -f $venv/.requirements || $(<"$venv/.requirements") != "$wanted" ]] || return 0
  python3 -m venv --clear "$venv"
  "$venv/bin/python" -m pip --disable-pip-version-check --no-input install --quiet \
    --requirement "$requirements" || die "what $requirements names could not be installed from PyPI"
  printf '%s\n' "$wanted" >"$venv/.requirements"
}
