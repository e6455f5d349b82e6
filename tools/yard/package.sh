# shellcheck shell=bash
# ./yard package [--version V] - into build/package: a .deb, a tarball that can be unpacked anywhere,
# the bill of materials, and two wheels. Built twice from one commit they are the same, bit by bit.
# ./yard package test [PYTEST ARGS] - tries them: linters, and a machine of its own with systemd, in
# a root that is made once and kept (tools/debian_root.sh).

# ./yard package piuparts - tries the .deb as Debian's archive does.

# shellcheck source=tools/yard/stages.sh
source tools/yard/stages.sh

# package_tree - what is installed with the program, under build/package/tree/usr.
package_tree() {
  local tree=build/package/tree share=build/package/tree/usr/share program=build/release/gpuyard
  local component
  rm -rf "$tree"
  for component in program library development; do
    cmake --install build/release --component "$component" --prefix "$PWD/$tree/usr" >/dev/null
  done
  strip --strip-unneeded "$tree/usr/bin/gpuyard" "$tree/usr/lib/gpuyard/sim/libnvidia-ml.so.1"
  find "$tree/usr/lib" -name 'libgpuyard.so.*' -type f -exec strip --strip-unneeded {} +
  find "$tree/usr/lib" -name '*.so*' -type f -exec chmod 0644 {} +

  mkdir -p "$share"/man/man{1,5,8} "$share"/bash-completion/completions \
    "$share"/zsh/vendor-completions "$share"/fish/vendor_completions.d \
    "$share"/{gpuyard,doc/gpuyard} "$tree/etc/gpuyard"
  "$program" completion man "$share/man"
  mv "$share"/man/*.1 "$share/man/man1"
  mv "$share"/man/*.5 "$share/man/man5"
  cp packaging/man/gpuyard.8 "$share/man/man8"
  "$program" completion bash >"$share/bash-completion/completions/gpuyard"
  "$program" completion zsh >"$share/zsh/vendor-completions/_gpuyard"
  "$program" completion fish >"$share/fish/vendor_completions.d/gpuyard.fish"
  env CONFIGURATION_DIRECTORY=/etc/gpuyard RUNTIME_DIRECTORY=/run/gpuyard \
    STATE_DIRECTORY=/var/lib/gpuyard "$program" config init >"$tree/etc/gpuyard/gpuyard.toml"
  cp packaging/systemd/readonly.conf packaging/prometheus/gpuyard{,-minimal}.rules.yml \
    packaging/grafana/gpuyard{,-minimal}.json "$share/gpuyard"
  python3 tools/package/sbom.py "$(program_version)" >"$share/doc/gpuyard/gpuyard.spdx.json"
  python3 tools/package/sbom.py --notices >"$share/doc/gpuyard/NOTICES"
  cp CHANGELOG.md "$share/doc/gpuyard/NEWS.md"
  cp LICENSE "$share/doc/gpuyard/LICENSE"
}

program_version() {
  sed -n 's/^project(gpuyard VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt
}

# package_deb VERSION - dh wraps the tree: build/package/gpuyard_VERSION_ARCH.deb.
package_deb() {
  local version=$1 place=build/package/deb unit
  rm -rf "$place"
  mkdir -p "$place/gpuyard"
  cp -a packaging/debian "$place/gpuyard/debian"
  cp packaging/systemd/gpuyard.service "$place/gpuyard/debian"
  # The names of the sockets that dh_installsystemd --name expects.
  for unit in gpuyard-marks gpuyard-setter; do
    cp "packaging/systemd/$unit.socket" "$place/gpuyard/debian/gpuyard.$unit.socket"
    cp "packaging/systemd/$unit@.service" "$place/gpuyard/debian"
  done
  cp -a build/package/tree "$place/gpuyard/tree"
  rm "$place/gpuyard/tree/usr/share/doc/gpuyard/LICENSE" # Debian has it in one place for all
  # The library is for who builds against it, from the tarball.
  rm -rf "$place"/gpuyard/tree/usr/include
  find "$place/gpuyard/tree/usr/lib" -mindepth 1 -maxdepth 1 ! -name gpuyard -exec rm -r {} +
  printf 'gpuyard (%s) unstable; urgency=medium\n\n  * See NEWS.md.\n\n -- %s  %s\n' "$version" \
    "$(sed -n 's/^Maintainer: //p' packaging/debian/control)" \
    "$(date -u -R -d "@$SOURCE_DATE_EPOCH")" >"$place/gpuyard/debian/changelog"
  mkdir -p "$place/gpuyard/debian/source"
  echo '3.0 (native)' >"$place/gpuyard/debian/source/format"
  (cd "$place/gpuyard" && dpkg-buildpackage --build=binary --no-sign >../build.log 2>&1) ||
    { tail -n 30 "$place/build.log" >&2; return 1; }
  mv "$place"/gpuyard_*.deb build/package
}

# package_tarball VERSION - the whole tree, to be unpacked anywhere: bin, lib, share.
package_tarball() {
  local name
  name=gpuyard-$1-linux-$(uname -m)
  tar --create --directory build/package/tree --sort=name --owner=0 --group=0 --numeric-owner \
    --mtime="@$SOURCE_DATE_EPOCH" --transform "s,^usr,$name," usr |
    gzip --no-name -9 >"build/package/$name.tar.gz"
}

make_packages() {
  local version=$1
  prepare_web
  build release gpuyard sim_nvml gpuyard_shared
  SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)}
  export SOURCE_DATE_EPOCH
  umask 022
  mkdir -p build/package
  rm -f build/package/*.{deb,tar.gz,whl,json}
  package_tree
  package_deb "$version"
  package_tarball "$version"
  cp build/package/tree/usr/share/doc/gpuyard/gpuyard.spdx.json build/package
  python3 python/make_wheels.py --program build/package/tree/usr/bin/gpuyard \
    --simulator build/package/tree/usr/lib/gpuyard/sim/libnvidia-ml.so.1 \
    --notices build/package/tree/usr/share/doc/gpuyard/NOTICES --out build/package >/dev/null
  (cd build/package && sha256sum -- *.deb *.tar.gz *.whl *.json)
}

yard_package() {
  local version
  version=$(program_version)
  install_packages build package
  case ${1:-} in
    test) package_test "$version" "${@:2}" ;;
    piuparts) package_piuparts "$version" ;;
    --version) make_packages "${2:?./yard package --version V}" ;;
    '') make_packages "$version" ;;
    *) die "package takes test, piuparts, --version V or nothing" ;;
  esac
}

# try_python - the types of the Python package, its tests that want a framework (of those that come
# from PyPI at a bearable size), and its wheel in every Python there is here.
try_python() {
  local environments=$PWD/build/python
  export GPUYARD_BIN=$PWD/build/release/gpuyard GPUYARD_SIM_LIB=$PWD/build/release/sim/libnvidia-ml.so.1
  mkdir -p "$environments"
  prepare_venv "$environments/check" python/requirements-check.txt
  (cd python && "$environments/check/bin/mypy" && "$environments/check/bin/basedpyright")
  prepare_venv "$environments/keras" python/requirements-keras.txt
  KERAS_BACKEND=jax "$environments/keras/bin/python" -m pytest -q -p no:cacheprovider \
    python/tests/test_keras.py python/tests/test_ipython.py python/tests/test_examples.py
  python/try_versions.sh
}

# try_packages [PYTEST ARGS] - their figures come last, the summary of pytest before them.
try_packages() {
  prepare_venv build/package-venv tests/package/requirements.txt
  mkdir -p build/release/reports/package
  /usr/bin/python3 -m pytest -q -p no:cacheprovider -o junit_family=xunit1 \
    --junitxml=build/release/reports/package/package.xml tests/package "$@"
}

# Debian's own test of installing and purging, which needs its mirror: on demand.
package_piuparts() {
  local root
  command -v piuparts >/dev/null || die "apt-get install piuparts"
  root=$(tools/debian_root.sh)
  make_packages "$1"
  piuparts --distribution bookworm --existing-chroot "$root" --no-eatmydata build/package/gpuyard_*.deb
}

# The package's tests mostly wait, for PyPI and for a machine that boots: those of Python run meanwhile, and
# their output follows.
package_test() {
  stage "packages" make_packages "$1"
  shift
  if stage_failed "packages"; then
    skip_stage "package tests" "there are none"
    return 1
  fi
  start_beside stage "python" try_python
  shown_stage "package tests" try_packages "$@"
  join_beside
  cat build/package/figures.txt
  ((${#failed_stages[@]} == 0)) || return 1
}
