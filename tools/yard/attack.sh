# shellcheck shell=bash
# ./yard attack [tls|http|floods] [--short] - what a hostile network and hostile users do to gpuyard, on loopback. --short
# judges what can be counted; without it the bars in milliseconds and megabytes are judged as well.

# shellcheck source=tools/yard/stages.sh
source tools/yard/stages.sh
# shellcheck source=tools/yard/suites.sh
source tools/yard/suites.sh

yard_attack() {
  shown_stage "attack packages" install_packages build test attack
  stage "attackers" prepare_attackers
  build release
  shown_stage "attack" python3 tests/attack/attack.py "$@"
  ((${#failed_stages[@]} == 0)) || return 1
}

prepare_attackers() {
  prepare_web
  prepare_clients tools/clients_proxies.sh
  prepare_venv build/attack-venv tests/attack/requirements.txt
}
