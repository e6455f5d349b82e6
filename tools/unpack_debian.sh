#!/usr/bin/env bash
# tools/unpack_debian.sh [--from RELEASE COMPONENT] NAME FILE PACKAGE... - fetches Debian's packages
# and unpacks them into build/clients/NAME/root, where the file FILE, or one of that pattern, must
# then be. They are not installed: the packages of servers would start them on this machine. The
# first package is the one whose version counts.
#
#   --from RELEASE COMPONENT  takes them from a component (contrib, non-free) of this system's own
#                             mirror that is not among its sources; what is ready then stays
#
# Exit status: 0 ready, 3 this is not that Debian or its mirror does not answer, 1 anything else.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

release='' component=''
if [[ $1 == --from ]]; then
  release=$2 component=$3
  shift 3
fi
readonly name=$1 file=$2 release component
shift 2
readonly place=$PWD/build/clients/$name
readonly keyring=/usr/share/keyrings/debian-archive-keyring.gpg
apt_options=(-o Acquire::Retries=1 -o Acquire::http::Timeout=15 -o APT::Sandbox::User="$(id -un)")

not_to_be_had() {
  echo "unpack_debian: $1; what needs $name cannot run" >&2
  exit 3
}

is_unpacked() {
  compgen -G "$place/root/$file" >/dev/null
}

# Makes apt use that component of the mirror from which this system takes Debian itself, with lists of
# its own.
use_component() {
  local mirror
  # shellcheck disable=SC2016  # apt-get expands these
  mirror=$(apt-get indextargets --format '$(COMPONENT) $(CODENAME) $(ORIGIN) $(REPO_URI)' 2>/dev/null |
    awk -v release="$release" '$1 == "main" && $2 == release && $3 == "Debian" { print $4; exit }') ||
    true
  [[ -n $mirror ]] || not_to_be_had "this is not Debian's $release"
  mkdir -p "$place/lists/partial" "$place/archives/partial"
  echo "deb [signed-by=$keyring] $mirror $release $component" >"$place/component.list"
  apt_options+=(-o Dir::Etc::sourcelist="$place/component.list" -o Dir::Etc::sourceparts=/dev/null
    -o Dir::State::Lists="$place/lists" -o Dir::Cache="$place")
  apt-get -qq "${apt_options[@]}" -o APT::Update::Error-Mode=any update ||
    not_to_be_had "Debian's mirror does not answer"
}

candidate_of() {
  apt-cache "${apt_options[@]}" policy "$1" 2>/dev/null | awk '$1 == "Candidate:" { print $2 }'
}

if [[ -n $component ]]; then
  if is_unpacked && [[ -f $place/ready ]]; then
    exit 0
  fi
  rm -rf "$place"
  command -v apt-get >/dev/null || not_to_be_had "this is not Debian's $release"
  use_component
fi

version=$(candidate_of "$1" || true)
if is_unpacked && [[ -f $place/ready && (-z $version || $(<"$place/ready") == "$version") ]]; then
  exit 0
fi
if [[ -z $version || $version == "(none)" ]] || ! command -v dpkg >/dev/null; then
  not_to_be_had "apt knows no $1"
fi

[[ -n $component ]] || rm -rf "$place"
mkdir -p "$place"
(cd "$place" && apt-get -qq "${apt_options[@]}" download "$@") ||
  not_to_be_had "Debian's mirror does not answer"
for package in "$place"/*.deb; do
  dpkg -x "$package" "$place/root"
done
is_unpacked || {
  echo "unpack_debian: $1 $version has no $file" >&2
  exit 1
}
echo "$version" >"$place/ready"
echo "unpack_debian: $1 $version is ready"
