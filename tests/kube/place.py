"""A temporary folder and the programs that work in it. Both are gone when this process ends, however it
ends: the kernel kills the programs, and a keeper, whose stdin this process holds open, removes the folder.

It has the part of an Enclosure's interface that a Service needs, but no namespaces: its programs share
this machine's loopback with the test, and it takes no root.
"""

import subprocess
import tempfile
from pathlib import Path

from program import PATIENCE

# A program that is killed may still write for a moment: the folder is then not empty at the first try.
KEEP = """
cat >/dev/null
for try in $(seq 100); do
  rm -rf -- "$0" 2>/dev/null
  [ -e "$0" ] || exit 0
  sleep 0.1
done
"""


class Place:
    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="gpuyard-kube-"))
        self._started = []
        # A session of its own: Ctrl-C is for the test, not for the keeper.
        self._keeper = subprocess.Popen(["sh", "-c", KEEP, str(self.folder)], stdin=subprocess.PIPE,
                                        start_new_session=True)

    def outside(self, path):
        return self.folder / path

    def write(self, path, text, mode=0o600):
        """Makes a file and its folders; returns its path as a text."""
        file = self.outside(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(mode)
        file.write_text(text, encoding="utf-8")
        return str(file)

    def popen(self, *words, net=None, **options):
        """Starts a program that the kernel kills when the thread that has started it ends. `net` is the
        name that its Service gives its machine: here there is one."""
        one = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *words], cwd=self.folder,
                               **{"stdin": subprocess.DEVNULL} | options)
        self._started.append(one)
        return one

    def pids(self):
        return [one.pid for one in self._started if one.poll() is None]

    def close(self):
        for one in self._started:
            if one.poll() is None:
                one.kill()
        for one in self._started:
            one.wait(PATIENCE)
        self._keeper.stdin.close()
        self._keeper.wait(PATIENCE)
