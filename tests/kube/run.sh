#!/usr/bin/env bash
# run.sh NEED [PYTEST ARGUMENTS] - runs pytest, without the tests marked `slow`, once tools/kube_NEED.sh says that
# its programs are built. Exit status 77, which CTest calls skipped, where they are not: `./yard fleet-test kube`
# builds them, and runs all tests.
set -euo pipefail
need=$1
shift
status=0
"$(dirname -- "${BASH_SOURCE[0]}")/../../tools/kube_$need.sh" >/dev/null || status=$?
case $status in
  0) exec "${GPUYARD_PYTHON:-python3}" -m pytest -m "not slow" "$@" ;;
  3) exit 77 ;;
  *) exit "$status" ;;
esac
