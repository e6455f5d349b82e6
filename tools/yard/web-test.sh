# shellcheck shell=bash
# ./yard web-test [--pictures DIRECTORY] - what the pages cost in a real browser, against the bars of
# docs/performance.md; or the pictures of docs/.

yard_web-test() {
  install_packages build test
  prepare_web
  build release gpuyard
  python3 tests/web/bars.py "$PWD/build/release/gpuyard" "$@"
}
