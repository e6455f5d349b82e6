# shellcheck shell=bash
# What `./yard test` and `./yard check` both run: a preset's tests, and the Python clients' venv.

# run_tests PRESET [CTEST ARGS] - leaves the reports of this run only: the contract check reads them.
run_tests() {
  local preset=$1
  shift
  rm -rf "build/$preset/reports"
  mkdir -p "build/$preset/reports"
  ctest --preset "$preset" --no-tests=error "$@"
}

# The clients' tests run without their venv when PyPI does not answer; that is said, not hidden.
prepare_clients() {
  local status=0
  tools/clients_venv.sh || status=$?
  if ((status == 3)); then
    record_proof "nvidia-ml-py clients" "skipped (PyPI does not answer)"
    return 0
  fi
  return "$status"
}
