"""That nothing is left of a rig whose process was killed: process, namespace, mount, link or user."""

import os
import re
import subprocess
import sys
from pathlib import Path

from program import command_line, runs, wait_until
from rig import SHARED

SHORT_LIFE = """
import sys
sys.path[:0] = {path!r}
from rig import Fleet
fleet = Fleet(nodes=2)
fleet.ssh(*{shared!r}, "n1", "true")
print(fleet.enclosure.holder, *fleet.enclosure.pids(), flush=True)
input()
"""


def test_nothing_is_left_of_a_rig_that_was_killed():
    links = os.listdir("/sys/class/net")
    words = SHORT_LIFE.format(path=[str(Path(__file__).parent), *sys.path], shared=SHARED)
    one = subprocess.Popen([sys.executable, "-c", words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                           text=True)
    pids = [int(word) for word in one.stdout.readline().split()]
    assert len(pids) > 9 and any("[mux]" in command_line(pid) for pid in pids)
    spaces = {os.readlink(f"/proc/{pids[0]}/ns/{kind}") for kind in ("net", "mnt", "pid")}
    one.kill()
    one.communicate()
    wait_until(lambda: not any(map(runs, pids)), "every process of it to end")
    left = subprocess.run(["lsns", "-no", "NS"], capture_output=True, text=True, check=True).stdout
    assert not any(re.search(r"\d+", space).group() in left.split() for space in spaces)
    assert os.listdir("/sys/class/net") == links and not os.path.exists("/run/fleet")
    assert "alice" not in Path("/etc/passwd").read_text()
    assert "/run/fleet" not in Path("/proc/mounts").read_text()
