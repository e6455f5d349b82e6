"""That nothing is left of a rig whose process was killed: process, namespace, mount, link or user."""

import os
import subprocess
import sys
from pathlib import Path

from enclosure import nothing_is_left
from program import command_line
from rig import SHARED, need_fleet

SHORT_LIFE = """
import sys
sys.path[:0] = {path!r}
from rig import Fleet
fleet = Fleet(nodes=2)
fleet.ssh(*{shared!r}, "n1", "true")
print(fleet.enclosure.holder, *fleet.enclosure.pids(), flush=True)
input()
"""


def test_killed_rig_leaves_no_processes_mounts_or_links():
    need_fleet()  # the other process could only fail
    links = os.listdir("/sys/class/net")
    words = SHORT_LIFE.format(path=[str(Path(__file__).parent), *sys.path], shared=SHARED)
    one = subprocess.Popen([sys.executable, "-c", words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                           text=True)
    pids = [int(word) for word in one.stdout.readline().split()]
    assert len(pids) > 9 and any("[mux]" in command_line(pid) for pid in pids)
    nothing_is_left(one, pids)
    assert os.listdir("/sys/class/net") == links and not os.path.exists("/run/fleet")
    assert "/run/fleet" not in Path("/proc/mounts").read_text()
