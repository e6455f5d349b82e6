#!/usr/bin/env bash
# Builds tests/clients/kubelet, a server on the stubs of Kubernetes, into build/clients/kubelet.
# Exit status: 0 ready, 3 no Go toolchain or its module proxy does not answer, 1 anything else.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

readonly sources=tests/clients/kubelet
readonly place=$PWD/build/clients/kubelet
wanted=$(sha256sum "$sources"/*)

if [[ -x $place/server && -f $place/ready && $(<"$place/ready") == "$wanted" ]]; then
  exit 0
fi
if ! command -v go >/dev/null; then
  echo "clients_kubelet: no Go toolchain here; the test with the stubs of the kubelet cannot run" >&2
  exit 3
fi

mkdir -p "$place"
export GOTOOLCHAIN=local
if ! (cd "$sources" && timeout 120 go mod download); then
  echo "clients_kubelet: the module proxy does not answer; the test with the stubs of the kubelet cannot run" >&2
  exit 3
fi
(cd "$sources" && CGO_ENABLED=0 go build -buildvcs=false -mod=readonly -o "$place/server" .)
printf '%s\n' "$wanted" >"$place/ready"
echo "clients_kubelet: the server of the kubelet is ready"
