# shellcheck shell=bash
# ./yard clients [--changed] - the tests with foreign clients that have to be compiled first, in Rust and
# Go: some ten minutes on a machine that has none of them yet. Notes those that passed in
# .ci/clients.tsv, which belongs into the commit. --changed runs only those of which something has
# changed since that note; for the others the note counts.

# shellcheck source=tools/yard/stages.sh
source tools/yard/stages.sh
# shellcheck source=tools/yard/suites.sh
source tools/yard/suites.sh

readonly compiled_clients=(zeusd go-nvml all-smi)

yard_clients() {
  local clients=("${compiled_clients[@]}") names scripts either
  case ${1:-} in
    '') ;;
    --changed) mapfile -t clients < <(changed_clients) ;;
    *) die "clients takes --changed or nothing" ;;
  esac
  if ((${#clients[@]} == 0)); then
    printf 'clients: unchanged since their last runs, which .ci/clients.tsv has\n'
    return
  fi
  names=("${clients[@]//-/_}")
  scripts=("${names[@]/#/tools/clients_}")
  either=$(IFS='|' && printf '%s' "${names[*]}")
  shown_stage "client packages" install_packages build test clients
  stage "web assets" prepare_web
  stage "compiled clients" prepare_clients "${scripts[@]/%/.sh}"
  build_and_test clients release reports/clients --tests-regex "^test_($either)\$"
  stage_failed "clients build" ||
    shown_stage "client results" python3 tools/yard/client_results.py note build/release/reports/clients
  ((${#failed_stages[@]} == 0)) || return 1
}

# changed_clients - those to run, one a line; what is known of the others is recorded.
changed_clients() {
  local client outcome
  for client in "${compiled_clients[@]}"; do
    outcome=$(python3 tools/yard/client_results.py outcome "$client") || outcome=''
    if [[ -n $outcome ]]; then
      record_proof "$client" "$outcome"
    else
      printf '%s\n' "$client"
    fi
  done
}
