# shellcheck shell=bash
# ./yard test - builds release and runs every test but those of compiled clients (./yard clients);
# CTest's summary is the last thing printed.
# GPUYARD_CHECKED=ON leaves out what ./yard check has run under the sanitizers: the process tests that
# tests/CMakeLists.txt labels `memory`, and the programs of C++ tests that cmake/rooms.cmake labels
# `checked`, which are not built either.
# ./yard test --root RELEASE [CTEST ARGS] - the same, as root, in a root of that release of Debian with
# nothing in it but git: what no list in tools/packages names is missing there. debootstrap makes it
# once and the user's cache keeps it, with all that the tests have installed. It ends with the table of
# proofs, and fails when something was skipped for a reason that .ci/proofs.tsv does not allow.

# shellcheck source=tools/yard/stages.sh
source tools/yard/stages.sh
# shellcheck source=tools/yard/suites.sh
source tools/yard/suites.sh

yard_test() {
  local elsewhere=compiled-client
  if [[ ${1:-} == --root ]]; then
    test_in_root "${2:?./yard test --root RELEASE}" "${@:3}"
    return
  fi
  [[ ${GPUYARD_CHECKED:-} != ON ]] || elsewhere+='|memory|checked'
  shown_stage "test packages" install_packages build test
  stage "web assets" prepare_clients tools/web_assets.sh
  # They mostly wait: for PyPI, Debian's mirror and the proxy of Go modules.
  start_beside stage "foreign clients" prepare_clients \
    tools/clients_venv.sh tools/clients_nvtop.sh tools/clients_nvidia_library.sh tools/clients_sshd.sh tools/clients_slurm.sh \
    tools/clients_kubelet.sh tools/kube_control_plane.sh tools/kube_kubelet_node.sh
  build_and_test release release reports --label-exclude "^($elsewhere)\$" "$@"
  ((${#failed_stages[@]} == 0)) || return 1
}

# The commit that is checked out here is what is tested there; what git ignores stays here.
test_in_root() {
  local release=$1 root status
  shift
  ((EUID == 0)) || die "a root of its own takes root: sudo ./yard test --root $release"
  command -v debootstrap >/dev/null || install_packages package
  root=$(bare_root "$release") || die "no root of $release can be made here"
  rm -rf "$root/src.new"
  git clone -q --no-hardlinks . "$root/src.new"
  [[ ! -d $root/src/build ]] || mv "$root/src/build" "$root/src.new/build"
  rm -rf "$root/src"
  mv "$root/src.new" "$root/src"
  mkdir -p "$root/src/build"
  : >"$root/src/build/proofs.tsv"
  # shellcheck disable=SC2016
  run_strictly unshare --mount --pid --fork --kill-child bash -c '
    set -e
    mount --bind "$1" "$1"
    mount --rbind /dev "$1/dev"
    mount --rbind /sys "$1/sys"
    mount -t proc proc "$1/proc"
    mount -t tmpfs tmpfs "$1/tmp"
    mount -t tmpfs tmpfs "$1/run"
    mount --bind /etc/ssl/certs "$1/etc/ssl/certs" # a proxy may have one of its own
    cp -L /etc/resolv.conf "$1/etc/resolv.conf" 2>/dev/null || true
    # Every machine has one, but debootstrap makes none.
    [[ -e $1/etc/hosts ]] || printf "127.0.0.1 localhost\n::1 localhost\n" >"$1/etc/hosts"
    cd "$1"
    shift
    # Not chroot alone: a test that enters a mount namespace would be back in the root of this machine.
    mkdir -p .outside
    pivot_root . .outside
    exec chroot . sh -c "umount -l /.outside
      exec env -C /src HOME=/root YARD_PROOFS=/src/build/proofs.tsv ./yard test \"\$@\"" inside "$@"' \
    root "$root" "$@"
  show_proofs "$root/src/build/proofs.tsv"
  return "$status"
}

# bare_root RELEASE - prints where a root is in which nothing is installed but the packages of these very
# lists: of another state of tools/packages it is made again. ca-certificates is there from the start
# because its installation would rewrite the folder that is mounted from this machine.
bare_root() {
  local pristine root lists
  pristine=$(tools/debian_root.sh "$1" ca-certificates,git) || return
  root=$pristine-test
  lists=$(cat tools/packages/*.txt | sha256sum)
  if [[ ! -f $root/.lists || $(<"$root/.lists") != "$lists" ]]; then
    rm -rf "$root"
    cp -a "$pristine" "$root" || return
    printf '%s\n' "$lists" >"$root/.lists"
  fi
  echo "$root"
}

# show_proofs FILE - the table, and in $status a failure where a skip is not excused.
show_proofs() {
  local unexcused
  printf '\n'
  proofs_table "$1"
  unexcused=$(unexcused_skips "$1")
  if [[ -n $unexcused ]]; then
    say "Skipped for a reason that .ci/proofs.tsv does not allow: ${unexcused//$'\n'/, }"
    status=1
  fi
}
