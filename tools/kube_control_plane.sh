#!/usr/bin/env bash
# Kubernetes' control plane for tests: etcd, kube-apiserver, kube-scheduler and kube-controller-manager, as
# tests/kube/control_plane pins them.
#   tools/kube_control_plane.sh          prints the folder that holds them
#   tools/kube_control_plane.sh --build  builds them first where they are missing: five minutes on two cores
# The folder is in the user's cache (GPUYARD_KUBE_CACHE names another), because it must outlive the build
# folders; it bears the version of Kubernetes and appears when all four are complete.
# Exit status: 0 ready, 3 not in the cache (with --build: no Go toolchain, or its module proxy does not
# answer), 1 anything else.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

readonly sources=$PWD/tests/kube/control_plane
readonly cache=${GPUYARD_KUBE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/gpuyard}
version=$(sed -n 's/^require k8s.io\/kubernetes v//p; s/^\tk8s.io\/kubernetes v//p' "$sources/kubernetes/go.mod")
readonly version=${version%% *}
readonly place=$cache/kubernetes-$version
wanted=$(cd "$sources" && sha256sum ./*/go.mod ./*/go.sum)

is_ready() {
  [[ -f $place/ready && $(<"$place/ready") == "$wanted" ]]
}

# without WHAT - ends this where something is missing that only the machine can give.
without() {
  echo "kube_control_plane: $1; the tests with Kubernetes cannot run" >&2
  exit 3
}

# build_module FOLDER [GO BUILD ARGS] - builds the tools of that module into $building.
build_module() {
  local packages
  cd "$sources/$1"
  timeout 300 go mod download || without "the module proxy does not answer"
  mapfile -t packages < <(go mod edit -json | python3 -c '
import json, sys
print(*(tool["Path"] for tool in json.load(sys.stdin)["Tool"]), sep="\n")')
  CGO_ENABLED=0 go build -buildvcs=false -mod=readonly -o "$building/" "${@:2}" "${packages[@]}"
}

build_all() {
  local building names=k8s.io/component-base/version
  command -v go >/dev/null || without "no Go toolchain here"
  mkdir -p "$cache"
  building=$(mktemp -d "$place.XXXXXX")
  # shellcheck disable=SC2064 # this folder, whatever is in a variable later
  trap "rm -rf -- '$building'" EXIT
  export GOTOOLCHAIN=local
  build_module etcd -ldflags '-s -w'
  mv "$building/server" "$building/etcd"
  # As Kubernetes' own build does it: else it calls its version v0.0.0-master.
  build_module kubernetes -ldflags "-s -w -X $names.gitVersion=v$version -X $names.gitMajor=${version%%.*} \
    -X $names.gitMinor=$(cut -d. -f2 <<<"$version") -X $names.gitTreeState=clean"
  printf '%s\n' "$wanted" >"$building/ready"
  chmod 755 "$building"
  rm -rf -- "$place"
  mv -T -- "$building" "$place"
}

case ${1:-} in
  '') is_ready || without "Kubernetes $version is not in the cache: ./yard fleet-test kube builds it" ;;
  --build)
    if ! is_ready; then
      echo "kube_control_plane: builds Kubernetes $version into $place" >&2
      (build_all)
    fi
    ;;
  *)
    echo "usage: tools/kube_control_plane.sh [--build]" >&2
    exit 2
    ;;
esac
echo "$place"
