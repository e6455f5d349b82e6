#!/usr/bin/env bash
# Prepares build/venv, the Python that real NVML clients run in, from tests/clients/requirements.txt.
# Does nothing when it is already there for these requirements.
# Exit status: 0 ready, 3 PyPI does not answer, 1 anything else.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

readonly requirements=tests/clients/requirements.txt
readonly venv=build/venv
readonly stamp=$venv/.requirements
wanted=$(sha256sum "$requirements")

if [[ -x $venv/bin/python && -f $stamp && $(<"$stamp") == "$wanted" ]]; then
  exit 0
fi

pip() {
  "$venv/bin/python" -m pip --disable-pip-version-check --no-input --retries 1 --timeout 15 "$@"
}

mkdir -p build
python3 -m venv --clear "$venv"
if ! pip install --quiet --requirement "$requirements"; then
  # A wrong pin and a silent PyPI fail alike; whether PyPI still lists a package tells them apart.
  if pip index versions nvidia-ml-py >/dev/null 2>&1; then
    echo "clients_venv: PyPI answers, but $requirements could not be installed" >&2
    exit 1
  fi
  echo "clients_venv: PyPI does not answer; tests with real Python clients cannot run" >&2
  exit 3
fi
printf '%s\n' "$wanted" >"$stamp"
echo "clients_venv: $venv is ready"
