#!/usr/bin/env bash
# Debian's Slurm with munge, and MariaDB for its accounting, in build/clients/slurm: their packages
# would start servers on this machine. Slurm finds its daemons by their names without "-wlm".
set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)

"$here/unpack_debian.sh" slurm usr/sbin/slurmctld-wlm slurmctld slurmd slurmdbd slurm-client \
  slurm-wlm-basic-plugins slurm-wlm-mysql-plugin munge libmunge2 libhwloc15 libmariadb3 \
  mariadb-server mariadb-server-core mariadb-client mariadb-client-core mariadb-common \
  libaio1 libsnappy1v5 liburing2 libfreeipmi17 libipmimonitoring6 liblua5.1-0 libnuma1 libncurses6 \
  libyaml-0-2
for name in slurmctld slurmd slurmstepd; do
  ln -sfn "$name-wlm" "$here/../build/clients/slurm/root/usr/sbin/$name"
done
