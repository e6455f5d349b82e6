# shellcheck shell=bash
# ./yard test - builds release and runs every test but those of compiled clients (./yard clients);
# CTest's summary is the last thing printed.

# shellcheck source=tools/yard/stages.sh
source tools/yard/stages.sh
# shellcheck source=tools/yard/suites.sh
source tools/yard/suites.sh

yard_test() {
  shown_stage "test packages" install_packages build test
  stage "foreign clients" prepare_clients \
    tools/clients_venv.sh tools/clients_nvtop.sh tools/clients_sshd.sh tools/web_assets.sh
  build_and_test release release reports --label-exclude compiled-client
  ((${#failed_stages[@]} == 0)) || return 1
}
