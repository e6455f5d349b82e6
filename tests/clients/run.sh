#!/usr/bin/env bash
# Runs pytest in the clients' venv. Exit status 77, which CTest calls skipped, where the venv is not
# ready: tools/clients_venv.sh makes it and says when PyPI does not answer.
set -euo pipefail
venv=$(dirname -- "${BASH_SOURCE[0]}")/../../build/venv
if [[ ! -f $venv/.requirements ]]; then
  echo "skipped: build/venv is not ready (PyPI did not answer when it was made)"
  exit 77
fi
exec "$venv/bin/python" -m pytest "$@"
