# shellcheck shell=bash
# ./yard run [ARGS] - builds the program and becomes `gpuyard serve`; where the driver shows no GPU
# it simulates four, so that the first minute works on any machine.

# Does NVML list a GPU? 0 yes, 1 no, 124 when the driver did not answer in time.
probe_gpus() {
  local json
  json=$(timeout 10 build/release/gpuyard devices --local --json 2>/dev/null) || {
    [[ $? -eq 124 ]] && return 124
    return 1
  }
  [[ $(tr -d '[:space:]' <<<"$json") == *'"devices":[{'* ]]
}

yard_run() {
  local simulate=() found=0
  install_packages build
  prepare_web
  build release gpuyard sim_nvml >&2
  if [[ " $* " != *" --simulate"* ]]; then
    probe_gpus || found=$?
    case $found in
      0) ;;
      124) say "The NVIDIA driver did not respond within 10 s. Starting anyway." ;;
      *)
        say "No NVIDIA GPU found. Starting with 4 simulated GPUs."
        simulate=(--simulate 4)
        ;;
    esac
  fi
  exec build/release/gpuyard serve --greet "${simulate[@]}" "$@"
}
