#!/usr/bin/env bash
# run.sh CLIENT [PYTEST ARGUMENTS] - runs pytest once CLIENT is ready: `venv`, in whose Python it then
# runs, or one of build/clients. Exit status 77, which CTest calls skipped, where it is not:
# tools/clients_*.sh make them ready and say why they cannot.
set -euo pipefail
client=$1
shift
build=$(dirname -- "${BASH_SOURCE[0]}")/../../build
if [[ $client == venv ]]; then
  ready=$build/venv/.requirements
  python=$build/venv/bin/python
else
  ready=$build/clients/$client/ready
  python=${GPUYARD_PYTHON:-python3}
fi
if [[ ! -f $ready ]]; then
  echo "skipped: $client is not ready (it could not be had when it was last tried)"
  exit 77
fi
exec "$python" -m pytest "$@"
