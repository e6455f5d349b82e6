#!/usr/bin/env bash
# Builds tests/clients/go_nvml, a program on NVIDIA's own Go bindings, into build/clients/go-nvml.
# Exit status: 0 ready, 3 no Go toolchain or its module proxy does not answer, 1 anything else.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

readonly sources=tests/clients/go_nvml
readonly place=$PWD/build/clients/go-nvml
wanted=$(sha256sum "$sources"/*)

if [[ -x $place/list && -f $place/ready && $(<"$place/ready") == "$wanted" ]]; then
  exit 0
fi
if ! command -v go >/dev/null; then
  echo "clients_go_nvml: no Go toolchain here; the test with go-nvml cannot run" >&2
  exit 3
fi

mkdir -p "$place"
export GOTOOLCHAIN=local
if ! (cd "$sources" && timeout 120 go mod download); then
  echo "clients_go_nvml: the module proxy does not answer; the test with go-nvml cannot run" >&2
  exit 3
fi
(cd "$sources" && CGO_ENABLED=1 go build -buildvcs=false -mod=readonly -o "$place/list" .)
printf '%s\n' "$wanted" >"$place/ready"
echo "clients_go_nvml: go-nvml is ready"
