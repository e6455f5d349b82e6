# shellcheck shell=bash
# ./yard bench [ARGS] - the benchmarks, against a release build and peers.
# ./yard bench --quick - each row for a moment, beside those peers that are here already.
# ./yard bench --part NAME [ARGS] - only that part, such as `top` or `http`, beside its peers.

# Builds or installs a peer. Where it cannot be had, its rows say so and the others go on.
peer_of_bench() {
  ("$@") || say "going on without what $1 could not prepare"
}

yard_bench() {
  local quick=false parts='' previous='' word
  for word in "$@"; do
    case $word in
      -h | --help) exec python3 bench/run.py --help ;;
      --quick) quick=true ;;
      --part=*) parts+=" ${word#--part=} " ;;
    esac
    [[ $previous != --part ]] || parts+=" $word "
    previous=$word
  done
  install_packages build bench
  prepare_web
  build release gpuyard sim_nvml pipeline event_stream bench_control andon_bench lease_bench \
    bench_lease_socket bench_crowd
  $quick || prepare_peers "$parts"
  exec python3 bench/run.py "$@"
}

# prepare_peers PARTS - those of these parts; of all where there is none.
prepare_peers() {
  if [[ -z $1 || $1 == *' top '* ]]; then
    peer_of_bench tools/clients_nvtop.sh
    peer_of_bench tools/clients_venv.sh
  fi
  if [[ -z $1 || $1 == *' http '* ]]; then
    peer_of_bench prepare_venv build/bench-venv bench/peers/requirements.txt
    peer_of_bench tools/clients_all_smi.sh --optimised
  fi
  if [[ -z $1 || $1 == *' control '* ]]; then
    peer_of_bench tools/clients_zeusd.sh --optimised
  fi
}
