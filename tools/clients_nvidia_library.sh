#!/usr/bin/env bash
# NVIDIA's own libnvidia-ml.so.1 of the drivers 535 and 470, in build/clients/nvidia-library: Debian
# 12's non-free has them. They are never installed, or each program here would find a driver's library.
exec "$(dirname -- "${BASH_SOURCE[0]}")/unpack_debian.sh" --from bookworm non-free \
  nvidia-library 'usr/lib/*/nvidia/current/libnvidia-ml.so.1' libnvidia-ml1 libnvidia-tesla-470-ml1
