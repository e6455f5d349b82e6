# shellcheck shell=bash
# ./yard test - builds release and runs every test; CTest's summary is the last thing printed.

# shellcheck source=tools/yard/stages.sh
source tools/yard/stages.sh
# shellcheck source=tools/yard/suites.sh
source tools/yard/suites.sh

yard_test() {
  shown_stage "test packages" install_packages build test
  stage "foreign clients" prepare_clients
  stage "web assets" prepare_web
  shown_stage "release build" build release
  if stage_failed "release build"; then
    skip_stage "release tests" "the build failed"
    return 1
  fi
  shown_stage "release tests" run_tests release
  ((${#failed_stages[@]} == 0)) || return 1
}
