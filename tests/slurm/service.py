"""A program of a cluster that runs all the time, such as slurmctld, and how it goes away and comes back."""

import contextlib

from faults import stopped
from program import PATIENCE, children, wait_until


class Service:
    """A program on the machine `host` that writes into the file `log`. `ready` becomes its method answers(),
    which returns whether it answers its clients."""

    def __init__(self, enclosure, host, log, words, ready, environment):
        self._enclosure = enclosure
        self._host = host
        self._log = log
        self._words = words
        self.answers = ready
        self._environment = environment
        self.process = None

    def __str__(self):
        return f"{self._words[0]} of {self._host}"

    def log(self):
        return self._enclosure.outside(self._log).read_text(errors="replace")

    def begin(self, *more):
        """Starts it, with these words in addition, and does not wait until it answers."""
        with open(self._enclosure.outside(self._log), "ab") as log:
            self.process = self._enclosure.popen(*self._words, *more, net=self._host,
                                                 env=self._environment, stdout=log, stderr=log)

    def wait(self):
        def answers():
            assert self.process.poll() is None, f"the {self} ended:\n{self.log()}"
            return self.answers()
        wait_until(answers, lambda: f"the {self}:\n{self.log()}")

    def start(self, *more):
        self.begin(*more)
        self.wait()

    def kill(self):
        """At once, as by a crash."""
        self.process.kill()
        self.process.wait(PATIENCE)

    def stop(self):
        """As by an administrator: it may finish what it does."""
        self.process.terminate()
        self.process.wait(PATIENCE)

    @contextlib.contextmanager
    def killed(self):
        self.kill()
        try:
            yield
        finally:
            self.start()

    @contextlib.contextmanager
    def away(self):
        """As `killed`, but it has finished before."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    def hanging(self):
        """Stops the service for a while: connections to it open, and get no answer."""
        return stopped([self.process.pid, *children(self.process.pid)])
