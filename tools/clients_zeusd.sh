#!/usr/bin/env bash
# tools/clients_zeusd.sh [--optimised] - builds zeusd, the daemon of the Zeus framework, into
# build/clients/zeusd: its answers are what ours are held against and, optimised as its users have it,
# its speed. The program is kept by version in the user's cache, so that only a machine's first build
# pays for it: about 150 s of processor time, three times that if optimised.
# Exit status: 0 ready, 3 no Rust toolchain or a registry that does not answer, 1 anything else.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

readonly version=0.5.0
cache=${XDG_CACHE_HOME:-$HOME/.cache}/gpuyard/clients/zeusd-$version
how=()
if [[ ${1:-} != --optimised ]]; then
  cache+=-debug
  how=(--debug)
fi
readonly place=build/clients/zeusd

install_cached() {
  mkdir -p "$place"
  ln -sfn "$cache/bin/zeusd" "$place/zeusd"
  echo "$version" >"$place/ready"
}

if [[ -x $cache/bin/zeusd ]]; then
  install_cached
  exit 0
fi
if ! command -v cargo >/dev/null; then
  echo "clients_zeusd: no Rust toolchain; what is held against zeusd cannot run" >&2
  exit 3
fi

export CARGO_PROFILE_DEV_DEBUG=0 CARGO_NET_RETRY=1
if ! cargo install --quiet --locked "${how[@]}" --version "$version" --root "$cache" --no-track zeusd; then
  # A build that breaks and a silent registry fail alike; whether it still lists the crate tells.
  if timeout 60 cargo info --quiet "zeusd@$version" >/dev/null 2>&1; then
    echo "clients_zeusd: the registry answers, but zeusd $version could not be built" >&2
    exit 1
  fi
  echo "clients_zeusd: the registry does not answer; what is held against zeusd cannot run" >&2
  exit 3
fi
install_cached
echo "clients_zeusd: zeusd $version is ready"
