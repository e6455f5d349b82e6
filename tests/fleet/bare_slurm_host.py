"""A machine of a fleet on which somebody installs Slurm by hand: Debian's packages, users, and files of its own
in /etc, /var, /run and /dev.

A test runs the commands of a page on it. Services run without systemd, by the ExecStart of Debian's units.
"""

import os
from pathlib import Path

import pytest

from enclosure import LIBC, check
from node import ALICE, PLACE
from program import PATIENCE

UNPACKED = Path(__file__).resolve().parents[2] / "build/clients/slurm/root"
IDS = {"root": 0, "alice": ALICE, "munge": 980, "slurm": 64030}
PASSWD = "".join(f"{name}:x:{uid}:{uid}::/run/gpuyard/home:/bin/sh\n" for name, uid in IDS.items())
GROUP = "".join(f"{name}:x:{uid}:\n" for name, uid in IDS.items())
NVIDIA = 195  # the major number of its device files
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # of sudo, and of a login

# $1 is the node's folder, $2 the number of its GPUs. The packages of Slurm have been unpacked below /usr; as
# munge's package does, this makes its folders and a key, and starts it.
SETUP = """
set -e
for folder in etc var; do
  mkdir -p $1/over/$folder $1/work/$folder
  mount -t overlay -o lowerdir=/$folder,upperdir=$1/over/$folder,workdir=$1/work/$folder overlay /$folder
done
mkdir -p $1/dev $1/run
mount -t tmpfs -o mode=0755 tmpfs $1/dev
cp -a /dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/tty $1/dev
for number in $(seq 0 $(($2 - 1))); do mknod -m 0666 $1/dev/nvidia$number c {nvidia} $number; done
mount --move $1/dev /dev
mount -t tmpfs -o mode=0755 tmpfs $1/run
mkdir -p $1/run/fleet $1/run/gpuyard
install -d -o munge -g munge $1/run/munge
mount --rbind /run/fleet $1/run/fleet
mount --bind $1 $1/run/gpuyard
mount -n --move $1/run /run  # /run/mount is another one from now on
install -d -o munge -g munge -m 0700 /etc/munge /var/lib/munge /var/log/munge
head -c 128 /dev/urandom >$1/key
install -o munge -g munge -m 0400 $1/key /etc/munge/munge.key
systemctl restart munge
echo ready
exec cat
""".format(nvidia=NVIDIA)

# `systemctl restart UNIT` and `stop UNIT` without systemd.
SYSTEMCTL = """#!/bin/sh
value() {{ sed -n "s/^$1=//p" {units}/$unit.service; }}
unit=$2
[ "$1" != enable ] || exit 0
pid=$(cat $(value PIDFile) 2>/dev/null) && kill $pid && timeout 10 tail --pid=$pid -f /dev/null
[ "$1" = restart ] || exit 0
user=$(value User)
program=$(value ExecStart)
exec setsid -f setpriv --reuid ${{user:-root}} --regid ${{user:-root}} --clear-groups \\
  sh -c "exec $program" >>/run/$2.log 2>&1
"""


def prepare(fleet):
    """Puts Slurm's packages, gpuyard and what takes the place of systemd into /usr of all machines."""
    if not (UNPACKED / "usr/sbin/slurmctld").exists():
        pytest.skip("Slurm on bare machines needs what tools/clients_slurm.sh fetches")
    box = fleet.enclosure
    box.outside(f"{PLACE}/usr").mkdir()
    box.must("cp", "-r", f"{PLACE}/bin", f"{PLACE}/usr/bin")
    box.write(f"{PLACE}/usr/bin/systemctl", SYSTEMCTL.format(units=f"{PLACE}/units"), 0o755)
    # The simulated GPUs as nvidia-smi shows them.
    box.write(f"{PLACE}/usr/bin/nvidia-smi", '#!/bin/sh\nexec gpuyard smi "$@"\n', 0o755)
    for unit in ("munge", "slurmctld", "slurmd"):
        text = (UNPACKED / f"lib/systemd/system/{unit}.service").read_text(encoding="utf-8")
        box.write(f"{PLACE}/units/{unit}.service", text)
    box.must("mount", "-t", "overlay", "-o", f"lowerdir={PLACE}/usr:{UNPACKED}/usr:/usr", "overlay", "/usr")
    hosts = "".join(f"{node.address} {node.name}\n" for node in fleet.nodes)
    box.write(f"{PLACE}/etc/hosts", f"127.0.0.1 localhost\n{hosts}")
    box.must("mount", "--bind", f"{PLACE}/etc/hosts", "/etc/hosts")


class BareSlurmHost:
    def __init__(self, fleet, node, gpus):
        self.enclosure = fleet.enclosure
        self.name = node.name
        self.home = f"{node.place}/home"  # alice's
        for name, text in (("passwd", PASSWD), ("group", GROUP),
                           ("hosts", self.enclosure.outside("/etc/hosts").read_text())):
            self.enclosure.write(f"{node.place}/over/etc/{name}", text)
        self._holder = self.enclosure.popen("unshare", "--mount", "sh", "-c", SETUP, "setup", node.place, str(gpus),
                                            net=node.name, stdin=-1, stdout=-1)
        assert self._holder.stdout.readline() == b"ready\n"

    def run(self, command, user="alice", timeout=PATIENCE):
        """A shell command on that machine."""
        namespace = os.open(f"/proc/{self._holder.pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)

        def go_in():
            check(LIBC.setns(namespace, 0))
            os.chdir(self.home)
            os.setgroups([])
            os.setgid(IDS[user])
            os.setuid(IDS[user])

        try:
            return self.enclosure.run("sh", "-c", command, net=self.name, preexec_fn=go_in, timeout=timeout,
                                      env={"PATH": PATH, "HOME": self.home, "USER": user, "TZ": "UTC"})
        finally:
            os.close(namespace)

    def log(self, unit):
        return self.run(f"cat /run/{unit}.log /var/log/slurm/{unit}.log", "root").stdout
