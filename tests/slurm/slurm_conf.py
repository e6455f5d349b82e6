"""The configuration of a Slurm cluster's daemons: slurm.conf, gres.conf and slurmdbd.conf.

All of it lies on one machine. The nodes have one address, and a port and a host name each.
"""

PLACE = "/run/slurm"
ETC = f"{PLACE}/etc/slurm"  # mounted at /etc/slurm, where all programs expect it
DEVICES = f"{PLACE}/dev"
HOOK_FOLDER = f"{PLACE}/hooks"
CONTROLLER = "ctl"  # its host name, and its folder in PLACE
ADDRESS = "10.78.0.1"
DATABASE_SOCKET = "/run/mysqld/mysqld.sock"

HOOKS = {"HealthCheckProgram": "health", "Prolog": "begin", "Epilog": "end",
         "EpilogSlurmctld": "epilog-ctld"}

SETTINGS = {
    "ClusterName": "test",
    "SlurmctldHost": f"{CONTROLLER}({ADDRESS})",
    "SlurmUser": "root",
    "AuthType": "auth/munge",
    "StateSaveLocation": f"{PLACE}/{CONTROLLER}/state",
    "SlurmctldPidFile": f"{PLACE}/{CONTROLLER}/slurmctld.pid",
    "SlurmdSpoolDir": f"{PLACE}/%n/slurmd",
    "SlurmdPidFile": f"{PLACE}/%n/slurmd.pid",
    "SlurmctldDebug": "verbose",
    "SlurmdDebug": "verbose",
    # Nodes claim more cores than this machine has, and jobs are neither pinned nor put into cgroups.
    "SlurmdParameters": "config_overrides",
    "ProctrackType": "proctrack/linuxproc",
    "TaskPlugin": "task/none",
    "JobAcctGatherType": "jobacct_gather/none",
    "SwitchType": "switch/none",
    "MpiDefault": "none",
    # Jobs share a node by its cores and GPUs.
    "SelectType": "select/cons_tres",
    "SelectTypeParameters": "CR_Core",
    "GresTypes": "gpu",
    "ReturnToService": "1",
    # A job starts as soon as it can; by default Slurm gathers them for a few seconds.
    "SchedulerParameters": "sched_interval=1,batch_sched_delay=0,bf_interval=1",
    "PrologFlags": "Alloc",
    "HealthCheckNodeState": "ANY",
    "MailProg": "/bin/true",
}
ACCOUNTING = {"AccountingStorageType": "accounting_storage/slurmdbd", "AccountingStorageHost": "localhost"}

SLURMDBD_CONF = f"""AuthType=auth/munge
DbdHost=localhost
SlurmUser=root
PidFile={PLACE}/{CONTROLLER}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm
"""

# The users of the cluster have an account; an account is what sacct knows a user by.
FIRST_ENTRIES = """add cluster test
add account lab
add user alice,bob account=lab
"""


def default_gres(gpus):
    """gres.conf for nodes of so many GPUs, in the order of their device files."""
    return f"Name=gpu File={DEVICES}/nvidia[0-{gpus - 1}]\n"


def port(number):
    """The port of the slurmd of the node of that number; the first is 1."""
    return 17820 + number


def slurm_conf(nodes, gres, settings):
    """The text of slurm.conf for nodes of these names, of which each has the generic resources `gres`.
    `settings` come on top of the usual ones; one that is None is left out."""
    hooks = {name: f"{HOOK_FOLDER}/run-{hook}" for name, hook in HOOKS.items()}
    lines = [f"{name}={value}" for name, value in (SETTINGS | hooks | settings).items()
             if value is not None]
    lines += [f"NodeName={name} NodeAddr={ADDRESS} Port={port(number)} CPUs=8 RealMemory=1000 Gres={gres}"
              for number, name in enumerate(nodes, 1)]
    lines.append("PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE")
    return "\n".join(lines) + "\n"
