#!/bin/sh
# Installs the client's wheel into a fresh environment of each Python that this machine has, imports
# it, and leases a simulated GPU with it. Says which versions the machine lacks.
#
#   GPUYARD_BIN=build/release/gpuyard python/try_versions.sh
set -eu
here=$(cd "$(dirname "$0")" && pwd)
program=${GPUYARD_BIN:?names the program gpuyard}
place=$(mktemp -d)
daemon=
trap 'test -z "$daemon" || kill "$daemon" 2>/dev/null || true; rm -rf "$place"' EXIT

python3 "$here/make_wheels.py" --any-only --out "$place"
XDG_CONFIG_HOME=$place "$program" serve --simulate 2 --socket "$place/s" --state "$place/state" \
  --listen 127.0.0.1:0 > "$place/log" 2>&1 &
daemon=$!

# The interpreter of a version: in PATH, or below PYENV_ROOT.
python_of() {
  for candidate in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$1".*/bin/python; do
    if command -v "$candidate" > /dev/null 2>&1 &&
       "$candidate" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$1')" 2>/dev/null
    then
      echo "$candidate"
      return
    fi
  done
}

passed=0 skipped=0 failed=0
for version in 3.9 3.10 3.11 3.12 3.13; do
  python=$(python_of "$version")
  if [ -z "$python" ]; then
    echo "$version: this machine does not have it"
    skipped=$((skipped + 1))
    continue
  fi
  "$python" -m venv "$place/$version"
  "$place/$version/bin/pip" install --quiet --disable-pip-version-check --no-index --no-deps \
    "$place"/*.whl
  # -I: the installed package, not the one beside the script.
  if (cd "$place" && env HOME="$place" GPUYARD_SOCKET="$place/s" \
      "$place/$version/bin/python" -I "$here/try_version.py"); then
    passed=$((passed + 1))
  else
    echo "$version: FAILED"
    failed=$((failed + 1))
  fi
done
echo "$passed passed, $failed failed, $skipped skipped"
test "$failed" -eq 0 && test "$passed" -gt 0
