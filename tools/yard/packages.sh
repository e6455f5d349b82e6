# shellcheck shell=bash
# Debian packages by name: tools/packages/<group>.txt, one a line, `#` starts a comment; and packages
# from PyPI. Only what is missing is installed, so a second run calls neither apt nor pip.

# Behind a name, in brackets, are the releases that call it so, where they differ: [bookworm].

# The release of this machine by its codename, "bookworm", "noble".
release_here() {
  # shellcheck source=/dev/null
  (. /etc/os-release && printf '%s\n' "${VERSION_CODENAME:-unknown}")
}

# listed_packages GROUP... - lines of names, each with its releases behind it.
listed_packages() {
  local group
  for group in "$@"; do
    sed -e 's/#.*//' -e 's/[][]/ /g' "tools/packages/$group.txt"
  done | awk 'NF > 0' | sort -u
}

# packages_of GROUP... - the names in this release, one a line.
packages_of() {
  listed_packages "$@" | awk -v here="$(release_here)" '
    NF == 1 { print $1 }
    { for (i = 2; i <= NF; i++) if ($i == here) print $1 }' | sort -u
}

# unnamed_packages GROUP... - in a release that no list names: what the others call the rest.
unnamed_packages() {
  listed_packages "$@" | awk -v here="$(release_here)" '
    NF > 1 { for (i = 2; i <= NF; i++) { known[$i]; of[$i] = of[$i] " " $1 } }
    END { if (!(here in known)) for (release in known) printf "%s:%s\n", release, of[release] }'
}

# missing_packages NAME... - those that dpkg does not have installed, one a line.
missing_packages() {
  comm -23 <(printf '%s\n' "$@" | sort -u) \
    <(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "$@" 2>/dev/null |
      sed -n 's/^installed //p' | sort -u)
}

# installed_packages - the names of all lists that are installed here, one a line.
installed_packages() {
  command -v dpkg-query >/dev/null || return 0
  local groups=(tools/packages/*.txt) names
  groups=("${groups[@]##*/}")
  mapfile -t names < <(packages_of "${groups[@]%.txt}")
  comm -23 <(printf '%s\n' "${names[@]}") <(missing_packages "${names[@]}")
}

# install_packages GROUP... - says what it installs, and uses sudo when not root.
install_packages() {
  local names missing unnamed as_root=()
  mapfile -t names < <(packages_of "$@")
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    say "This is not Debian; going on with what is here. There it would be: ${names[*]}"
    return
  fi
  mapfile -t unnamed < <(unnamed_packages "$@")
  if ((${#unnamed[@]} > 0)); then
    say "No list in tools/packages names what this release ($(release_here)) calls these; elsewhere:" \
      "${unnamed[@]/#/
  }"
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
    die "apt could not install: ${missing[*]} (known are the names of Debian 12 and 13 and of Ubuntu 24.04; this is $(release_here))"
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
