# shellcheck shell=bash
# ./yard check [--all] - every check, in an order that fails early. A failing stage does not stop
# the ones after it; the list of failures comes at the end.

# shellcheck source=tools/yard/stages.sh
source tools/yard/stages.sh
# shellcheck source=tools/yard/suites.sh
source tools/yard/suites.sh
# shellcheck source=tools/yard/fuzz.sh
source tools/yard/fuzz.sh

export PYTHONDONTWRITEBYTECODE=1
export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0
export UBSAN_OPTIONS=print_stacktrace=1
export TSAN_OPTIONS=halt_on_error=1

# Files git knows or would take: a new file is checked before it is committed. NUL separated.
# One that is deleted but still in the index is left out.
our_files() {
  local file
  git ls-files -z --cached --others --exclude-standard -- "$@" | sort -zu |
    while IFS= read -r -d '' file; do
      [[ ! -e $file ]] || printf '%s\0' "$file"
    done
}

check_packages() {
  install_packages build test check
}

check_format() {
  our_files '*.h' '*.cpp' | xargs -0 -r clang-format-19 --dry-run -Werror
}

check_shell() {
  our_files yard .ci/run 'tools/*.sh' 'packaging/*.sh' 'tests/*.sh' | xargs -0 -r shellcheck -x
}

# Every public declaration is documented.
check_public_headers() {
  mkdir -p build/doxygen
  doxygen tools/check/Doxyfile
}

check_tools() {
  python3 -m pytest -q -p no:cacheprovider tools
}

# Only the programs of tests labelled `threads`, unless one of these tests is no program of its own.
build_threads_tests() {
  local name targets=()
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

# sanitized PRESET BUILD-COMMAND... - two stages: the build, then its tests.
sanitized() {
  local preset=$1
  shift
  stage "$preset build" "$@"
  if stage_failed "$preset build"; then
    skip_stage "$preset tests" "the build failed"
  else
    shown_stage "$preset tests" run_tests "$preset"
  fi
}

# The linters read the preset that compiles each source by itself; they need it configured, not
# built.
check_tidy() {
  configure dev
  python3 tools/check/lint_files.py build/dev "$(build_jobs)" "$@"
}

# Builds the programs of tests that mutants/ names, and makes the mistakes one after the other.
check_mutants() {
  local programs
  configure release
  mapfile -t programs < <(sed -n 's/^program = "\(.*\)"$/\1/p' mutants/*.toml)
  build release "${programs[@]}"
  python3 tools/check/mutants.py build/release
}

check_coroutines() {
  configure dev
  python3 tools/check/coroutines.py build/dev
}

yard_check() {
  local lint=()
  case ${1:-} in
    '') ;;
    --all) lint=(--record) ;;
    *) die "check takes --all or nothing" ;;
  esac

  shown_stage "check packages" check_packages
  stage "format" check_format
  stage "shell" check_shell
  stage "words" python3 tools/check/house_words.py
  stage "include direction" python3 tools/check/include_direction.py
  stage "public headers" check_public_headers
  stage "tools" check_tools
  stage "foreign clients" prepare_clients
  stage "web assets" prepare_web
  sanitized asan build asan
  if stage_failed "asan build"; then
    skip_stage "contract" "no tests ran" # the reports there are of another run
  else
    stage "contract" python3 tools/check/contract_rows.py build/asan/reports
  fi
  sanitized tsan build_threads_tests
  stage "fuzz build" build fuzz fuzz
  if stage_failed "fuzz build"; then
    skip_stage "fuzz" "the build failed"
  else
    shown_stage "fuzz" run_fuzz
  fi
  stage "tidy" check_tidy "${lint[@]}"
  stage "coroutines" check_coroutines
  # Some minutes: not for every change.
  ((${#lint[@]} == 0)) || stage "mutants" check_mutants

  if ((${#failed_stages[@]} > 0)); then
    printf 'check: FAILED:'
    printf ' [%s]' "${failed_stages[@]}"
    printf '\n'
    return 1
  fi
  printf 'check: all stages passed\n'
}
