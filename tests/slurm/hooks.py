"""The hooks that Slurm runs on a node before and after a job and periodically, and their results.

A hook is a file that takes no arguments. Slurm starts `run-NAME`, which starts `NAME` and keeps what is
to be known about it in a folder of its own.
"""

import dataclasses
import shlex

from slurm_conf import CONTROLLER, HOOK_FOLDER, HOOKS, PLACE

# The environment is the one that Slurm gave to the shell, which adds PWD for what it starts.
RUN = """#!/bin/sh
run={place}/${{SLURMD_NODENAME:-{controller}}}/hooks/$(date +%s%N).{name}.$$
mkdir -p "$run"
cp /proc/$$/environ "$run/environment"
{folder}/{name} >"$run/out" 2>"$run/err"
status=$?
echo "$(date +%s%N) $status" >"$run/end.new"
mv "$run/end.new" "$run/end"
exit $status
"""

NOTHING = "exit 0"
# For nodes without gpuyard.
TRIVIAL = dict.fromkeys(HOOKS.values(), NOTHING)


def own_hooks(program):
    """The verbs of the program, each with what belongs to the node that it runs on."""
    node = f"{PLACE}/$SLURMD_NODENAME"
    verbs = {name: f'--socket "{node}/gpuyard.sock" --spool "{node}/spool"'
             for name in ("health", "begin", "end")}
    verbs["epilog-ctld"] = f"--url 'unix://{PLACE}/{{}}/gpuyard.sock'"
    return {name: f"exec {shlex.quote(program)} slurm {name} {options}" for name, options in verbs.items()}


def write_runners(enclosure):
    for name in HOOKS.values():
        text = RUN.format(place=PLACE, controller=CONTROLLER, folder=HOOK_FOLDER, name=name)
        enclosure.write(f"{HOOK_FOLDER}/run-{name}", text, 0o755)


def write_hook(enclosure, name, commands):
    assert name in HOOKS.values(), name
    enclosure.write(f"{HOOK_FOLDER}/{name}", f"#!/bin/sh\n{commands}\n", 0o755)


@dataclasses.dataclass
class HookRun:
    """`status` and `seconds` are None until the hook has ended, and always if Slurm killed it."""
    name: str
    start: float
    seconds: float | None
    status: int | None
    environment: dict
    out: str
    err: str

    @property
    def job(self):
        number = self.environment.get("SLURM_JOB_ID")
        return number and int(number)


def _read(folder):
    start, name, _ = folder.name.split(".")
    lines = (folder / "environment").read_text().split("\0")
    environment = dict(line.split("=", 1) for line in lines if line)
    end, status = None, None
    if (folder / "end").exists():
        end, status = map(int, (folder / "end").read_text().split())
    return HookRun(name, int(start) / 1e9, None if end is None else (end - int(start)) / 1e9, status,
                   environment, (folder / "out").read_text(), (folder / "err").read_text())


def hook_runs(enclosure, host, name=None, job=None):
    """The hook runs on that machine, in the order of their start; of one hook or job, if they are named."""
    folders = sorted(enclosure.outside(f"{PLACE}/{host}/hooks").glob(f"*.{name or '*'}.*"))
    runs = [_read(folder) for folder in folders if (folder / "err").exists()]
    return [run for run in runs if job in (None, run.job)]
