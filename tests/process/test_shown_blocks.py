"""Blocks of the documents that show output: each is run on simulated GPUs and prints what the page shows, or is
listed with the reason why it cannot be run here. The tour has a test of its own, and tests write two more pages."""

import contextlib
import datetime
import http.server
import json
import os
import re
import threading

import pytest

from inventory_daemon import InventoryDaemon, gpu, inventory, machine
from program import PROGRAM, open_directory
from shown_blocks import ROOT, SIMULATED, Place, blocks
from sim_world import World
from test_slurm_plan_files import MUNGE, SLURMD

ELSEWHERE = {"tour.md", "top_screens.md", "slurm_plan.md"}
PAGES = {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8")
         for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))) if page.name not in ELSEWHERE}
# An output without its command is in a block without a language, or in one of these.
OUTPUT_LANGUAGES = {"", "text", "console"}
COMMAND = re.compile(r"(gpuyard|sudo|pip|git|cmake|\./yard|lease=\$\(curl) ")

# Blocks that are not run, by page and first line.
NOT_RUN = {
    ("docs/fleet.md", "gpuyard fleet doctor"): "needs other machines: tests/fleet/test_fleet_doctor.py",
    ("docs/kubernetes.md", "kubectl describe node node7"): "needs a cluster: tests/kube/test_agent.py",
    ("docs/library.md", "ALERT [severity 57]: GPU 0: temperature is 87 C, threshold 80 C"): "a log line of the library",
    ("docs/library.md", "Power limit set to 300 W [gpu=0 time_to_command_done=1.204ms overhead=0.031ms request_id=job-17]"):
        "log lines of the library",
    ("docs/slurm.md", "sinfo -R -o '%.75E %N'"): "needs Slurm: tests/slurm/test_slurm.py",
    ("docs/slurm.md", "gpuyard run -n 2 --model H100 --max-time 2h --through slurm -- ./train.sh"):
        "needs Slurm: tests/slurm/test_slurm_run.py",
    ("docs/slurm.md", "gpuyard queue --through slurm"): "needs Slurm: tests/slurm/test_slurm_queue.py",
}
# Foreign programs in the other blocks; they may be missing.
NO_PROGRAM = {"nvtop"}

