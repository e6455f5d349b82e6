# shellcheck shell=bash
# ./yard torture [--minutes N] [--seed N] - chaos for leases, longer than the tests have time for.

yard_torture() {
  install_packages build test
  prepare_web
  build release
  GPUYARD_BIN=$YARD_ROOT/build/release/gpuyard \
    GPUYARD_SIM_LIB=$YARD_ROOT/build/release/sim/libnvidia-ml.so.1 \
    PYTHONPATH=tests:tests/process exec python3 tests/process/lease_torture.py "$@"
}
