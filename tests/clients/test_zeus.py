"""The Python package `zeus`, which was written for zeusd, with a daemon of ours instead."""

import grp
import json
import os
import sys
import threading
import time

import pytest

from fleet import World, close
from powercap import Powercap
from program import UnixConnection, open_directory, wait_until
from proofs import record
from zeus_facade import GROUP, Facade

ZeusdError = pytest.importorskip("zeus.device.exception").ZeusdError
PowerStreamingClient = pytest.importorskip("zeus.monitor.power_streaming").PowerStreamingClient
zeusd = pytest.importorskip("zeus.utils.zeusd")

# The calls of a training job: Zeus finds the socket in its environment, and sets through it what it may
# not set itself. Energy and everything else it reads from the driver.
JOB = """
import json, sys
from zeus.device import get_gpus
gpus = get_gpus()
gpu = gpus.gpus[1]
low, high = gpu.get_power_management_limit_constraints()
seen = {"class": type(gpu).__name__, "count": len(gpus), "names": [one.get_name() for one in gpus.gpus],
        "limits": [low, high]}
gpu.set_power_management_limit(low + 5000)
seen["limit"] = gpu.get_power_management_limit()
gpu.set_persistence_mode(True)
seen["persistence"] = gpu.get_persistence_mode()
gpu.set_gpu_locked_clocks(600, 900)
try:
    gpu.set_power_management_limit(high + 1000)
except Exception as refused:
    seen["refused"] = type(refused).__name__ + ": " + str(refused)
json.dump(seen, sys.stdout)
"""


def writes(world):
    """Returns the writes that reached the driver, in order."""
    return [(one["gpu"], one["setting"], one["values"], one["nvml_code"])
            for one in world.status()["writes"]]


def client_of(yard):
    return zeusd.ZeusdClient(zeusd.ZeusdConfig.uds(yard.socket))


@pytest.fixture
def facade(daemon, tmp_path):
    """Facade of a world that is made with it: facade(model="h100", gpus=2, ...)."""
    worlds = []

    def make(model="h100", gpus=2, load="steady:0.9", directory=None, **options):
        place = directory or tmp_path / f"yard{len(worlds)}"
        place.mkdir(exist_ok=True)
        worlds.append(World(place / "world", model, gpus, load))
        return Facade(daemon, worlds[-1], place, **options)

    yield make
    for one in worlds:
        one.stop()


def test_a_job_sets_its_gpus_on_every_model(world, daemon, tmp_path, record_property):
    place = tmp_path / "yard"
    place.mkdir()
    yard = Facade(daemon, world, place)
    environment = world.environment() | {"ZEUSD_SOCK_PATH": yard.socket}
    world.environment = lambda: environment
    seen = json.loads(world.run(sys.executable, "-c", JOB))
    gpus = world.gpus()
    low, high = seen["limits"]
    assert seen["class"] == "ZeusdNVIDIAGPU" and seen["count"] == 2
    assert seen["names"] == [gpu["name"] for gpu in gpus]
    assert seen["limit"] == low + 5000 == gpus[1]["power_limit_w"] * 1000
    assert seen["persistence"] and gpus[1]["settings"]["persistence_mode"]
    assert gpus[1]["settings"]["locked_sm_mhz"] == [600, 900]
    assert f"{low // 1000} W to {high // 1000} W" in seen["refused"]
    assert seen["refused"].startswith("ZeusdError")
    assert gpus[0]["settings"]["locked_sm_mhz"] == []
    assert writes(world) == [(1, "power_limit", [low + 5000], 0), (1, "persistence_mode", [1], 0),
                             (1, "gpu_locked_clocks", [600, 900], 0)]
    compare_readings(client_of(yard), world.settled().gpus())
    record_property("matrix", f"zeus\t{world.model}\tdiscovery, power, energy, limit and its range, "
                              "persistence; sets limit, persistence, GPU clocks")
    record("zeus", "ran")


def compare_readings(client, gpus):
    assert [(one.id, one.name) for one in client.gpus] == [(gpu["index"], gpu["name"])
                                                           for gpu in gpus]
    power = client.get_gpu_power()
    assert abs(power.timestamp_ms / 1000 - time.time()) < 5
    for index, milliwatts in power.power_mw.items():
        assert close(milliwatts / 1000, gpus[index]["power_w"], 5)
    assert client.get_power_limit([1]) == {1: gpus[1]["power_limit_w"] * 1000}
    assert client.get_persistence_mode([0, 1]) == {0: False, 1: True}


