# shellcheck shell=bash
# ./yard clients - the tests with foreign clients that have to be compiled first, in Rust and Go:
# some ten minutes on a machine that has none of them yet.

# shellcheck source=tools/yard/stages.sh
source tools/yard/stages.sh
# shellcheck source=tools/yard/suites.sh
source tools/yard/suites.sh

yard_clients() {
  shown_stage "client packages" install_packages build test clients
  stage "web assets" prepare_web
  stage "compiled clients" prepare_clients \
    tools/clients_go_nvml.sh tools/clients_all_smi.sh tools/clients_zeusd.sh
  build_and_test clients release reports/clients --label-regex compiled-client
  ((${#failed_stages[@]} == 0)) || return 1
}
