#!/usr/bin/env bash
# Debian's nginx and haproxy, in build/clients/proxies: their packages would open port 80 of this
# machine.
exec "$(dirname -- "${BASH_SOURCE[0]}")/unpack_debian.sh" proxies usr/sbin/haproxy haproxy nginx \
  liblua5.3-0 libopentracing-c-wrapper0 libopentracing1
