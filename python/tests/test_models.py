"""The records: how they are read, and that the committed file is what the daemon describes."""

import dataclasses
import os
import sys
from pathlib import Path

import pytest

from gpuyard import models
from gpuyard.errors import Internal

PACKAGE = Path(__file__).resolve().parents[1]
LOAD = {"gpu_pool": [{"index": 0, "name": "H100", "vendor": "NVIDIA", "leased": True}],
        "pending_claimers": 1, "capacity": 4}


def test_models_match_daemon_openapi(shared):
    sys.path.insert(0, str(PACKAGE))
    try:
        import generate_models
    finally:
        sys.path.pop(0)
    document = shared.daemon.get("/openapi.json").json()
    written = (PACKAGE / "gpuyard" / "models.py").read_text(encoding="utf-8")
    assert generate_models.models_of(document) == written, (
        f"run python/generate_models.py --from {os.environ.get('GPUYARD_BIN', 'PROGRAM')} "
        "> python/gpuyard/models.py")


def test_every_openapi_example_is_read_and_written_back(shared):
    """The examples are every route's response, with every record in it."""
    document = shared.daemon.get("/openapi.json").json()
    read = set()
    for route in document["paths"].values():
        for operation in route.values():
            for status, answer in operation["responses"].items():
                content = answer.get("content", {}).get("application/json", {})
                name = content.get("schema", {}).get("$ref", "").rsplit("/", 1)[-1]
                if "example" not in content or not name or name == "Error":
                    continue
                record = getattr(models, name).read(content["example"])
                assert record.extra == {}, f"{name} of {status}"
                read.add(name)
                again = type(record).read(record.to_json())
                assert again == record
    assert {"LeaseAnswer", "EnergyWindow", "Snapshot", "Alerts", "ChangeResults"} <= read


def test_unknown_field_of_newer_daemon_is_kept():
    load = models.Load.read({**LOAD, "shape": "round"})
    assert load.extra == {"shape": "round"}
    assert load.to_json()["shape"] == "round"


def test_unknown_enum_value_is_read_as_text():
    gpu = models.CauseShare.read({"cause": "moon", "seconds": 1, "percent": 2.5})
    assert gpu.cause == "moon"


@pytest.mark.parametrize("data", [
    None, [], "x", 3,
    {**LOAD, "capacity": "4"}, {**LOAD, "capacity": True}, {**LOAD, "capacity": None},
    {**LOAD, "gpu_pool": {}}, {**LOAD, "gpu_pool": [3]}, {**LOAD, "gpu_pool": None},
    {"gpu_pool": [], "capacity": 4},
])
def test_malformed_record_is_refused_by_type_name(data):
    with pytest.raises(Internal, match="Load|PooledGpu"):
        models.Load.read(data)


def test_a_record_is_a_frozen_dataclass():
    load = models.Load.read(LOAD)
    assert dataclasses.is_dataclass(load)
    assert [field.name for field in dataclasses.fields(load)][-1] == "capacity"
    with pytest.raises(dataclasses.FrozenInstanceError):
        load.capacity = 5
    with pytest.raises(dataclasses.FrozenInstanceError):
        del load.capacity
    assert dataclasses.replace(load, capacity=5).capacity == 5
    assert load == models.Load.read(LOAD) and hash(load) == hash(models.Load.read(LOAD))
    assert load != dataclasses.replace(load, capacity=5)
    assert dataclasses.asdict(load)["gpu_pool"][0]["name"] == "H100"
    assert "capacity=4" in repr(load)


def test_request_omits_unset_and_rejects_unknown_fields():
    assert models.LeaseRequest(gpus=2).to_json() == {"gpus": 2}
    with pytest.raises(TypeError):
        models.LeaseRequest(gpu=2)
    with pytest.raises(TypeError):
        models.RenewRequest()
