# shellcheck shell=bash
# ./yard attack [tls|http] [--short] - what a hostile network does to gpuyard, on loopback. --short
# judges what can be counted; without it the bars in milliseconds and megabytes are judged as well.

yard_attack() {
  install_packages build test attack
  prepare_web
  build release
  prepare_venv build/attack-venv tests/attack/requirements.txt
  exec python3 tests/attack/attack.py "$@"
}
