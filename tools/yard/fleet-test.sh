# shellcheck shell=bash
# ./yard fleet-test view [--nodes N] [--rounds N] [--only speed|free|faults] - `gpuyard fleet` on a
# hundred real machines in namespaces of their own, against its bars; then whether `fleet free` tells
# the truth, and what is printed of each fault.
# ./yard fleet-test slurm [--jobs N] [--only speed|joules|storm|transcript] - the hooks of Slurm under
# Debian's own, against their bars: how long they take, and whether the joules of jobs add up.
# Both need root.

# shellcheck source=tools/yard/stages.sh
source tools/yard/stages.sh
# shellcheck source=tools/yard/suites.sh
source tools/yard/suites.sh

yard_fleet-test() {
  local script
  case ${1:-} in
    view) script=tests/fleet/view.py ;;
    slurm) script=tests/slurm/whole.py ;;
    *) die "fleet-test: say what to test: view or slurm" ;;
  esac
  shift
  install_packages build test
  prepare_clients tools/clients_sshd.sh tools/clients_slurm.sh
  build release gpuyard sim_nvml
  GPUYARD_BIN="$PWD/build/release/gpuyard" GPUYARD_SIM_LIB="$PWD/build/release/sim/libnvidia-ml.so.1" \
    /usr/bin/python3 "$script" "$@"
}
