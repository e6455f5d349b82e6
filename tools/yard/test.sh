# shellcheck shell=bash
# ./yard test - builds release and runs every test but those of compiled clients (./yard clients);
# CTest's summary is the last thing printed.
# ./yard test --root RELEASE [CTEST ARGS] - the same in another release of Debian, on demand: as root,
# in a root that debootstrap makes once and the user's cache keeps.

# shellcheck source=tools/yard/stages.sh
source tools/yard/stages.sh
# shellcheck source=tools/yard/suites.sh
source tools/yard/suites.sh

yard_test() {
  if [[ ${1:-} == --root ]]; then
    test_in_root "${2:?./yard test --root RELEASE}" "${@:3}"
    return
  fi
  shown_stage "test packages" install_packages build test
  stage "foreign clients" prepare_clients \
    tools/clients_venv.sh tools/clients_nvtop.sh tools/clients_sshd.sh tools/web_assets.sh
  build_and_test release release reports --label-exclude compiled-client "$@"
  ((${#failed_stages[@]} == 0)) || return 1
}

# Where this machine's own packages come from; debootstrap's default if that cannot be told.
debian_mirror() {
  { cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null || true; } |
    awk '($1 == "URIs:" || $1 == "deb") && $2 ~ /debian\/?$/ && !found++ { print $2 }'
}

# The commit that is checked out here is what is tested there; what git ignores stays here.
test_in_root() {
  local release=$1 root=${XDG_CACHE_HOME:-$HOME/.cache}/gpuyard/root-$1 mirror
  shift
  ((EUID == 0)) || die "a root of its own takes root: sudo ./yard test --root $release"
  command -v debootstrap >/dev/null || install_packages package
  mirror=$(debian_mirror)
  if [[ ! -d $root ]]; then
    say "Making a root of $release in $root."
    mkdir -p "$root.new"
    debootstrap --variant=minbase --include=ca-certificates,git,sudo,procps,iproute2 "$release" "$root.new" \
      ${mirror:+"$mirror"} >/dev/null || die "debootstrap could not make a root of $release"
    mv "$root.new" "$root"
  fi
  rm -rf "$root/src.new"
  git clone -q --no-hardlinks . "$root/src.new"
  [[ ! -d $root/src/build ]] || mv "$root/src/build" "$root/src.new/build"
  rm -rf "$root/src"
  mv "$root/src.new" "$root/src"
  # shellcheck disable=SC2016
  unshare --mount --pid --fork --kill-child bash -c '
    set -e
    mount --rbind /dev "$1/dev"
    mount --rbind /sys "$1/sys"
    mount -t proc proc "$1/proc"
    mount -t tmpfs tmpfs "$1/tmp"
    mount -t tmpfs tmpfs "$1/run"
    cp -L /etc/resolv.conf "$1/etc/resolv.conf" 2>/dev/null || true
    root=$1
    shift
    exec chroot "$root" env -C /src HOME=/root ./yard test "$@"' root "$root" "$@"
}
