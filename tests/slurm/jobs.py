"""Users' commands to a cluster: submit jobs, wait for them, and read their results."""

import re

from program import wait_until
from slurm_conf import PLACE

JOBS = f"{PLACE}/jobs"  # where jobs run and their output lies
OVER = ("CANCELLED", "COMPLETED", "FAILED", "NODE_FAIL", "TIMEOUT")


class Jobs:
    """Part of a Cluster."""

    def submit(self, command, *options, user="alice", gpus=0, on=None):
        """The number of a job that runs this shell command: submit("sleep 1", gpus=2, on="n1,n2") has two
        GPUs on each of two nodes. `options` are sbatch's."""
        words = ["sbatch", "--parsable", *options]
        if gpus:
            words.append(f"--gres=gpu:{gpus}")
        if on:
            words += ["--nodelist", on, "--nodes", str(len(on.split(",")))]
        return int(self.must(*words, "--wrap", command, user=user).split(";")[0])

    def job(self, number):
        """Slurm's record of the job: job(1)["JobState"]. Values with spaces are cut."""
        return dict(re.findall(r"(\S+?)=(\S*)", self.must("scontrol", "show", "job", str(number), "-o")))

    def wait_for_job(self, number, *states):
        """Waits until it is in one of these states; without any, until it and its hooks are over.
        Returns the state."""
        def reached():
            state = self.job(number)["JobState"]
            return state if state in (states or OVER) else None
        return wait_until(reached, lambda: f"job {number} to be {states or 'over'}: {self.job(number)}",
                          every=0.1)

    def cancel(self, number):
        self.must("scancel", str(number))

    def release(self, number):
        """Lets a job go that is held, or waits after it was requeued: Slurm itself would wait two minutes."""
        self.run("scontrol", "release", str(number))
        self.must("scontrol", "update", f"job={number}", "StartTime=now")

    def output(self, number):
        return self.enclosure.outside(f"{JOBS}/slurm-{number}.out").read_text()

    def account(self, number, *fields):
        """sacct's record of an ended job: account(1, "State", "AdminComment"). sacct gets the end
        later than others."""
        def shown():
            line = self.must("sacct", "-X", "-n", "-P", "--delimiter=\t", "-j", str(number),
                             "-o", ",".join(("State", *fields))).rstrip("\n").split("\t")
            return line[1:] if line[0].split(" ")[0] in OVER else None
        return wait_until(shown, f"sacct to know of the end of job {number}", every=0.1)
