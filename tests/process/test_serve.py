"""The daemon on a simulated fleet, as REST clients see it."""

import json
import re
import signal

from program import runs, wait_until

NOT_ON_AN_H100 = {"fan_speed_percent", "retired_pages_single_bit",
                  "retired_pages_double_bit", "retired_pages_pending", "recovery_action", "throttle_time_sw_thermal_seconds",
                  "throttle_time_hw_thermal_seconds", "throttle_time_power_brake_seconds"}

DEVICE_FIELDS = ["index", "name", "total_memory_mb", "free_memory_mb", "used_memory_mb",
                 "utilization_percent", "temperature_c", "is_available", "error_message"]


def test_snapshot_has_all_readings_and_simulated_flag(shared):
    body = shared("--simulate", "4").get("/api/gpu/snapshot", unix=True).json()
    assert body["schema"] == 1
    assert body["simulated"] is True
    assert body["driver_initialised"] is True
    gpu = body["devices"][1]
    assert gpu["uuid"].startswith("GPU-") and gpu["pci_address"].count(":") == 2
    for key in ("memory_total_bytes", "power_draw_w", "power_limit_w", "energy_total_j",
                "clock_sm_mhz", "utilization_gpu_percent", "temperature_core_celsius"):
        assert isinstance(gpu["readings"][key], (int, float)), key
    # Readings that an H100 does not have; the performance monitors need a second sample.
    assert {key for key in gpu["missing"] if not key.startswith("gpm_")} == NOT_ON_AN_H100


def test_alive_and_ready(shared):
    yard = shared("--simulate", "4")
    assert yard.get("/health").json()["status"] == "ok"
    ready = yard.get("/ready")
    assert ready.status == 200
    answer = ready.json()
    assert re.fullmatch(r"20..-..-..T..:..:..\....Z", answer.pop("now"))
    assert answer == {"ready": True, "reason": "serving simulated GPUs",
                            "cuda_available": True, "gpus": 4, "simulated": True, "notes": [],
                            "reads_kernel_log": False, "lacks": []}


def test_the_description_lists_every_route_with_its_schema(shared, record_property):
    record_property("contract", "E3 E8")
    yard = shared("--simulate", "4")
    document = yard.get("/openapi.json").json()
    assert document["openapi"] == "3.1.0"
    devices = document["paths"]["/api/gpu/devices"]["get"]
    assert devices["tags"] == ["GPU"]
    schema = devices["responses"]["200"]["content"]["application/json"]["schema"]
    assert schema == {"$ref": "#/components/schemas/GPUDevicesResponse"}
    schemas = document["components"]["schemas"]
    assert {"GPUDevice", "GPUDevicesResponse", "DriverInfo"} <= set(schemas)
    assert schemas["GPUDevicesResponse"]["required"] == ["devices", "count"]
    assert (schemas["GPUDevicesResponse"]["properties"]["devices"]["items"]
            == {"$ref": "#/components/schemas/GPUDevice"})
    assert list(schemas["GPUDevice"]["properties"]) == DEVICE_FIELDS
    for path, operations in document["paths"].items():
        assert set(operations) <= {"get", "post", "put", "delete"}
        if "{" in path or "get" not in operations:
            continue
        # test_http_docs.py: it may have been built without its files; and a stream has no end
        content = operations["get"]["responses"]["200"]["content"]
        if path != "/docs" and "text/event-stream" not in content:
            assert yard.get(path, unix=True).status == 200, path


def test_sigterm_and_ctrl_c_end_daemon_cleanly(daemon, record_property):
    record_property("contract", "E8")
    for number in (signal.SIGTERM, signal.SIGINT):
        yard = daemon("--simulate", "2")
        host, keeper = yard.driver_host(), yard.keeper()
        assert host and keeper
        assert yard.stop(number) == 0
        wait_until(lambda: not runs(host) and not runs(keeper), "its children to end")
        assert not list(yard.directory.glob("*.sock")), "the socket file is left behind"


def test_killed_daemon_leaves_no_child(daemon):
    yard = daemon("--simulate", "2")
    host, keeper = yard.driver_host(), yard.keeper()
    yard.stop(signal.SIGKILL)
    wait_until(lambda: not runs(host) and not runs(keeper), "its children to end")


def test_the_greeting_shows_the_gpus_and_the_urls(daemon):
    yard = daemon("--simulate", "2", "--greet")
    out = yard.directory / "daemon.out"
    wait_until(lambda: "Ctrl-C" in out.read_text(), "the greeting")
    text = out.read_text()
    assert text.count("H100 80GB HBM3") == 2
    assert f"http://127.0.0.1:{yard.port}/api/gpu/devices" in text
    assert "These GPUs are simulated." in text
