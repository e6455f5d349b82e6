#!/usr/bin/env bash
# tools/unpack_debian.sh NAME PROGRAM PACKAGE... - fetches Debian's packages and unpacks them into
# build/clients/NAME/root, where the file PROGRAM must then be. They are not installed, because their
# packages would start a server on this machine. The first package is the one whose version counts.
# Exit status: 0 ready, 3 this is not Debian or its mirror does not answer, 1 anything else.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

readonly name=$1 program=$2
shift 2
readonly place=$PWD/build/clients/$name

version=$(apt-cache policy "$1" 2>/dev/null | awk '$1 == "Candidate:" { print $2 }')
if [[ -x $place/root/$program && -f $place/ready && (-z $version || $(<"$place/ready") == "$version") ]]; then
  exit 0
fi
if [[ -z $version ]] || ! command -v dpkg >/dev/null; then
  echo "unpack_debian: apt knows no $1; what needs it cannot run" >&2
  exit 3
fi

rm -rf "$place"
mkdir -p "$place"
if ! (cd "$place" && apt-get -qq -o Acquire::Retries=1 -o Acquire::http::Timeout=15 \
  -o APT::Sandbox::User="$(id -un)" download "$@"); then
  echo "unpack_debian: Debian's mirror does not answer; what needs $1 cannot run" >&2
  exit 3
fi
for package in "$place"/*.deb; do
  dpkg -x "$package" "$place/root"
done
echo "$version" >"$place/ready"
echo "unpack_debian: $1 $version is ready"
