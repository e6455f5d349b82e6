#!/usr/bin/env bash
# Fetches Debian's openssh-server and unpacks it into build/clients/sshd. It is not installed, because
# its package would open port 22 of this machine.
# Exit status: 0 ready, 3 this is not Debian or its mirror does not answer, 1 anything else.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

readonly place=$PWD/build/clients/sshd

version=$(apt-cache policy openssh-server 2>/dev/null | awk '$1 == "Candidate:" { print $2 }')
if [[ -x $place/root/usr/sbin/sshd && -f $place/ready && (-z $version || $(<"$place/ready") == "$version") ]]; then
  exit 0
fi
if [[ -z $version ]] || ! command -v dpkg >/dev/null; then
  echo "clients_sshd: apt knows no openssh-server; the tests over ssh cannot run" >&2
  exit 3
fi

rm -rf "$place"
mkdir -p "$place"
if ! (cd "$place" && apt-get -qq -o Acquire::Retries=1 -o Acquire::http::Timeout=15 \
  -o APT::Sandbox::User="$(id -un)" download "openssh-server=$version"); then
  echo "clients_sshd: Debian's mirror does not answer; the tests over ssh cannot run" >&2
  exit 3
fi
dpkg -x "$place"/openssh-server_*.deb "$place/root"
echo "$version" >"$place/ready"
echo "clients_sshd: sshd $version is ready"
