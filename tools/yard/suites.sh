# shellcheck shell=bash
# Shared by `./yard check`, `./yard test` and `./yard clients`: a preset's tests, and foreign
# clients.

# build_and_test NAME PRESET REPORTS [CTEST ARGS] - two stages, "NAME build" and "NAME tests". What was started
# beside the build ends before the tests, which nothing should slow down.
build_and_test() {
  local name=$1 preset=$2
  shift
  shown_stage "$name build" build_tests "$preset"
  join_beside
  if stage_failed "$name build"; then
    skip_stage "$name tests" "the build failed"
  else
    shown_stage "$name tests" run_tests "$@"
  fi
}

# run_tests PRESET REPORTS [CTEST ARGS] - leaves in that folder the reports of this run only: the
# contract check reads them.
run_tests() {
  local preset=$1 reports="build/$1/$2"
  shift 2
  rm -rf "$reports"
  mkdir -p "$reports"
  ctest --preset "$preset" "$@"
}

# build_tests PRESET - of tsan only the programs of tests labelled `threads`, unless one of these
# tests is no program of its own.
build_tests() {
  local name targets=()
  if [[ $1 != tsan ]]; then
    build "$1"
    return
  fi
  configure tsan
  while IFS= read -r name; do
    if ! ninja -C build/tsan -t query "$name" >/dev/null 2>&1; then
      build tsan
      return
    fi
    targets+=("$name")
  done < <(ctest --preset tsan -N | sed -n 's/^ *Test *#[0-9]*: //p')
  ((${#targets[@]} > 0)) || die "no test carries the label 'threads'"
  build tsan "${targets[@]}"
}

# prepare_clients SCRIPT... - makes foreign clients ready. A client that cannot be had here (status
# 3) is skipped; that is said, not hidden.
prepare_clients() {
  local script status
  for script in "$@"; do
    status=0
    "$script" || status=$?
    case $status in
      0) ;;
      3) skip_proofs_of "$script" ;;
      *) return "$status" ;;
    esac
  done
}

# skip_proofs_of SCRIPT - with the reason that .ci/proofs.tsv allows.
skip_proofs_of() {
  local name reason script
  while IFS=$'\t' read -r name reason script; do
    [[ $script != "$1" ]] || record_proof "$name" "$reason"
  done <.ci/proofs.tsv
}
