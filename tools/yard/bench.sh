# shellcheck shell=bash
# ./yard bench [ARGS] - the benchmarks, against a release build.

yard_bench() {
  install_packages build bench
  build release
  exec python3 bench/run.py "$@"
}
