"""The rig itself: that nothing is left of it when its process is killed."""

import os
import subprocess
import sys
from pathlib import Path

from hooks import TRIVIAL
from rig import need_cluster
from enclosure import nothing_is_left  # on the path that the rig has added

SHORT_LIFE = """
import sys
sys.path[:0] = {path!r}
from rig import Cluster
cluster = Cluster(nodes=1, hooks={{name: "exit 0" for name in {hooks!r}}})
job = cluster.submit("exit 3", gpus=1)
cluster.wait_for_job(job)
print(*cluster.account(job, "State", "User", "Account"), flush=True)
cluster.submit("sleep 1000", gpus=1)
print(cluster.enclosure.holder, *cluster.enclosure.pids(), flush=True)
input()
"""


def test_killed_cluster_leaves_no_processes_or_mounts():
    need_cluster()  # the other process could only fail
    settings = os.listdir("/etc")
    words = SHORT_LIFE.format(path=[str(Path(__file__).parent), *sys.path], hooks=list(TRIVIAL))
    one = subprocess.Popen([sys.executable, "-c", words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                           text=True)
    assert one.stdout.readline() == "FAILED alice lab\n"
    pids = [int(word) for word in one.stdout.readline().split()]
    names = {Path(f"/proc/{pid}/comm").read_text().strip() for pid in pids}
    assert names >= {"munged", "mariadbd", "slurmdbd", "slurmctld", "slurmd", "gpuyard"}
    nothing_is_left(one, pids)
    assert os.listdir("/etc") == settings and not os.path.exists("/run/slurm")
    assert "/run/slurm" not in Path("/proc/mounts").read_text()
