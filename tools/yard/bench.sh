# shellcheck shell=bash
# ./yard bench [ARGS] - the benchmarks, against a release build and peers.
# ./yard bench --top [--quick] - only that of `gpuyard top`, beside nvtop and nvitop.

yard_bench() {
  install_packages build bench
  prepare_web
  # Where these cannot be had, their rows say so.
  tools/clients_nvtop.sh || (($? == 3))
  tools/clients_venv.sh || (($? == 3))
  if [[ ${1:-} == --top ]]; then
    build release gpuyard
    exec python3 bench/top.py "${@:2}"
  fi
  build release
  build release pipeline event_stream bench_control andon_bench lease_bench bench_lease_socket bench_crowd
  prepare_venv build/bench-venv bench/peers/requirements.txt
  # Without zeusd its row says so.
  tools/clients_zeusd.sh --optimised || (($? == 3))
  exec python3 bench/run.py "$@"
}