CONTROL = "[control]\nenabled = true\n"
# Of three machines, lab3 is down.
SSH = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
case $2 in
lab1) socket=daemon ;;
lab2) socket=lab2 ;;
lab3) echo "ssh: connect to host lab3 port 22: No route to host" >&2; exit 255 ;;
esac
GPUYARD_SOCKET="$HOME/$socket/gpuyard.sock" exec gpuyard dial-stdio
"""
# The real one on a machine without a GPU, except that there is nothing to build.
YARD = f"""#!/bin/bash
set -e
cd {ROOT}
. tools/yard/common.sh
. tools/yard/run.sh
install_packages() {{ :; }}; prepare_web() {{ :; }}; build() {{ :; }}; probe_gpus() {{ return 1; }}
cd "$HOME"
"yard_$1" --socket "$HOME/gpuyard.sock" --state "$HOME/state" --listen 127.0.0.1:0
"""
# A mount namespace in which the machines of slurm.md have addresses.
WITH_HOSTS = "unshare -m sh -c 'mount --bind hosts /etc/hosts && exec \"$@\"' sh "


def first_minute(place):
    place.write("yard", YARD)
    place.link("build/release/gpuyard", PROGRAM)
    place.replaced = {"/run/gpuyard": str(place.directory)}


def demo(place):
    daemon = place.serve("--simulate", "8", config=CONTROL)
    world = World(place.directory)
    place.rest.callback(world.end)
    world.start("--gpus", "8", "--load", "idle", "--machine", "lab2")
    place.serve(name="lab2", GPUYARD_SIM_WORLD=str(world.directory))
    place.write("bin/ssh", SSH)
    place.write("gpuyard/hosts.toml", "".join(f'[{name}]\nurl = "ssh://{name}"\n' for name in ("lab1", "lab2", "lab3")))
    place.write("train.sh", "#!/bin/sh\nsleep 1\n")
    place.replaced = {":9410": f":{daemon.ready().port}"}
    daemon.wait_for_readings(2)  # before that, the use of a lease is unknown


def laptop(place):
    world = World(place.directory)
    place.rest.callback(world.end)
    world.start("--gpus", "1", "--load", "idle", "--suspend-after", "3")
    pci = f"{world.directory}/pci"
    place.replaced = {"/sys/bus/pci/devices": pci}
    place.serve(config=f'[telemetry]\npci_root = "{pci}"\n', GPUYARD_SIM_WORLD=str(world.directory))


def simulator(place):
    place.link("examples", ROOT / "examples")
    place.replaced = {"/run/user/1000": str(place.directory)}
    place.rest.callback(place.run, "gpuyard sim stop")


def answers():
    """What the API server of kubernetes.md lists, by path."""
    def node(name, status, reason, message, taints):
        since = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        return {"metadata": {"name": name, "uid": name, "resourceVersion": "1"}, "spec": {"taints": taints},
                "status": {"conditions": [{"type": "gpuyard.io/GPUsHealthy", "status": status, "reason": reason,
                                           "message": message, "lastTransitionTime": since}]}}

    rule = {"metadata": {"name": "gpuyard-node7-2", "uid": "rule", "labels": {"gpuyard.io/node": "node7"},
                         "ownerReferences": [{"kind": "Node", "name": "node7", "uid": "node7"}]},
            "spec": {"deviceSelector": {"driver": "gpu.nvidia.com", "pool": "node7", "device": "gpu-2"},
                     "taint": {"key": "gpuyard.io/sick", "value": "xid-fatal", "effect": "NoSchedule"}}}
    return {
        "/apis/resource.k8s.io/v1": {"resources": [{"name": "devicetaintrules"}, {"name": "resourceslices"}]},
        "/apis/resource.k8s.io/v1/devicetaintrules": {"items": [rule]},
        "/api/v1/nodes": {"items": [
            node("node7", "False", "XidFatal", "GPU 2: Xid 79. The GPU has fallen off the bus.", []),
            node("node8", "False", "GpuLost", "GPU 5 is lost: the driver can no longer reach it. Stop its processes.",
                 [{"key": "gpuyard.io/gpu-sick", "value": "gpu-lost", "effect": "NoSchedule"}])]}}


class Lists(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps(answers()[self.path.partition("?")[0]]).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def kubernetes(place):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Lists)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    place.rest.callback(server.server_close)
    place.rest.callback(server.shutdown)
    place.write("admin.json", json.dumps({
        "current-context": "one", "contexts": [{"name": "one", "context": {"cluster": "one"}}],
        "clusters": [{"name": "one", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}]}))


def slurm(place):
    names = ("lab1", "lab2", "lab3")
    for name, file, gpus in [*((name, name, 4) for name in names), ("lab1", "after", 3)]:
        answer = inventory(machine(name), [gpu(index, node=index // 2) for index in range(gpus)])
        place.rest.callback(InventoryDaemon(place.directory / f"{file}.sock", answer).end)
    place.environment["GPUYARD_SOCKET"] = f"{place.directory}/after.sock"
    place.write("gpuyard/hosts.toml", "".join(f'[{name}]\nurl = "unix://{place.directory}/{name}.sock"\n' for name in names))
    place.write("hosts", "127.0.0.1 localhost lab1 lab2 lab3\n")
    place.write("bin/slurmd", SLURMD.format(cpus=16))
    place.write("bin/munge", MUNGE)
    place.replaced = {"/etc/slurm": f"{place.directory}/slurm-plan",
                      "gpuyard slurm plan --hosts": f"{WITH_HOSTS}gpuyard slurm plan --hosts",
                      "gpuyard slurm plan --check": f"gpuyard slurm plan --check --into {place.directory}/slurm-plan"}


# GPU 0 is too hot; the link of GPU 1 has half of its lanes.
SLOW = """[world]
model = "h100:2"
warm_up = "60s"
workload = "steady:1"
[[at]]
time = "1s"
gpu = 1
pcie_width = 8
[[at]]
time = "1s"
gpu = 0
heat = 50
"""


def why(place):
    place.environment["TZ"] = "CET-1"
    place.serve("--simulate", "2", "--scenario", str(place.write("slow.toml", SLOW)))


# What each page needs to run its blocks.
PLACES = {
    "README.md": first_minute, "docs/cli.md": demo, "docs/control.md": demo, "docs/energy.md": demo, "docs/events.md": demo,
    "docs/fleet.md": demo, "docs/kubernetes.md": kubernetes, "docs/laptops.md": laptop, "docs/prometheus.md": demo,
    "docs/simulator.md": simulator, "docs/slurm.md": slurm, "docs/why_slow.md": why}


def shows_output(block):
    if "$ " in block.text and any(lines for _, lines in block.steps()):
        return True
    return block.language in OUTPUT_LANGUAGES and not block.text.startswith("$ ") and not COMMAND.match(block.text)


def shown(page):
    """The page's blocks with output."""
    return [block for block in blocks(PAGES[page]) if shows_output(block)]


@pytest.fixture(scope="module")
def places():
    """Each place is made once. All are made before the first test, as some need a while."""
    made = {}
    with contextlib.ExitStack() as rest:
        for set_up in PLACES.values():
            if set_up not in made:
                made[set_up] = Place(rest.enter_context(open_directory()))
                rest.callback(made[set_up].close)
                made[set_up].hidden = set() if set_up is first_minute else SIMULATED
                set_up(made[set_up])
        yield made


@pytest.mark.parametrize("page", PLACES)
def test_blocks_print_what_the_page_shows(page, places):
    if page == "docs/slurm.md" and os.geteuid() != 0:
        pytest.skip("only root can give the names of its machines addresses")
    run = [block for block in shown(page) if (page, block.first) not in NOT_RUN]
    assert run, f"{page} shows no output of a command, and needs no place"
    for block in run:
        assert list(block.steps()), f"{page} does not show the command that prints: {block.first}"
        for command, lines in block.steps():
            if command.split()[0] not in NO_PROGRAM:
                places[PLACES[page]].check(command, lines)


@pytest.mark.parametrize("text, has_output", [
    ("```console\n$ gpuyard devices\nGPU 0\n```", True), ("\n\n    $ gpuyard devices\n    GPU 0\n", True),
    ("```\nGPU 0 has no bottleneck.\n```", True), ("```text\nGPU 0\n```", True),
    ("```console\n$ gpuyard sim stop\n```", False), ("```\ngpuyard devices\n```", False), ("```toml\na = 1\n```", False)])
def test_blocks_with_output_are_found(text, has_output):
    assert [shows_output(block) for block in blocks(text + "\n")] == [has_output]


def test_each_block_is_run_or_listed():
    found = {(page, block.first) for page in PAGES for block in shown(page)}
    assert sorted(one for one in found if one[0] not in PLACES and one not in NOT_RUN) == []
    assert sorted(set(NOT_RUN) - found) == [], "are listed, and are on no page"
