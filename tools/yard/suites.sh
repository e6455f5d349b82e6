# shellcheck shell=bash
# What `./yard test` and `./yard check` both run: a preset's tests, and the foreign clients.

# run_tests PRESET [CTEST ARGS] - leaves the reports of this run only: the contract check reads them.
run_tests() {
  local preset=$1
  shift
  rm -rf "build/$preset/reports"
  mkdir -p "build/$preset/reports"
  # Most of them wait most of the time, and none asserts how long something takes.
  ctest --preset "$preset" --no-tests=error --parallel 2 "$@"
}

# Makes foreign clients ready: .ci/proofs.tsv names them and their scripts. A client that cannot be
# had here (status 3) is skipped; that is said, not hidden.
prepare_clients() {
  local script status
  while IFS= read -r script; do
    status=0
    "$script" || status=$?
    case $status in
      0) ;;
      3) skip_proofs_of "$script" ;;
      *) return "$status" ;;
    esac
  done < <(grep -v '^#' .ci/proofs.tsv | cut -sf 3 | grep . | uniq)
}

# skip_proofs_of SCRIPT - with the reason that .ci/proofs.tsv allows.
skip_proofs_of() {
  local name reason script
  while IFS=$'\t' read -r name reason script; do
    [[ $script != "$1" ]] || record_proof "$name" "$reason"
  done <.ci/proofs.tsv
}
