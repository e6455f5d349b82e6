#!/usr/bin/env bash
# Builds all-smi, a Rust program that reads NVML, into build/clients/all-smi. The program is kept by
# version in the user's cache, so that only a machine's first build pays for it: about 200 s of
# processor time, unoptimised and without debug information.
# Exit status: 0 ready, 3 no Rust toolchain, no protoc or a registry that does not answer, 1 anything
# else.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

# The newest whose build stays under three minutes on two cores: later ones bring an SSH
# implementation and a gRPC compiler with them.
readonly version=0.9.0
readonly cache=${XDG_CACHE_HOME:-$HOME/.cache}/gpuyard/clients/all-smi-$version
readonly place=build/clients/all-smi

install_cached() {
  mkdir -p "$place"
  ln -sfn "$cache/bin/all-smi" "$place/all-smi"
  echo "$version" >"$place/ready"
}

if [[ -x $cache/bin/all-smi ]]; then
  install_cached
  exit 0
fi
if ! command -v cargo >/dev/null || ! command -v protoc >/dev/null; then
  echo "clients_all_smi: no Rust toolchain or no protoc; the test with all-smi cannot run" >&2
  exit 3
fi

export CARGO_PROFILE_DEV_DEBUG=0 CARGO_NET_RETRY=1
if ! cargo install --quiet --locked --debug --version "$version" --root "$cache" --no-track all-smi; then
  # A build that breaks and a silent registry fail alike; whether it still lists the crate tells.
  if timeout 60 cargo info --quiet "all-smi@$version" >/dev/null 2>&1; then
    echo "clients_all_smi: the registry answers, but all-smi $version could not be built" >&2
    exit 1
  fi
  echo "clients_all_smi: the registry does not answer; the test with all-smi cannot run" >&2
  exit 3
fi
install_cached
echo "clients_all_smi: all-smi $version is ready"
