#!/usr/bin/env bash
# Builds tests/clients/kubelet, a server on the stubs of Kubernetes, into build/clients/kubelet.
# Exit status: 0 ready, 3 no Go toolchain or its module proxy does not answer, 1 anything else.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
# shellcheck source=tools/clients_go.sh
source tools/clients_go.sh

export CGO_ENABLED=0
build_go_client kubelet server "the stubs of the kubelet"
echo "clients_kubelet: the server of the kubelet is ready"
