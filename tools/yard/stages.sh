# shellcheck shell=bash
# Stages of a check or a test run, and the proofs they leave behind.
#
#   YARD_STAGES  one line per stage: name, seconds, result (ok, failed, not run), and how busy all cores of
#                the machine were in that time, in percent; tab separated
#   YARD_PROOFS  one line per proof: name, `ran` or `skipped (why)`; tab separated
#
# Both are files named by the environment: .ci/run sets them and prints the tables at its end;
# without them nothing is written. tests/proofs.py writes the same lines from Python.

failed_stages=()

record_stage() {
  [[ -z ${YARD_STAGES:-} ]] || printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "${4:-}" >>"$YARD_STAGES"
}

record_proof() {
  [[ -z ${YARD_PROOFS:-} ]] || printf '%s\t%s\n' "$@" >>"$YARD_PROOFS"
}

# run_strictly COMMAND... - runs it in a subshell with `set -e`; the status is in $status.
# Bash drops `set -e` in everything called from `if`, `&&` or `||`: so call this, and the stage
# functions below, as plain statements.
run_strictly() {
  set +e
  (
    set -euo pipefail
    "$@"
  )
  status=$?
  set -e
}

# cpu_ticks - what all cores of the machine were busy since it started, and how long that is; in ticks.
cpu_ticks() {
  local user nice system idle iowait irq softirq steal busy
  read -r _ user nice system idle iowait irq softirq steal _ </proc/stat
  busy=$((user + nice + system + irq + softirq + steal))
  echo $busy $((busy + idle + iowait))
}

# busy_since TICKS - how busy all cores were since cpu_ticks printed that, in percent.
busy_since() {
  local busy all busy_before all_before
  read -r busy_before all_before <<<"$1"
  read -r busy all < <(cpu_ticks)
  echo $(((busy - busy_before) * 100 / (all > all_before ? all - all_before : 1)))
}

# finish_stage NAME STARTED TICKS - of a command whose status is in $status.
finish_stage() {
  local name=$1 started=$2 ticks=$3 result=ok
  if ((status != 0)); then
    result=failed
    failed_stages+=("$name")
  fi
  record_stage "$name" $((SECONDS - started)) "$result" "$(busy_since "$ticks")"
}

# log_of NAME - the file that keeps a stage's output.
log_of() {
  printf 'build/logs/%s.log' "${1// /-}"
}

# stage NAME COMMAND... - output goes to build/logs/<name>.log; on failure its tail is shown.
stage() {
  local name=$1 log started=$SECONDS ticks status
  ticks=$(cpu_ticks)
  log=$(log_of "$name")
  shift
  mkdir -p build/logs
  printf '== %s\n' "$name"
  run_strictly "$@" >"$log" 2>&1 </dev/null
  if ((status != 0)); then
    tail -n 60 "$log"
    printf -- '-- %s FAILED after %d s; all of it is in %s\n' "$name" $((SECONDS - started)) "$log"
  else
    printf -- '-- %s: %d s\n' "$name" $((SECONDS - started))
  fi
  finish_stage "$name" "$started" "$ticks"
}

# shown_stage NAME COMMAND... - as stage, but the output is shown and nothing follows it, so that
# the last line of a test run is CTest's own. A run with YARD_STAGES keeps it in the log, too.
shown_stage() {
  local name=$1 started=$SECONDS ticks status
  ticks=$(cpu_ticks)
  shift
  printf '== %s\n' "$name"
  if [[ -z ${YARD_STAGES:-} ]]; then
    run_strictly "$@" </dev/null
  else
    mkdir -p build/logs
    set +e
    (
      run_strictly "$@"
      exit "$status"
    ) </dev/null 2>&1 | tee "$(log_of "$name")"
    status=${PIPESTATUS[0]}
    set -e
  fi
  finish_stage "$name" "$started" "$ticks"
}

# start_beside COMMAND... - starts a stage, or a function of stages, that runs beside the stages after it.
start_beside() {
  local before=${#failed_stages[@]}
  beside=$(mktemp -d)
  (
    "$@"
    printf '%s\n' "${failed_stages[@]:before}" >"$beside/failed"
  ) >"$beside/log" 2>&1 </dev/null &
  beside_pid=$!
}

# join_beside - waits for what start_beside has started, if anything; shows its output and counts its failures.
join_beside() {
  local failed
  [[ -n ${beside:-} ]] || return 0
  wait "$beside_pid" || failed_stages+=("stages beside others")
  cat "$beside/log"
  mapfile -t failed < <(grep . "$beside/failed")
  failed_stages+=("${failed[@]}")
  rm -r "$beside"
  beside=''
}

# failed_stage_logs FILE - the end of each failed stage's log, of the stages in FILE.
failed_stage_logs() {
  local name result log
  while IFS=$'\t' read -r name _ result _; do
    log=$(log_of "$name")
    [[ $result == failed && -e $log ]] || continue
    printf '\n== %s failed; its last lines (%s):\n' "$name" "$log"
    tail -n 40 "$log"
  done <"$1"
}

# skip_stage NAME WHY - a stage that cannot run because an earlier one failed.
skip_stage() {
  printf '== %s\n-- not run: %s\n' "$1" "$2"
  record_stage "$1" 0 "not run ($2)"
}

stage_failed() {
  local name
  for name in "${failed_stages[@]}"; do
    [[ $name != "$1" ]] || return 0
  done
  return 1
}

# stages_table FILE
stages_table() {
  awk -F'\t' '
    BEGIN { printf "%-22s %8s %6s  %s\n", "stage", "time", "busy", "result" }
    { printf "%-22s %5d:%02d %6s  %s\n", $1, $2 / 60, $2 % 60, $4 == "" ? "-" : $4 "%", $3 }' "$1"
}

# proofs_table FILE - the last word about each proof, in the order of first mention.
proofs_table() {
  awk -F'\t' '
    BEGIN { printf "%-28s %s\n", "proof", "outcome" }
    !($1 in outcome) { order[++count] = $1 }
    { outcome[$1] = $2 }
    END { for (i = 1; i <= count; i++) printf "%-28s %s\n", order[i], outcome[order[i]] }' "$1"
}

# unexcused_skips FILE - the proofs of it that were skipped for another reason than .ci/proofs.tsv allows.
unexcused_skips() {
  awk -F'\t' '
    NR == FNR { if ($1 !~ /^#/) excused[$1 FS $2]; next }
    { outcome[$1] = $2 }
    END { for (name in outcome)
      if (outcome[name] ~ /^skipped/ && !((name FS outcome[name]) in excused)) print name }' \
    .ci/proofs.tsv "$1" | sort
}
