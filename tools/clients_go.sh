# shellcheck shell=bash
# build_go_client NAME PROGRAM NEEDS - builds tests/clients/NAME into build/clients/NAME/PROGRAM, with - for
# _ in the folder, unless it is there for these sources. Ends the script with 3 where there is no Go
# toolchain or its module proxy does not answer; then the test with NEEDS cannot run.
build_go_client() {
  local name=$1 needs=$3 sources=tests/clients/$1 place=$PWD/build/clients/${1//_/-} wanted
  local program=$place/$2
  wanted=$(sha256sum "$sources"/*)
  if [[ -x $program && -f $place/ready && $(<"$place/ready") == "$wanted" ]]; then
    exit 0
  fi
  if ! command -v go >/dev/null; then
    echo "clients_$name: no Go toolchain here; the test with $needs cannot run" >&2
    exit 3
  fi

  mkdir -p "$place"
  export GOTOOLCHAIN=local
  if ! (cd "$sources" && timeout 120 go mod download); then
    echo "clients_$name: the module proxy does not answer; the test with $needs cannot run" >&2
    exit 3
  fi
  (cd "$sources" && go build -buildvcs=false -mod=readonly -o "$program" .)
  printf '%s\n' "$wanted" >"$place/ready"
}
