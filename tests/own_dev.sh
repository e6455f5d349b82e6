#!/bin/sh
# own_dev.sh COMMAND... - runs COMMAND with a /dev of its own: device files that it makes there are
# gone when it ends. Takes root, or a system on which users may make namespaces.
set -e
rights=--map-root-user
[ "$(id -u)" != 0 ] || rights=
# The open descriptors lead to the devices after the new /dev hides their names.
# shellcheck disable=SC2086,SC2016  # no word, or one; the inner shell expands the rest
exec unshare $rights --mount sh -ec '
  exec 3</dev/null 4</dev/zero 5</dev/full 6</dev/random 7</dev/urandom
  mount -t tmpfs -o mode=755 dev /dev
  at=3
  for name in null zero full random urandom; do
    : >"/dev/$name"
    mount --no-canonicalize --bind "/proc/self/fd/$at" "/dev/$name"
    at=$((at + 1))
  done
  mkdir -m 1777 /dev/shm
  ln -s /proc/self/fd /dev/fd
  exec 3<&- 4<&- 5<&- 6<&- 7<&-
  exec "$@"' own_dev "$@"
