# shellcheck shell=bash
# install_from_cargo NAME VERSION [--optimised] - builds a Rust program into build/clients/NAME, and ends
# the script with 0 ready, 3 no Rust toolchain or a registry that does not answer, 1 anything else. The
# program is kept by version in the user's cache, so that only a machine's first build pays for it.
# A build needs the program $also_needs, if that is set.
install_from_cargo() {
  local name=$1 pinned=$2 how=(--debug) kind=debug
  if [[ ${3:-} == --optimised ]]; then
    how=()
    kind=optimised
  fi
  local cache=${XDG_CACHE_HOME:-$HOME/.cache}/gpuyard/clients/$name-$pinned-$kind place=build/clients/$name

  if [[ ! -x $cache/bin/$name ]]; then
    local tool
    for tool in cargo ${also_needs:-}; do
      command -v "$tool" >/dev/null && continue
      echo "clients: no $tool; what needs $name cannot run" >&2
      exit 3
    done
    export CARGO_PROFILE_DEV_DEBUG=0 CARGO_NET_RETRY=1
    if ! cargo install --quiet --locked "${how[@]}" --version "$pinned" --root "$cache" --no-track "$name"; then
      # A build that breaks and a silent registry fail alike; whether it still lists the crate tells.
      if timeout 60 cargo info --quiet "$name@$pinned" >/dev/null 2>&1; then
        echo "clients: the registry answers, but $name $pinned could not be built" >&2
        exit 1
      fi
      echo "clients: the registry does not answer; what needs $name cannot run" >&2
      exit 3
    fi
    echo "clients: $name $pinned is ready"
  fi
  mkdir -p "$place"
  ln -sfn "$cache/bin/$name" "$place/$name"
  echo "$pinned" >"$place/ready"
}
