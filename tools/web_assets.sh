#!/usr/bin/env bash
# The files of the API page, into build/web, as web/package-lock.json pins them. The npm client
# knows its registry; nothing here does. Installing npm is left to the user: Debian's has 356
# packages.
#
#   exit 0  they are there (and were checked against the lock file)
#   exit 3  npm is not installed, or its registry does not answer: the program is built without
#   exit 1  anything else, above all files that are not what the lock file says
#
# build/web/state says which, for the build: "ready", or "missing" and why.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

readonly place=build/web
wanted=$(cat web/package.json web/package-lock.json web/.npmrc | sha256sum)

# Written only when it changes, so that nothing is embedded anew for no reason.
set_state() {
  [[ -f $place/state && $(<"$place/state") == "$1" ]] || printf '%s\n' "$1" >"$place/state"
}

missing() {
  set_state "missing: $1"
  printf 'The API page (/docs) is built without its files: %s.\n' "$1" >&2
  exit 3
}

mkdir -p "$place"
if [[ -f $place/.fetched && $(<"$place/.fetched") == "$wanted" ]]; then
  set_state "ready $wanted"
  exit 0
fi

command -v npm >/dev/null || missing "npm is not installed"
cp web/package.json web/package-lock.json web/.npmrc "$place"
status=0
(cd "$place" && timeout 60 npm ci --no-audit --no-fund --no-update-notifier \
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
