# shellcheck shell=bash
# What every verb of ./yard needs: messages, how many jobs, and the build of one preset.
# Sourced by ./yard, with the repository root as the working directory.

say() { printf '%s\n' "$*" >&2; }

die() {
  say "yard: $*"
  exit 1
}

# shellcheck source=tools/yard/packages.sh
source tools/yard/packages.sh

# One compiler cache for all clones: paths below the root do not count.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

# In CI a warning is an error; at a desk it is a warning.
if [[ ${CI:-} == true ]]; then
  export GPUYARD_WARNINGS_AS_ERRORS=ON
fi

# Memory this process may still use, in MiB: what the kernel calls available, or a container's limit.
available_mib() {
  local mib limit
  mib=$(awk '$1 == "MemAvailable:" { print int($2 / 1024) }' /proc/meminfo)
  limit=$(cat /sys/fs/cgroup/memory.max 2>/dev/null || echo max)
  if [[ $limit =~ ^[0-9]+$ ]] && ((limit / 1048576 < mib)); then
    mib=$((limit / 1048576))
  fi
  echo "$mib"
}

# One job per core, but about 1 GB of memory for each: a file that includes Asio takes that much.
build_jobs() {
  local cores by_memory
  cores=$(nproc)
  by_memory=$(($(available_mib) / 1000))
  echo $((by_memory < 1 ? 1 : by_memory < cores ? by_memory : cores))
}

# configure PRESET - runs CMake only when the presets changed, or what they take from the environment.
# Changes to CMakeLists.txt are Ninja's business: it runs CMake again by itself.
configure() {
  local preset=$1 stamp="build/$1/.configured" wanted
  wanted="$(sha256sum CMakePresets.json) warnings_as_errors=${GPUYARD_WARNINGS_AS_ERRORS:-}"
  if [[ -f build/$preset/build.ninja && -f $stamp && $(<"$stamp") == "$wanted" ]]; then
    return
  fi
  cmake --preset "$preset"
  printf '%s\n' "$wanted" >"$stamp"
}

# The files of the API page; without them the program is built and says so.
prepare_web() {
  local status=0
  tools/web_assets.sh || status=$?
  ((status == 0 || status == 3)) || die "the files of the API page are not what web/package-lock.json pins"
}

# build PRESET [TARGET...] - configures where needed, then builds everything or the named targets.
build() {
  local preset=$1
  shift
  configure "$preset"
  cmake --build "build/$preset" --parallel "$(build_jobs)" ${1:+--target "$@"}
}
