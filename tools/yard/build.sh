# shellcheck shell=bash
# ./yard build [PRESET [TARGET...]]

yard_build() {
  local preset=${1:-release}
  install_packages build
  if [[ $preset == asan || $preset == tsan || $preset == fuzz ]]; then
    install_packages check # they compile with clang
  fi
  prepare_web
  build "$preset" "${@:2}"
}
