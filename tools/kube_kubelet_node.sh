#!/usr/bin/env bash
# The program of tests/kube/node: a kubelet's device manager and PodResources server, of the version that
# tests/kube/control_plane pins.
#   tools/kube_kubelet_node.sh          prints its path
#   tools/kube_kubelet_node.sh --build  builds it first where it is missing or its sources have changed: five
#                                       minutes of CPU time without Go's build cache, seconds with it
# It lies beside the control plane (tools/kube_control_plane.sh), which the same tests need.
# Exit status: 0 ready, 3 not in the cache (with --build: no Go toolchain, or its module proxy does not
# answer), 1 anything else.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

readonly sources=tests/kube/node modules=tests/kube/control_plane/kubernetes
place=$(tools/kube_control_plane.sh) || exit
readonly program=$place/kubelet-node
wanted=$(sha256sum "$sources"/*.go "$modules"/go.{mod,sum})

is_ready() {
  [[ -x $program && -f $program.sources && $(<"$program.sources") == "$wanted" ]]
}

# without WHAT - ends this where something is missing that only the machine can give.
without() {
  echo "kube_kubelet_node: $1; the tests with a kubelet's device manager cannot run" >&2
  exit 3
}

build_program() {
  local building
  command -v go >/dev/null || without "no Go toolchain here"
  building=$(mktemp -d "$program.XXXXXX")
  # shellcheck disable=SC2064 # this folder, whatever is in a variable later
  trap "rm -rf -- '$building'" EXIT
  export GOTOOLCHAIN=local
  # Files outside the module are built with the versions that it pins.
  cd "$modules"
  timeout 300 go mod download || without "the module proxy does not answer"
  CGO_ENABLED=0 go build -buildvcs=false -mod=readonly -ldflags '-s -w' -o "$building/kubelet-node" \
    "$OLDPWD/$sources"/*.go
  rm -f "$program.sources"
  mv -T -- "$building/kubelet-node" "$program" # one that runs goes on
  printf '%s\n' "$wanted" >"$program.sources"
}

case ${1:-} in
  '') is_ready || without "$program is not in the cache: ./yard fleet-test kube builds it" ;;
  --build)
    if ! is_ready; then
      echo "kube_kubelet_node: builds $program" >&2
      (build_program)
    fi
    ;;
  *)
    echo "usage: tools/kube_kubelet_node.sh [--build]" >&2
    exit 2
    ;;
esac
echo "$program"
