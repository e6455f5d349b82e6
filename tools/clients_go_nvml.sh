#!/usr/bin/env bash
# Builds tests/clients/go_nvml, a program on NVIDIA's own Go bindings, into build/clients/go-nvml.
# Exit status: 0 ready, 3 no Go toolchain or its module proxy does not answer, 1 anything else.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
# shellcheck source=tools/clients_go.sh
source tools/clients_go.sh

export CGO_ENABLED=1
build_go_client go_nvml list go-nvml
echo "clients_go_nvml: go-nvml is ready"
