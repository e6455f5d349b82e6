# shellcheck shell=bash
# Shows a build to a person: a forecast before it, one line that moves while it runs (lines now
# and then where there is no terminal), and the error last.

# Seconds of processor time of one step, for the first build on a machine.
readonly seconds_per_step=6
# Seconds between two lines without a terminal.
progress_interval=30

# The last builds on this machine, one file for each preset: "STEPS SECONDS".
build_times=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/gpuyard/build-times

# build_forecast PRESET STEPS
build_forecast() {
  local steps=0 seconds=0
  read -r steps seconds 2>/dev/null <"$build_times/$1" || true
  if [[ $steps =~ ^[1-9][0-9]*$ && $seconds =~ ^[0-9]+$ ]]; then
    duration $(($2 * seconds / steps))
  else
    duration $(($2 * seconds_per_step / $(build_jobs)))
  fi
}

# duration SECONDS
duration() {
  if (($1 < 90)); then
    echo "about $(($1 / 10 * 10 + 10)) s"
  else
    echo "about $((($1 + 30) / 60)) min"
  fi
}

# remember_build PRESET STEPS SECONDS - a handful of steps says nothing about a whole build.
remember_build() {
  (($2 >= 20)) || return 0
  # It is only a forecast: where it cannot be kept, the next one guesses.
  if mkdir -p "$build_times"; then
    echo "$2 $3" >"$build_times/$1" || true
  fi
}

# show_steps LOG - reads what Ninja says: all of it goes to the log, warnings and progress to
# stderr. What failing steps said comes after everything else.
show_steps() {
  local line next=$((SECONDS + progress_interval)) failing=false errors='' clear=''
  [[ ! -t 2 ]] || clear=$'\r\e[K'
  while IFS= read -r line; do
    printf '%s\n' "$line" >&3
    if [[ $line =~ ^\[[0-9]+/[0-9]+\]\  ]]; then
      failing=false
      if [[ -n $clear ]]; then
        printf '%s%.*s' "$clear" $(($(stty size <&2 | cut -d' ' -f2) - 1)) "$line" >&2
      elif ((SECONDS >= next)); then
        say "$line"
        next=$((SECONDS + progress_interval))
      fi
      continue
    fi
    case $line in
      FAILED:* | 'ninja: error:'*) failing=true ;;
      ninja:*) continue ;;
    esac
    if $failing; then
      errors+=$line$'\n'
    else
      printf '%s%s\n' "$clear" "$line" >&2
    fi
  done 3>>"$1"
  printf '%s%s' "$clear" "$errors" >&2
}