def test_energy_matches_the_world(facade):
    yard = facade("a100")
    client = client_of(yard)
    before = yard.world.gpus()
    read = client.get_gpu_energy([0, 1])
    after = yard.world.gpus()
    for index, millijoules in read.items():
        assert before[index]["energy_joules"] - 1 <= millijoules / 1000
        assert millijoules / 1000 <= after[index]["energy_joules"] + 1


def test_discovery_has_the_addresses_that_lspci_prints(facade):
    yard = facade("h100", 3)
    connection = UnixConnection(yard.socket)
    connection.request("GET", "/discover")
    found = json.loads(connection.getresponse().read())
    assert [gpu["pci_address"] for gpu in found["gpus"]] == [
        gpu["pci_address"][4:].lower() for gpu in yard.world.gpus()]
    assert all(gpu["cumulative_energy_available"] for gpu in found["gpus"])
    assert found["gpu_ids"] == [0, 1, 2] and found["simulated"]
    assert not found["auth_required"] and found["enabled_api_groups"] == ["gpu-control", "gpu-read"]


def test_every_client_setter_reaches_driver_in_order(facade, record_property):
    record_property("contract", "B15")
    yard = facade()
    client = client_of(yard)
    client.set_power_limit([0, 1], 400_000)
    client.set_persistence_mode([0], True)
    client.set_gpu_locked_clocks([1], 900, 1200)
    client.set_mem_locked_clocks([1], 1593, 2619)
    client.reset_gpu_locked_clocks([1])
    client.reset_mem_locked_clocks([1])
    client.set_power_limit([1], 350_000, block=False)
    wait_until(lambda: client.get_power_limit([1]) == {1: 350_000}, "what was only queued")
    of_gpu = {index: [one[1:] for one in writes(yard.world) if one[0] == index] for index in (0, 1)}
    assert of_gpu[0] == [("power_limit", [400_000], 0), ("persistence_mode", [1], 0)]
    assert of_gpu[1] == [("power_limit", [400_000], 0), ("gpu_locked_clocks", [900, 1200], 0),
                         ("memory_locked_clocks", [1593, 2619], 0),
                         ("gpu_locked_clocks_reset", [], 0), ("memory_locked_clocks_reset", [], 0),
                         ("power_limit", [350_000], 0)]


def test_refusal_names_reason_for_each_gpu(facade):
    yard = facade()
    client = client_of(yard)
    with pytest.raises(ZeusdError, match=r'"errors":\{"0":".*200 W to 700 W'):
        client.set_power_limit([0, 1], 50_000)
    with pytest.raises(ZeusdError, match=r'"error":"GPU 7 not found"'):
        client.set_power_limit([0, 7], 300_000)
    with pytest.raises(ZeusdError, match=r'"errors"'):
        client.set_gpu_locked_clocks([0], 1200, 900)
    assert writes(yard.world) == []


def test_disabled_control_is_visible_to_clients(facade):
    yard = facade(control=False)
    client = client_of(yard)
    assert client.can_read_gpu and not client.can_control_gpu
    with pytest.raises(zeusd.ZeusdCapabilityError, match="gpu-control"):
        zeusd.require_capabilities(client, control_gpu=True)
    with pytest.raises(ZeusdError, match=r"\[control\] enabled"):
        client.set_power_limit([0], 300_000)


def test_tcp_client_reads_but_cannot_set(facade):
    yard = facade()
    client = zeusd.ZeusdClient(zeusd.ZeusdConfig.tcp("127.0.0.1", yard.tcp_port()))
    assert client.get_power_limit([0]) == {0: 700_000}
    with pytest.raises(ZeusdError, match="TCP without TLS is read-only"):
        client.set_power_limit([0], 300_000)


def about(watts, wanted):
    """The counters are moved by a thread of ours, in jumps where the machine is busy."""
    return wanted / 4 < watts < wanted * 4


def streamed(client, enough, what):
    """Returns what a streaming client received, once `enough` returns true."""
    try:
        return wait_until(lambda: (heard := client.get_power()) and enough(heard) and heard, what)
    finally:
        client.stop()


