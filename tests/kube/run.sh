#!/usr/bin/env bash
# run.sh [PYTEST ARGUMENTS] - runs pytest once Kubernetes' control plane is built. Exit status 77, which CTest
# calls skipped, where it is not: `./yard fleet-test kube` builds it.
set -euo pipefail
status=0
"$(dirname -- "${BASH_SOURCE[0]}")/../../tools/kube_control_plane.sh" >/dev/null || status=$?
case $status in
  0) exec "${GPUYARD_PYTHON:-python3}" -m pytest "$@" ;;
  3) exit 77 ;;
  *) exit "$status" ;;
esac
