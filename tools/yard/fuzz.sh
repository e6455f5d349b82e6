# shellcheck shell=bash
# The fuzz stage of ./yard check --all: every target of fuzz/CMakeLists.txt runs for a while on its corpus
# and on what earlier runs found. A finding is an input in build/fuzz/findings; once it is mended, its
# input belongs into fuzz/corpus, where the tests of preset asan run it (fuzz/replay.cpp).

readonly fuzz_seconds=10

fuzz_targets() {
  sed -n 's/^gpuyard_fuzz(\([a-z0-9_]*\).*/\1/p' fuzz/CMakeLists.txt
}

# fuzz_one TARGET - one line when nothing was found; else the end of the fuzzer's words.
fuzz_one() {
  local name=$1 log="build/logs/fuzz-$1.log" learnt="build/fuzz/learnt/$1" runs status=0 words=()
  [[ -n $(ls -A "fuzz/corpus/$name") ]] || die "fuzz/corpus/$name is empty"
  mkdir -p build/logs build/fuzz/findings "$learnt"
  [[ ! -f fuzz/$name.dict ]] || words=("-dict=fuzz/$name.dict")
  "build/fuzz/fuzz/fuzz_$name" "${words[@]}" -max_total_time=$fuzz_seconds -timeout=10 -malloc_limit_mb=4 \
    -print_final_stats=1 -artifact_prefix="build/fuzz/findings/$name-" \
    "$learnt" "fuzz/corpus/$name" >"$log" 2>&1 || status=$?
  if ((status != 0)); then
    printf 'fuzz %s: FOUND SOMETHING (exit %d); all of it is in %s\n' "$name" "$status" "$log"
    tail -n 40 "$log"
    return 1
  fi
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  ((${runs:-0} > 0)) || die "fuzz $name ran nothing"
  printf 'fuzz %s: %d runs in %d s, nothing found\n' "$name" "$runs" "$fuzz_seconds"
}

run_fuzz() {
  local targets
  targets=$(fuzz_targets)
  [[ -n $targets ]] || die "fuzz/CMakeLists.txt names no target"
  export -f fuzz_one die say
  export fuzz_seconds
  xargs -P "$(nproc)" -I{} bash -euo pipefail -c 'fuzz_one {}' <<<"$targets"
}
