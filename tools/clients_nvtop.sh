#!/usr/bin/env bash
# Fetches Debian's nvtop, which is in contrib and so not among this system's sources, and unpacks it
# into build/clients/nvtop. Nothing is installed.
# Exit status: 0 ready, 3 this is not Debian 12 or its mirror does not answer, 1 anything else.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

readonly version=3.0.1-1
readonly keyring=/usr/share/keyrings/debian-archive-keyring.gpg
readonly place=$PWD/build/clients/nvtop

if [[ -x $place/root/usr/bin/nvtop && -f $place/ready && $(<"$place/ready") == "$version" ]]; then
  exit 0
fi

# The mirror this system takes Debian itself from.
source_line() {
  # shellcheck disable=SC2016  # apt-get expands these
  apt-get indextargets --format '$(COMPONENT) $(CODENAME) $(ORIGIN) $(REPO_URI)' |
    awk -v key="$keyring" '$1 == "main" && $2 == "bookworm" && $3 == "Debian" {
      print "deb [signed-by=" key "]", $4, "bookworm contrib"; exit }'
}

line=$(source_line 2>/dev/null || true)
if [[ -z $line ]] || ! command -v dpkg >/dev/null; then
  echo "clients_nvtop: this is not Debian 12; the test with nvtop cannot run" >&2
  exit 3
fi

rm -rf "$place"
mkdir -p "$place/lists/partial" "$place/archives/partial"
printf '%s\n' "$line" >"$place/contrib.list"
apt() {
  apt-get -qq -o Acquire::Retries=1 -o Acquire::http::Timeout=15 \
    -o Dir::Etc::sourcelist="$place/contrib.list" -o Dir::Etc::sourceparts=/dev/null \
    -o Dir::State::Lists="$place/lists" -o Dir::Cache="$place" \
    -o APT::Sandbox::User="$(id -un)" "$@"
}
if ! apt -o APT::Update::Error-Mode=any update; then
  echo "clients_nvtop: Debian's mirror does not answer; the test with nvtop cannot run" >&2
  exit 3
fi
(cd "$place" && apt download "nvtop=$version")
dpkg -x "$place"/nvtop_*.deb "$place/root"
echo "$version" >"$place/ready"
echo "clients_nvtop: nvtop $version is ready"
