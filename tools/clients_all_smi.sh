#!/usr/bin/env bash
# tools/clients_all_smi.sh [--optimised] - builds all-smi, a Rust program that reads NVML, into
# build/clients/all-smi; optimised, as its users have it, it is a peer of the bench. A first build takes
# about 200 s of processor time, more if optimised.
# Exit status: 0 ready, 3 no Rust toolchain, no protoc or a registry that does not answer, 1 anything
# else.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
# shellcheck source=tools/clients_cargo.sh
source tools/clients_cargo.sh

# The newest whose build stays under three minutes on two cores: later ones bring an SSH
# implementation and a gRPC compiler with them.
readonly version=0.9.0
# shellcheck disable=SC2034 # of install_from_cargo
readonly also_needs=protoc
install_from_cargo all-smi "$version" "$@"
