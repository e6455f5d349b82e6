#!/bin/sh
# The checks of the Python package, each by its name, or all of them:
#
#   GPUYARD_BIN=... GPUYARD_SIM_LIB=... python/check.sh [types] [tests] [keras] [versions]
#
# types     mypy --strict and basedpyright
# tests     pytest with this machine's python3, which needs pytest and nothing else
# keras     the tests that want a real Keras, IPython or notebook
# versions  the client's wheel in every Python that this machine has
#
# The environments lie in GPUYARD_VENVS, build/python unless it is set, and are made once.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
venvs=${GPUYARD_VENVS:-$here/../build/python}
python=${PYTHON:-python3}

# venv NAME: an environment with requirements-NAME.txt, made anew when that file has changed.
venv() {
  if ! cmp -s "$here/requirements-$1.txt" "$venvs/$1/requirements.txt"; then
    rm -rf "${venvs:?}/$1"
    mkdir -p "$venvs"
    "$python" -m venv "$venvs/$1"
    "$venvs/$1/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements-$1.txt"
    cp "$here/requirements-$1.txt" "$venvs/$1/requirements.txt"
  fi
}

types() {
  venv check
  (cd "$here" && "$venvs/check/bin/mypy" && "$venvs/check/bin/basedpyright")
}

tests() {
  "$python" -m pytest -q -p no:cacheprovider "$here/tests"
}

keras() {
  venv keras
  KERAS_BACKEND=jax "$venvs/keras/bin/python" -m pytest -q -p no:cacheprovider \
    "$here/tests/test_keras.py" "$here/tests/test_magic.py" "$here/tests/test_examples.py"
}

versions() {
  "$here/try_versions.sh"
}

for check in "${@:-all}"; do
  case $check in
    types | tests | keras | versions) "$check" ;;
    all) types; tests; keras; versions ;;
    *) echo "there is no check $check" >&2; exit 2 ;;
  esac
done
