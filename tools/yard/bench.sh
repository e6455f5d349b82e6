# shellcheck shell=bash
# ./yard bench [ARGS] - the benchmarks, against a release build and peers in Python.

# The peers' libraries, once for each set of versions.
prepare_peers() {
  local requirements=bench/peers/requirements.txt venv=build/bench-venv wanted
  wanted=$(sha256sum "$requirements")
  [[ ! -f $venv/.requirements || $(<"$venv/.requirements") != "$wanted" ]] || return 0
  python3 -m venv --clear "$venv"
  "$venv/bin/python" -m pip --disable-pip-version-check --no-input install --quiet \
    --requirement "$requirements" || die "the peers' packages could not be installed from PyPI"
  printf '%s\n' "$wanted" >"$venv/.requirements"
}

yard_bench() {
  install_packages build bench
  prepare_web
  build release
  build release pipeline event_stream bench_control andon_bench lease_bench bench_lease_socket
  prepare_peers
  # Without zeusd its row says so.
  tools/clients_zeusd.sh || (($? == 3))
  exec python3 bench/run.py "$@"
}
