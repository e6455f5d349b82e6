#!/usr/bin/env bash
# Debian's sshd, in build/clients/sshd: its package would open port 22 of this machine.
exec "$(dirname -- "${BASH_SOURCE[0]}")/unpack_debian.sh" sshd usr/sbin/sshd openssh-server
