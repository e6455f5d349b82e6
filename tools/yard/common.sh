# shellcheck shell=bash
# Shared by the verbs of ./yard: messages, how many jobs, and the build of one preset.
# Sourced by ./yard, with the repository root as the working directory.

say() { printf '%s\n' "$*" >&2; }

die() {
  say "yard: $*"
  exit 1
}

# shellcheck source=tools/yard/packages.sh
source tools/yard/packages.sh
# shellcheck source=tools/yard/progress.sh
source tools/yard/progress.sh

# Memory of the largest compile step, in MiB (1,788 were measured, in preset asan): with a smaller
# figure a laptop runs out of memory.
readonly mib_per_job=1800

# One compiler cache for all clones: paths below the root do not count.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

# In CI a warning is an error; at a desk it is a warning.
if [[ ${CI:-} == true ]]; then
  export GPUYARD_WARNINGS_AS_ERRORS=ON
fi

# Memory this process may still use, in MiB: what the kernel calls available, or a container's
# limit.
available_mib() {
  local mib limit
  mib=$(awk '$1 == "MemAvailable:" { print int($2 / 1024) }' /proc/meminfo)
  limit=$(cat /sys/fs/cgroup/memory.max 2>/dev/null || echo max)
  if [[ $limit =~ ^[0-9]+$ ]] && ((limit / 1048576 < mib)); then
    mib=$((limit / 1048576))
  fi
  echo "$mib"
}

# One job per core, as far as the memory lasts.
build_jobs() {
  local cores by_memory
  cores=$(nproc)
  by_memory=$(($(available_mib) / mib_per_job))
  echo $((by_memory < 1 ? 1 : by_memory < cores ? by_memory : cores))
}

# configure PRESET - runs CMake where the presets changed, what they take from the environment, or the
# packages that are installed: CMake finds what another verb has installed since only when it runs
# again. Ninja runs it where a CMakeLists.txt changed.
configure() {
  local preset=$1 stamp="build/$1/.configured" wanted
  wanted="$(sha256sum CMakePresets.json) warnings_as_errors=${GPUYARD_WARNINGS_AS_ERRORS:-} checked=${GPUYARD_CHECKED:-}
$(installed_packages)"
  if [[ -f build/$preset/build.ninja && -f $stamp && $(<"$stamp") == "$wanted" ]]; then
    ninja -C "build/$preset" build.ninja
    return
  fi
  cmake --preset "$preset" || return
  printf '%s\n' "$wanted" >"$stamp"
}

# The files of the API page; without them the program is built and says so.
prepare_web() {
  local status=0
  tools/web_assets.sh || status=$?
  ((status == 0 || status == 3)) || die "the files of the API page are not what web/package-lock.json pins"
}

# count_steps PRESET [TARGET...] - how many steps Ninja would run. It gets build.ninja by its full path:
# under its own name Ninja counts only the steps that would make build.ninja again, and stops there.
count_steps() {
  NINJA_STATUS='[%f/%t] ' ninja -C "build/$1" -f "$PWD/build/$1/build.ninja" -n "${@:2}" 2>/dev/null |
    grep -c '^\[' || true
}

# build PRESET [TARGET...] - configures where needed, then builds everything or the named targets.
# Says on stderr what it does; all of the output is in build/logs/build-PRESET.log.
build() {
  mkdir -p build/logs
  (
    flock 9 # stages run beside each other, and two Ninjas in one folder do not
    build_locked "$@"
  ) 9>"build/logs/build-$1.lock"
}

build_locked() {
  local preset=$1 log="build/logs/build-$1.log" steps began=$SECONDS
  shift
  if ! configure "$preset" >"$log" 2>&1; then
    say "Configuring $preset FAILED; all of it is in $log:"
    tail -n 40 "$log" >&2
    return 1
  fi
  steps=$(count_steps "$preset" "$@")
  if ((steps > 0)); then
    say "Building $preset: $steps steps, $(build_forecast "$preset" "$steps"); all output goes to $log."
  fi
  NINJA_STATUS='[%f/%t] ' ninja -C "build/$preset" -j "$(build_jobs)" "$@" 2>&1 |
    show_steps "$log" || return
  remember_build "$preset" "$steps" $((SECONDS - began))
}