def test_power_streams_to_zeuss_own_client(facade, tmp_path, record_property):
    record_property("contract", "B19")
    cpus = Powercap(tmp_path / "powercap", {0: (150, 20), 1: (90, None)})
    try:
        yard = facade(load="steady:0.9", powercap=cpus.directory)
        yard.world.settled()
        client = PowerStreamingClient([zeusd.ZeusdConfig.uds(yard.socket)])
        heard = streamed(client, lambda all_of: len(all_of[yard.socket].gpu_power_w) == 2
                         and len(all_of[yard.socket].cpu_power_w) == 2, "power of all")
    finally:
        cpus.stop()
    reading = heard[yard.socket]
    assert abs(reading.timestamp_s - time.time()) < 5
    for gpu in yard.world.gpus():
        assert close(reading.gpu_power_w[gpu["index"]], gpu["power_w"], 30)
    assert about(reading.cpu_power_w[0].cpu_w, 150)
    assert about(reading.cpu_power_w[0].dram_w, 20)
    assert about(reading.cpu_power_w[1].cpu_w, 90) and reading.cpu_power_w[1].dram_w is None


def test_a_streaming_client_finds_a_new_daemon(facade):
    yard = facade()
    client = PowerStreamingClient([zeusd.ZeusdConfig.uds(yard.socket)], reconnect_delay_s=0.2)
    wait_until(client.get_power, "the first power")
    yard.yard.stop()
    restarted = time.time()
    yard.yard = yard.start()
    streamed(client, lambda heard: heard[yard.socket].timestamp_s > restarted + 1, "power again")


def test_cpu_energy_continues_across_counter_overflow(facade, tmp_path):
    cpus = Powercap(tmp_path / "powercap", {0: (300, 40), 1: (100, None)})
    try:
        client = client_of(facade(powercap=cpus.directory))
        assert client.cpu_ids == [0, 1] and client.dram_available == [True, False]
        first, before = client.get_cpu_energy(), time.monotonic()
        wait_until(lambda: int((cpus.package(0) / "energy_uj").read_text()) < 10**10,
                   "the counter to go round")
        second, seconds = client.get_cpu_energy(), time.monotonic() - before
        assert close((second[0].cpu_energy_uj - first[0].cpu_energy_uj) / 1e6, 300 * seconds,
                     15 + 60 * seconds)
        assert second[0].dram_energy_uj >= first[0].dram_energy_uj
        assert second[1].dram_energy_uj is None
        power = client.get_cpu_power([0])
        assert about(power.power_mw[0].cpu_mw / 1000, 300)
    finally:
        cpus.stop()


@pytest.mark.skipif(os.geteuid() != 0, reason="takes the part of other users")
def test_setting_of_another_user_cannot_be_changed(facade, record_property):
    with open_directory() as place:
        yard = facade(directory=place)
        target = "/gpu/set_power_limit?gpu_ids=0&block=true&power_limit_mw="
        assert as_user(1001, yard.socket, target + "300000") == (200, "")
        status, why = as_user(1002, yard.socket, target + "400000")
        assert status == 403 and "zeus:1001" in json.loads(why)["errors"]["0"], why
        assert as_user(1001, yard.socket, target + "350000") == (200, "")
        assert writes(yard.world) == [(0, "power_limit", [300_000], 0),
                                      (0, "power_limit", [350_000], 0)]
        assert as_user(1002, yard.socket, target.replace("ids=0", "ids=1") + "400000")[0] == 200
        status, why = as_user(1003, yard.socket, target + "300000", groups=[])
        assert status == 403 and f'group \\"{GROUP}\\"' in why, why


def as_user(uid, path, target, groups=(grp.getgrnam(GROUP).gr_gid,)):
    """Status and body of a POST by that user."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups(groups)
            os.setgid(uid)
            os.setuid(uid)
            connection = UnixConnection(path)
            connection.request("POST", target)
            answer = connection.getresponse()
            os.write(write, json.dumps([answer.status, answer.read().decode()]).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        heard = pipe.read()
    os.waitpid(child, 0)
    return tuple(json.loads(heard))


def test_two_clients_of_one_user_are_one_owner(facade):
    yard = facade()
    many = [client_of(yard) for _ in range(4)]
    threads = [threading.Thread(target=one.set_power_limit, args=([0], 300_000 + 10_000 * i))
               for i, one in enumerate(many)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    reached = [one for one in writes(yard.world) if one[1] == "power_limit"]
    assert len(reached) == 4 and all(one[3] == 0 for one in reached)
    assert many[0].get_power_limit([0]) == {0: reached[-1][2][0]}


def test_zeuss_own_report_finds_the_daemon(facade):
    yard = facade()
    environment = yard.world.environment() | {"ZEUSD_SOCK_PATH": yard.socket}
    yard.world.environment = lambda: environment
    shown = yard.world.run(sys.executable, "-m", "zeus.show_env")
    assert f"Endpoint: {yard.socket}" in shown
    assert "can_control_gpu: True" in shown and "Auth required: False" in shown
