# shellcheck shell=bash
# ./yard torture [--users] [--minutes N] [--seed N] - chaos for leases, longer than the tests have time
# for; with --users that of users who take whatever they can get.

yard_torture() {
  install_packages build test
  prepare_web
  build release
  local chaos=lease_torture
  if [[ ${1:-} == --users ]]; then
    chaos=users_at_once
    shift
  fi
  GPUYARD_BIN=$YARD_ROOT/build/release/gpuyard \
    GPUYARD_SIM_LIB=$YARD_ROOT/build/release/sim/libnvidia-ml.so.1 \
    PYTHONPATH=tests:tests/process exec python3 "tests/process/$chaos.py" "$@"
}
