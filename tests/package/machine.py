"""A machine of its own for the package: Debian's root by debootstrap, with the real systemd as its first
process, in namespaces of its own. Nothing that happens there reaches the machine of the tests."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from proofs import record  # noqa: E402

PATIENCE = 60  # seconds that a test waits for something that must happen

# The root is pivoted to, not only entered by chroot: a unit with a sandbox of its own would fail with
# 226/NAMESPACE. Written files are in memory and end with the machine.
BOOT = """
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs "$2"
mkdir "$2/upper" "$2/work" "$2/root"
mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" "$2/root"
cd "$2/root"
mount --rbind /dev dev
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
mkdir -p mnt/packages mnt/old
mount --bind "$3" mnt/packages
pivot_root . mnt/old
umount -l /mnt/old
hostname yard
ip link set lo up 2>/dev/null || true
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin container=gpuyard-test \
  /lib/systemd/systemd --log-target=journal --show-status=no
"""


def kept_root() -> Path:
    """The root, made once. Skips where none can be made."""
    made = subprocess.run([ROOT / "tools/debian_root.sh"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, check=False)
    if made.returncode == 3:
        record("package on a machine", "skipped (no root of Debian can be made here)")
        pytest.skip(f"no machine for the package: {made.stderr[-300:]}")
    assert made.returncode == 0, made.stderr
    return Path(made.stdout.strip())


class Machine:
    """`init` is the first process of the machine, as we see it."""

    def __init__(self, init: int) -> None:
        self.init = init

    def go(self, *command: str, user: str = "") -> subprocess.CompletedProcess[str]:
        as_user = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"] if user else []
        return subprocess.run(
            ["nsenter", "--target", str(self.init), "--mount", "--pid", "--uts", "--ipc", "--net", "--cgroup",
             "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "HOME=/root",
             "DEBIAN_FRONTEND=noninteractive", *as_user, *command],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            timeout=PATIENCE, check=False)

    def must(self, *command: str, user: str = "") -> str:
        done = self.go(*command, user=user)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def shown(self, what: str, unit: str = "gpuyard.service") -> str:
        return self.must("systemctl", "show", "--value", "--property", what, unit).strip()

    def write(self, path: str, text: str) -> None:
        self.must("sh", "-c", 'mkdir -p "$(dirname "$1")" && printf %s "$2" >"$1"', "sh", path, text)

    def wait_until(self, condition, what: str):
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            value = condition()
            if value:
                return value
            time.sleep(0.1)
        journal = self.go("journalctl", "--no-pager", "-n", "40").stdout
        pytest.fail(f"waited {PATIENCE} s for {what}\n{journal}")
        return None


def first_child(process: subprocess.Popen) -> int:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="ascii").split()
    return int(children[0]) if children else 0


@contextlib.contextmanager
def booted(packages: Path):
    """A machine that runs; the folder of packages is /mnt/packages there."""
    root = kept_root()
    with tempfile.TemporaryDirectory(prefix="gpuyard-machine-") as place, \
            open(Path(place).with_suffix(".log"), "w+", encoding="utf-8") as log:
        Path(log.name).unlink()
        process = subprocess.Popen(
            ["unshare", "--mount", "--pid", "--fork", "--cgroup", "--uts", "--ipc", "--net", "--kill-child",
             "bash", "-c", BOOT, "boot", str(root), place, str(packages)],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + PATIENCE
            machine = None
            while machine is None or machine.go("systemctl", "is-system-running").stdout.strip() not in ("running", "degraded"):
                if process.poll() is not None or time.monotonic() > deadline:
                    log.seek(0)
                    pytest.fail(f"the machine did not boot: {log.read()}")
                init = first_child(process)
                if init and Path(f"/proc/{init}/comm").read_text(encoding="ascii").strip() == "systemd":
                    machine = Machine(init)
                time.sleep(0.1)
            yield machine
        finally:
            init = first_child(process) if process.poll() is None else 0
            if init:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(init, signal.SIGKILL)
            process.wait(timeout=PATIENCE)
