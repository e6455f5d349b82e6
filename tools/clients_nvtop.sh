#!/usr/bin/env bash
# Debian 12's nvtop, in build/clients/nvtop: it is in contrib, which is not among this system's
# sources.
exec "$(dirname -- "${BASH_SOURCE[0]}")/unpack_debian.sh" --from bookworm contrib \
  nvtop usr/bin/nvtop nvtop
