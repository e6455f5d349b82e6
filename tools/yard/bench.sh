# shellcheck shell=bash
# ./yard bench [ARGS] - the benchmarks, against a release build and peers.
# ./yard bench --quick - each row for a moment, beside those peers that are here already.
# ./yard bench --top [--quick] - only that of `gpuyard top`, beside nvtop, nvitop and gpustat.

# Builds or installs a peer. Where it cannot be had, its rows say so and the others go on.
peer_of_bench() {
  ("$@") || say "going on without what $1 could not prepare"
}

yard_bench() {
  local program=bench/run.py quick=false word
  if [[ ${1:-} == --top ]]; then
    program=bench/top.py
    shift
  fi
  for word in "$@"; do
    case $word in
      -h | --help) exec python3 "$program" --help ;;
      --quick) quick=true ;;
    esac
  done
  install_packages build bench
  prepare_web
  if ! $quick; then
    peer_of_bench tools/clients_nvtop.sh
    peer_of_bench tools/clients_venv.sh
  fi
  if [[ $program == bench/top.py ]]; then
    build release gpuyard sim_nvml
    exec python3 "$program" "$@"
  fi
  build release gpuyard sim_nvml pipeline event_stream bench_control andon_bench lease_bench \
    bench_lease_socket bench_crowd
  if ! $quick; then
    peer_of_bench prepare_venv build/bench-venv bench/peers/requirements.txt
    peer_of_bench tools/clients_zeusd.sh --optimised
    peer_of_bench tools/clients_all_smi.sh --optimised
  fi
  exec python3 "$program" "$@"
}
