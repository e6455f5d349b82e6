"""What this machine must change in the files of `gpuyard slurm plan` before Slurm's programs can run with
them here. All nodes are on one machine, without a user `slurm`, systemd or control groups of their own.
"""

import re

from slurm_conf import ADDRESS, DEVICES, port

# Each key of slurm.conf with its value here.
CHANGED = {
    "SlurmUser": "root",  # there is no other user
    "StateSaveLocation": "{place}/state",
    "SlurmdSpoolDir": "{place}/slurmd-%n",
    "SlurmctldLogFile": None,  # its stderr
    "SlurmdLogFile": None,
    "ProctrackType": "proctrack/linuxproc",  # no control groups
    "TaskPlugin": "task/none",
    "JobAcctGatherType": "jobacct_gather/none",
    "AccountingStorageHost": "localhost",
}
# Keys that are not in the plan.
ADDED = {"SlurmctldPidFile": "{place}/slurmctld.pid", "SlurmdPidFile": "{place}/slurmd-%n.pid",
         "MailProg": "/bin/true"}


def slurm_conf_here(text, place, **more):
    """The plan's slurm.conf for this machine, and the list of what is changed in it."""
    changes, lines = [], []
    wanted = {key: value and value.format(place=place) for key, value in CHANGED.items()} | more
    for line in text.splitlines():
        key = line.split("=")[0]
        if key in wanted:
            changes.append(f"{line} -> {wanted[key] or 'left out'}")
            line = f"{key}={wanted[key]}" if wanted[key] else ""
        elif key == "NodeName":
            number = sum(one.startswith("NodeName=") for one in lines) + 1
            changes.append(f"{line.split()[0]}: NodeAddr and Port, for one machine")
            line += f" NodeAddr={ADDRESS} Port={port(number)}"
        lines.append(line)
    for key, value in ADDED.items():
        changes.append(f"added: {key}")
        lines.insert(0, f"{key}={value.format(place=place)}")
    return "\n".join(lines) + "\n", changes


def gres_conf_here(text):
    return re.sub(r"File=/dev/nvidia", f"File={DEVICES}/nvidia", text), [f"File=/dev/... -> {DEVICES}/..."]
