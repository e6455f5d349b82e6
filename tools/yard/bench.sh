# shellcheck shell=bash
# ./yard bench [ARGS] - the benchmarks, against a release build and peers in Python.

yard_bench() {
  install_packages build bench
  prepare_web
  build release
  build release pipeline event_stream bench_control andon_bench lease_bench bench_lease_socket bench_crowd
  prepare_venv build/bench-venv bench/peers/requirements.txt
  # Without zeusd its row says so.
  tools/clients_zeusd.sh || (($? == 3))
  exec python3 bench/run.py "$@"
}
