# shellcheck shell=bash
# ./yard bench [ARGS] - the benchmarks, against a release build and peers.
# ./yard bench --top [--quick] - only that of `gpuyard top`, beside nvtop and nvitop.

# Builds or installs a peer. Where it cannot be had, its rows say so and the others go on.
peer_of_bench() {
  ("$@") || say "going on without what $1 could not prepare"
}

yard_bench() {
  install_packages build bench
  prepare_web
  peer_of_bench tools/clients_nvtop.sh
  peer_of_bench tools/clients_venv.sh
  if [[ ${1:-} == --top ]]; then
    build release gpuyard sim_nvml
    exec python3 bench/top.py "${@:2}"
  fi
  build release gpuyard sim_nvml pipeline event_stream bench_control andon_bench lease_bench \
    bench_lease_socket bench_crowd
  peer_of_bench prepare_venv build/bench-venv bench/peers/requirements.txt
  peer_of_bench tools/clients_zeusd.sh --optimised
  exec python3 bench/run.py "$@"
}
