#!/usr/bin/env bash
# tools/clients_zeusd.sh [--optimised] - builds zeusd, the daemon of the Zeus framework, into
# build/clients/zeusd: its answers are what ours are held against and, optimised as its users have it,
# its speed. A first build takes about 150 s of processor time, three times that if optimised.
# Exit status: 0 ready, 3 no Rust toolchain or a registry that does not answer, 1 anything else.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
# shellcheck source=tools/clients_cargo.sh
source tools/clients_cargo.sh

readonly version=0.5.0
install_from_cargo zeusd "$version" "$@"
