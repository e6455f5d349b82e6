#!/usr/bin/env bash
# A root of Debian with nothing of ours in it, made once for a set of packages and kept in the user's
# cache: prints where it is. Nobody writes into it but who asked for a set of its own.
#
#   tools/debian_root.sh [RELEASE [PACKAGE,...]]   by default the machine that tests/package boots
#
# Exit status 3: none can be made here.
set -euo pipefail

release=${1:-bookworm}
packages=${2:-systemd,systemd-sysv,dbus,procps,util-linux}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/gpuyard
mark=$(sha256sum <<<"$packages")
root=$cache/root-$release-${mark:0:12}

if [[ -d $root ]]; then
  echo "$root"
  exit
fi
if ((EUID != 0)) || ! command -v debootstrap >/dev/null; then
  echo "a root of Debian takes root, and debootstrap" >&2
  exit 3
fi
# The source of this machine's own packages.
# shellcheck disable=SC2016  # apt-get expands these
mirror=$(apt-get indextargets --format '$(ORIGIN) $(CODENAME) $(REPO_URI)' 2>/dev/null |
  awk '$1 == "Debian" && $2 !~ /-/ && !found++ { print $3 }' || true)
mkdir -p "$cache"
fresh=$(mktemp -d "$cache/fresh-XXXXXX")
trap 'rm -rf "$fresh"' EXIT
chmod 755 "$fresh"
if ! debootstrap --variant=minbase --include="$packages" "$release" "$fresh" ${mirror:+"$mirror"} >&2; then
  exit 3
fi
rm -rf "$fresh"/var/cache/apt/archives/*.deb
mv "$fresh" "$root"
echo "$root"
