# shellcheck shell=bash
# ./yard check [--all | --lint] - every check; those that use one core run beside the first build, and their
# output follows it. A failing stage does not stop the ones after it; the list of failures comes at the end.
#
#   --all   lints every source instead of those that differ from a base, and adds what takes long:
#           fuzzing, and the mistakes of mutants/
#   --lint  of --all the linter only
#
#   GPUYARD_LINT_BASE  the commit from which a source has to differ to be linted; tools/check/lint_files.py
#                      says what it is where this is not set

# shellcheck source=tools/yard/stages.sh
source tools/yard/stages.sh
# shellcheck source=tools/yard/suites.sh
source tools/yard/suites.sh
# shellcheck source=tools/yard/fuzz.sh
source tools/yard/fuzz.sh

export PYTHONDONTWRITEBYTECODE=1
export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0
export UBSAN_OPTIONS=print_stacktrace=1
# A test may fork while a thread of an earlier one still ends; its child starts threads itself.
export TSAN_OPTIONS=halt_on_error=1:die_after_fork=0

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
  our_files yard .ci/run 'tools/*.sh' 'packaging/*.sh' 'python/*.sh' 'tests/*.sh' | xargs -0 -r shellcheck -x
}

# Every public declaration is documented.
check_public_headers() {
  mkdir -p build/doxygen
  doxygen tools/check/Doxyfile
}

# The script of the pages, by TypeScript's checker: a program of its own, which needs no Node.
check_page_types() {
  local state checker
  state=$(<build/web/state)
  if [[ $state != ready* ]]; then
    record_proof "types of the pages" "skipped (no npm, or its registry does not answer)"
    return
  fi
  checker=$(compgen -G 'build/web/node_modules/@typescript/*/lib/tsc')
  "$checker" -p web/tsconfig.json
  record_proof "types of the pages" ran
}

check_tools() {
  python3 -m pytest -q -p no:cacheprovider tools
}

prepare_linter() {
  prepare_venv build/lint-venv tools/check/requirements.txt
}

# The linters and the mutants read the preset that compiles each source by itself; the linters need
# it configured, not built.
check_tidy() {
  configure dev
  prepare_linter
  python3 tools/check/lint_files.py build/dev "$(build_jobs)" "$@"
  record_proof "lint" "ran ($(<build/lint/summary.txt))"
}

# Builds the programs of tests that mutants/ names.
build_mutants() {
  local programs
  mapfile -t programs < <(sed -n 's/^program = "\(.*\)"$/\1/p' mutants/*.toml)
  build dev "${programs[@]}"
}

check_coroutines() {
  configure dev
  python3 tools/check/coroutines.py build/dev
}

yard_check() {
  case ${1:-} in
    '') check_everything ;;
    --all) check_everything --all ;;
    --lint)
      shown_stage "check packages" check_packages
      shown_stage "tidy" check_tidy --all
      ;;
    *) die "check takes --all, --lint or nothing" ;;
  esac
  if ((${#failed_stages[@]} > 0)); then
    printf 'check: FAILED:'
    printf ' [%s]' "${failed_stages[@]}"
    printf '\n'
    return 1
  fi
  printf 'check: all stages passed\n'
}

# check_everything [--all]
check_everything() {
  shown_stage "check packages" check_packages
  stage "web assets" prepare_web
  start_beside check_on_one_core
  build_and_test asan asan reports
  if stage_failed "asan build"; then
    skip_stage "contract" "no tests ran" # the reports there are of another run
  else
    shown_stage "contract" python3 tools/check/contract_rows.py --partial build/asan/reports
  fi
  build_and_test tsan tsan reports
  shown_stage "tidy" check_tidy "$@"
  (($# == 0)) || check_slowly
}

check_on_one_core() {
  stage "format" check_format
  stage "shell" check_shell
  stage "words" python3 tools/check/words.py
  stage "include direction" python3 tools/check/include_direction.py
  stage "public headers" check_public_headers
  stage "tools" check_tools
  stage "page types" check_page_types
  stage "coroutines" check_coroutines
  stage "linter" prepare_linter
}

# Checks that a change does not wait for.
check_slowly() {
  shown_stage "fuzz build" build fuzz fuzz
  if stage_failed "fuzz build"; then
    skip_stage "fuzz" "the build failed"
  else
    shown_stage "fuzz" run_fuzz
  fi
  shown_stage "mutants build" build_mutants
  if stage_failed "mutants build"; then
    skip_stage "mutants" "the build failed"
  else
    stage "mutants" python3 tools/check/mutants.py build/dev
  fi
}
