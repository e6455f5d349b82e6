"""Events of GPUs: reported by the driver, by the kernel's log, or by both, and counted once."""

import json
import os
import re
import time

import pytest

from program import wait_until

WARM_UP = 45  # an Xid that no test checks


def xid_errors(yard, gpu):
    return {one["xid"]: one for one in yard.get(f"/api/gpu/devices/{gpu}").json()["xid_errors"]}


def count(yard, gpu, xid):
    return xid_errors(yard, gpu).get(xid, {"count": 0})["count"]


def listening(yard, gpu=0):
    """Waits until the driver-host waits for events: earlier events are not reported."""
    return until_told(yard, gpu, WARM_UP, "the first event to be told")


def until_told(yard, gpu, xid, what):
    """Makes that Xid happen again and again until one more of them is counted."""
    before = count(yard, gpu, xid)
    def counted():
        if count(yard, gpu, xid) > before:
            return True
        yard.sim("inject", "--gpu", str(gpu), "--xid", str(xid))
        return False
    wait_until(counted, what, every=0.3)
    return yard


def kernel_log(tmp_path, daemon, *arguments):
    """A daemon that takes a FIFO for the kernel's log, and a function that writes there."""
    fifo = tmp_path / "kmsg"
    os.mkfifo(fifo)
    config = tmp_path / "gpuyard.toml"
    config.write_text(f'[events]\nkernel_log = "{fifo}"\n')
    yard = daemon("--simulate", "2", "--config", str(config), *arguments)

    def write(text):
        with open(fifo, "w", encoding="ascii") as log:
            log.write(text)
    return yard, write


def slot(yard, gpu):
    """The address as the kernel's log has it: without the function."""
    return yard.get(f"/api/gpu/devices/{gpu}").json()["pci_address"].rsplit(".", 1)[0]


def test_xid_is_counted_shown_and_dated_in_time(daemon, run):
    yard = listening(daemon("--simulate", "2"))
    assert xid_errors(yard, 1) == {}
    assert 'gpuyard_gpu_xid_errors_total{device="1"' not in yard.get("/metrics").text
    before = time.time()
    began = time.monotonic()
    yard.sim("inject", "--gpu", "1", "--xid", "79")
    wait_until(lambda: count(yard, 1, 79) == 1, "the Xid")
    assert time.monotonic() - began < 2
    uuid = yard.get("/api/gpu/devices/1").json()["uuid"]
    text = yard.get("/metrics").text
    labels = rf'{{device="1",uuid="{uuid}",xid="79"}}'
    assert f"\ngpuyard_gpu_xid_errors_total{labels} 1\n" in text
    seen = re.search(rf"gpuyard_gpu_xid_last_seen_timestamp_seconds{re.escape(labels)} (\S+)", text)
    assert before - 1 < float(seen.group(1)) < time.time() + 1
    yard.wait_for_log("GPU 1: Xid 79: The GPU has fallen off the bus.")
    page = run("devices", "1", "--socket", yard.socket).stdout
    assert re.search(r"Xid 79 \(1 time, last \S+\): The GPU has fallen off the bus\.", page)


def test_memory_errors_are_events_too(daemon):
    yard = listening(daemon("--simulate", "1"))
    yard.sim("inject", "--gpu", "0", "--ecc-corrected", "1")
    yard.wait_for_log("GPU 0: A memory error was corrected.")
    yard.sim("inject", "--gpu", "0", "--ecc-uncorrected", "1")
    yard.wait_for_log("GPU 0: A memory error could not be corrected.")


def test_xid_from_driver_and_kernel_counts_once(daemon, run, tmp_path):
    yard, write = kernel_log(tmp_path, daemon)
    listening(yard)
    told = (f"4,1,1000,-;NVRM: Xid (PCI:{slot(yard, 1)}): 31, pid=4711, name=python3, Ch 00000008, "
            "MMU Fault\n")
    for _ in range(3):
        yard.sim("inject", "--gpu", "1", "--xid", "31")
        write(told)
    wait_until(lambda: count(yard, 1, 31) == 3, "three Xids")
    write(f"4,1,1000,-;NVRM: Xid (PCI:{slot(yard, 1)}): 13, Graphics Exception\n")
    wait_until(lambda: count(yard, 1, 13) == 1, "the one that only the kernel tells")
    yard.wait_for_readings(2)
    doctor = json.loads(run("doctor", "--json", "--socket", yard.socket).stdout)
    assert doctor["daemon"]["reads_kernel_log"] is True, "as the daemon says, whatever its capabilities are now"
    assert count(yard, 1, 31) == 3
    assert yard.log().count("GPU 1: Xid 31: ") == 3
    assert "python3" not in yard.log() and "4711" not in yard.log()


# A user's line in /dev/kmsg has another facility than the kernel's own.
def test_kernel_log_line_from_user_is_ignored(daemon, tmp_path):
    if not os.access("/dev/kmsg", os.R_OK | os.W_OK):
        pytest.skip("/dev/kmsg is not this user's to read and write")
    config = tmp_path / "gpuyard.toml"
    # In this spelling it is asked for: the log of the machine itself is not read with simulated GPUs.
    config.write_text('[events]\nkernel_log = "/dev//kmsg"\n')
    yard = daemon("--simulate", "1", "--config", str(config))
    assert "no Xids from the kernel log" not in yard.log()
    number = 1_000_000 + os.getpid()  # the log is that of the whole machine: use an Xid that no other test uses
    with open("/dev/kmsg", "w", encoding="ascii") as log:
        log.write(f"<4>NVRM: Xid (PCI:{slot(yard, 0)}): {number}, a test of gpuyard\n")
    time.sleep(1)
    assert count(yard, 0, number) == 0


def test_unreadable_kernel_log_is_reported_once(daemon, tmp_path):
    config = tmp_path / "gpuyard.toml"
    config.write_text('[events]\nkernel_log = "/nowhere/kmsg"\n')
    yard = listening(daemon("--simulate", "1", "--config", str(config)))
    assert yard.log().count("no Xids from the kernel log") == 1
