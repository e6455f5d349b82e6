"""docs/troubleshooting.md: on a machine with the symptom, the command of each row prints what the row shows."""

import re
import subprocess

import pytest

from net_yard import openssl
from program import open_directory, wait_until
from shown_blocks import ROOT, Place, line_pattern, normal, of_this_user
from test_doors import DAY, dated

# Rows that are not run, by their symptom.
NOT_RUN = {
    "the disk is full; no lease is granted": "needs a disk of its own: tests/process/test_lease_disk.py",
}
# A lease that has ended, while a program still uses its GPU.
LEFT = ('eval "$(gpuyard lease take --for 1h --export --quiet)" && { python 600 >/dev/null 2>&1 & echo $! >left; } && '
        'gpuyard sim attach --pid $(cat left) --vram 2G && gpuyard lease release')
# What causes the symptom, and the command if the page's differs. Without an entry the page's is run as it is.
CAUSES = {
    "a GPU is lost": ("gpuyard sim inject --gpu 1 --lost", None),
    "its readings are stale": ("gpuyard sim inject --gpu 3 --call any --never-returns", None),
    "its state is unknown": ("gpuyard sim inject --gpu 0 --call any --code 999", None),
    "a single value is missing": ("gpuyard sim inject --gpu 2 --call power_usage --code 4", None),
    "a GPU is withheld from leasing": ("gpuyard sim inject --gpu 0 --clear && gpuyard cordon 0 --reason fan", None),
    "a lease has ended, but its GPU is not free": (LEFT, None),
    "the queue stands still": ("gpuyard run --among 0,1 -- true >/dev/null 2>&1 & echo $! >claim", None),
    "`gpuyard run --no-wait` fails with exit code 7": ("true", "gpuyard run -n 8 --no-wait -- true"),
    "it does not start: another one runs": ("true", "gpuyard serve --simulate 1 --state daemon/state"),
    "it does not start: the port is taken":
        ("true", "gpuyard serve --simulate 1 --state other --socket other.sock --listen 127.0.0.1:9410"),
}
OTHER_PLACES = {"commands find no daemon": "empty", "it does not start: configuration": "empty",
                "the certificate has expired; `certificate-refused` fires": "expired"}


def rows():
    """(symptom, command, what it prints) of those rows that show what a command prints."""
    for line in (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("| ") and not line.startswith("| symptom "):
            symptom, command, output, _ = line.strip("| ").split(" | ")
            if texts := re.findall(r"`([^`]+)`", output):
                yield symptom, command.strip("`").removeprefix("sudo "), texts


def faulty(place):
    file = place.write("alerts.toml", '[sink.hook]\nkind = "webhook"\nurl = "http://127.0.0.1:9/"\n')
    daemon = place.serve("--simulate", "8", "--load", "idle", config=f'[alerts]\nfile = "{file}"\n')
    place.link("bin/python", "/bin/sleep")
    place.replaced = {":9410": f":{daemon.ready().port}"}
    place.rest.callback(place.run, "kill $(cat left claim)")


def empty(place):
    place.write("gpuyard/gpuyard.toml", '[alerts]\nrules = "alerts.toml"\n')


def expired(place):
    key, certificate = place.directory / "key.pem", place.directory / "certificate.pem"
    openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key)
    key.chmod(0o600)
    dated(place.directory, key, certificate, -2 * DAY, -DAY)
    place.serve("--simulate", "1", config='[tls]\nlisten = ["127.0.0.1:0"]\n'
                f'certificate = "{certificate}"\nkey = "{key}"\n').ready()


@pytest.fixture(scope="module")
def places():
    with open_directory() as one, open_directory() as two, open_directory() as three:
        made = {"faulty": Place(one), "empty": Place(two), "expired": Place(three)}
        for name, set_up in (("faulty", faulty), ("empty", empty), ("expired", expired)):
            set_up(made[name])
        yield made
        for place in made.values():
            place.close()


@pytest.mark.parametrize("symptom, command, texts", [row for row in rows() if row[0] not in NOT_RUN],
                         ids=lambda value: value if isinstance(value, str) else "")
def test_row_shows_what_the_command_prints(symptom, command, texts, places):
    place = places[OTHER_PLACES.get(symptom, "faulty")]
    cause, instead = CAUSES.get(symptom, (None, None))
    if cause:
        subprocess.run(["sh", "-c", cause], cwd=place.directory, env=place.environment, check=True)
    printed = ""

    def is_shown():
        nonlocal printed
        printed = place.run(instead or command)
        lines = "\n".join(map(normal, printed.splitlines()))
        return all(re.search(line_pattern(of_this_user(text)), lines) for text in texts)
    wait_until(is_shown, lambda: f"{instead or command} prints\n{printed}", every=0.3)


def test_each_listed_row_exists():
    known = {symptom for symptom, _, _ in rows()}
    assert sorted({*NOT_RUN, *CAUSES, *OTHER_PLACES} - known) == []
