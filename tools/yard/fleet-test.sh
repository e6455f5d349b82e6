# shellcheck shell=bash
# ./yard fleet-test view [--nodes N] [--rounds N] [--only speed|free|faults] - `gpuyard fleet` on a
# hundred real machines in namespaces of their own, against its bars; then whether `fleet free` tells
# the truth, and what is printed of each fault.
# ./yard fleet-test slurm [--jobs N] [--only speed|run|joules|storm|transcript] - the hooks of
# Slurm and `gpuyard run` under Debian's own, against their bars: how long they take, and whether the joules of
# jobs add up.
# ./yard fleet-test kube [PYTEST ARGS] - the tests of tests/kube with the real control plane of Kubernetes;
# with --figures [--nodes N] [--rounds N] [--quiet SECONDS] [--crowd AGENTS] what its agents take, against their
# bars; with --soak [--minutes N] [--seed N] half an hour of faults, after which nothing of theirs may be left.
# The first run builds it, in five to ten minutes, and needs a Go toolchain; the user's cache keeps it.
# The first two need root.

# shellcheck source=tools/yard/stages.sh
source tools/yard/stages.sh
# shellcheck source=tools/yard/suites.sh
source tools/yard/suites.sh

yard_fleet-test() {
  local what=${1:-} words
  case $what in
    view) words=(tests/fleet/view.py) ;;
    slurm) words=(tests/slurm/whole.py) ;;
    kube) words=(-m pytest -q -p no:cacheprovider tests/kube) ;;
    *) die "fleet-test: say what to test: view, slurm or kube" ;;
  esac
  shift
  case $what-${1:-} in
    kube---figures | kube---soak)
      words=("tests/kube/${1#--}.py")
      shift
      ;;
  esac
  install_packages build test
  if [[ $what == kube ]]; then
    tools/kube_control_plane.sh --build
    tools/kube_kubelet_node.sh --build
  else
    prepare_clients tools/clients_sshd.sh tools/clients_slurm.sh
  fi
  build release gpuyard sim_nvml
  GPUYARD_BIN="$PWD/build/release/gpuyard" GPUYARD_SIM_LIB="$PWD/build/release/sim/libnvidia-ml.so.1" \
    /usr/bin/python3 "${words[@]}" "$@"
}
