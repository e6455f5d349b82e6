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
    tools/clients_venv.sh tools/clients_nvtop.sh tools/clients_sshd.sh tools/clients_slurm.sh \
    tools/web_assets.sh
  build_and_test release release reports --label-exclude compiled-client "$@"
  ((${#failed_stages[@]} == 0)) || return 1
}

# The commit that is checked out here is what is tested there; what git ignores stays here.
test_in_root() {
  local release=$1 root
  shift
  ((EUID == 0)) || die "a root of its own takes root: sudo ./yard test --root $release"
  command -v debootstrap >/dev/null || install_packages package
  root=$(tools/debian_root.sh "$release" ca-certificates,git,sudo,procps,iproute2) ||
    die "no root of $release can be made here"
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
    mount --bind /etc/ssl/certs "$1/etc/ssl/certs" # a proxy may have one of its own
    cp -L /etc/resolv.conf "$1/etc/resolv.conf" 2>/dev/null || true
    root=$1
    shift
    exec chroot "$root" env -C /src HOME=/root ./yard test "$@"' root "$root" "$@"
}
