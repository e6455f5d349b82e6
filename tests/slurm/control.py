"""The programs that a cluster consists of beside its nodes: munged, slurmctld and, for accounting, slurmdbd
and the database that it writes to.
"""

from service import Service
from slurm_conf import CONTROLLER, DATABASE_SOCKET, ETC, FIRST_ENTRIES, PLACE, SLURMDBD_CONF

HERE = f"{PLACE}/{CONTROLLER}"
MUNGE = f"{PLACE}/munge"
MYSQL = f"{PLACE}/mysql"
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "TZ": "UTC"}  # of all daemons here

MUNGED = ("munged", "--foreground", "--force", f"--key-file={MUNGE}/key", f"--seed-file={MUNGE}/seed",
          f"--log-file={MUNGE}/log", f"--pid-file={MUNGE}/pid")
# MariaDB names its temporary tables by its process ID, which another cluster's has too: /tmp is one for all.
INSTALL = ("mariadb-install-db", "--no-defaults", f"--datadir={MYSQL}", f"--tmpdir={MYSQL}", "--user=root",
           "--skip-test-db", "--auth-root-authentication-method=normal")
DATABASE = ("mariadbd", "--no-defaults", "--user=root", f"--datadir={MYSQL}", f"--tmpdir={MYSQL}",
            f"--socket={DATABASE_SOCKET}", f"--pid-file={MYSQL}/pid", "--skip-networking", "--skip-log-bin",
            "--innodb-buffer-pool-size=32M", "--innodb-log-file-size=8M",
            "--innodb-flush-log-at-trx-commit=0")


class Control:
    """`munge`, `controller`, `accounts` and `database`, each a Service. Part of a Cluster."""

    def _name_services(self):
        def service(name, words, ready):
            return Service(self.enclosure, CONTROLLER, f"{HERE}/{name}.log", words, ready, ENVIRONMENT)

        def works(*words):
            return lambda: self.run(*words).returncode == 0

        self.munge = service("munged", MUNGED, works("munge", "-n"))
        self.controller = service("slurmctld", ("slurmctld", "-D"), works("scontrol", "ping"))
        self.database = service("mariadbd", DATABASE, works(
            "mariadb-admin", "--no-defaults", f"--socket={DATABASE_SOCKET}", "--user=root", "ping"))
        self.accounts = service("slurmdbd", ("slurmdbd", "-D"),
                                lambda: self.enclosure.connects("127.0.0.1", 6819))

    def _start_munge(self):
        """Starts munge at the socket that all programs expect."""
        for folder in (MUNGE, "/run/munge"):
            self.enclosure.outside(folder).mkdir()
        self.enclosure.write(f"{MUNGE}/key", "a key that is no secret, of at least 32 bytes", 0o400)
        self.munge.start()

    def _start_accounting(self):
        self.enclosure.outside(DATABASE_SOCKET).parent.mkdir()
        self.must(*INSTALL)
        self.database.start()
        self.enclosure.write(f"{ETC}/slurmdbd.conf", SLURMDBD_CONF, 0o600)
        self.accounts.start()
        self.must("sacctmgr", "-i", input=FIRST_ENTRIES)
