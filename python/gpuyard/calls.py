"""The requests of the client, without any I/O.

Each is a call sequence, which is a generator. It yields the next step, a Call or a Sleep, is sent
the JSON of the response or thrown an Error, and returns a record. The blocking and the asyncio
client each run it with a dozen lines, so that a rule such as "retry with the same ID" is written
once.
"""

from __future__ import annotations

import json
import secrets
import time
from typing import Any, Generator, Mapping, NamedTuple, Optional, Sequence, TypeVar, Union
from urllib.parse import quote, urlencode

from . import models
from .errors import Busy, Conflict, Error, Invalid, TimedOut, Unavailable, error_of, is_transient
from .units import Duration, Size, bytes_of, seconds_of

T = TypeVar("T")

# Seconds after which the daemon answers a waiting claim. The open connection keeps the claim.
ONE_WAIT = 10.0
BETWEEN_CLAIMS = 0.2
LONGEST_CHANGE = 15.0  # seconds that a change of settings may take
# Seconds for the first answer of a daemon that was just started, or waits for its disk.
FIRST_ANSWER = 30.0
INSISTS = 30.0  # seconds for which a call is repeated while the daemon reads its stored state
TURNS, TURNS_WITHIN = 3, 5.0  # repetitions, and seconds, for a caller over its share


class Call(NamedTuple):
    """One request. `more` is added to the client's deadline, which is at least `least`."""

    method: str
    target: str
    body: Optional[Mapping[str, Any]] = None
    more: float = 0.0
    least: float = 0.0

    def encoded_body(self) -> bytes:
        return b"" if self.body is None else json.dumps(self.body).encode("utf-8")


class Sleep(NamedTuple):
    seconds: float


Step = Union[Call, Sleep]
CallSequence = Generator[Step, Any, T]
Gpus = Union[str, int, Sequence[Union[str, int]]]


def insist(call: Call) -> CallSequence[Any]:
    """Makes the call again while the daemon reads its stored state, or the caller is over a share.
    Any other failure is final: it may last, or the call may have been carried out."""
    began = time.monotonic()
    turns = 0
    while True:
        try:
            return (yield call)
        except Error as error:
            waits_turn = isinstance(error, Busy) and turns < TURNS
            if error.again is None or not (error.reading or waits_turn):
                raise
            within = INSISTS if error.reading else TURNS_WITHIN
            if time.monotonic() + error.again > began + within:
                raise
            again = max(error.again, BETWEEN_CLAIMS)
        turns += 1
        yield Sleep(again)


def part(text: Union[str, int]) -> str:
    """A segment of a path. "." and ".." would change the path."""
    word = quote(str(text), safe="-._~,:")
    if word in ("", ".", ".."):
        raise Invalid(f"{text!r} is not a valid name or ID")
    return word


def query(**parameters: Any) -> str:
    """"?a=1&b=x", without parameters that are None."""
    said = {name: value for name, value in parameters.items() if value is not None}
    return "?" + urlencode(said, quote_via=quote) if said else ""


def gpus_text(gpus: Gpus) -> str:
    """One GPU, several with commas, or "all"."""
    return str(gpus) if isinstance(gpus, (str, int)) else ",".join(map(str, gpus))


def gpus_list(gpus: Optional[Gpus]) -> Optional[list[Union[str, int]]]:
    if gpus is None or gpus == "all":
        return None
    if isinstance(gpus, int):
        return [gpus]
    return [*gpus.split(",")] if isinstance(gpus, str) else list(gpus)


def request(method: str, target: str, body: Optional[Mapping[str, Any]]) -> CallSequence[Any]:
    return (yield Call(method, target, body))


def devices() -> CallSequence[list[models.Device]]:
    snapshot = models.Snapshot.read((yield Call("GET", "/api/gpu/snapshot")))
    if not snapshot.driver_initialised:
        raise Unavailable(snapshot.driver_error or
                          "the daemon reports no GPUs; run `gpuyard doctor` to find out why")
    return snapshot.devices


# Leases

def lease_request(gpus: int, min_free: Optional[Size], among: Optional[Gpus],
                  model: Optional[str], max_time: Optional[Duration], ttl: Optional[Duration],
                  note: Optional[str]) -> models.LeaseRequest:
    """A claim with a new ID, which is the same in every retry."""
    return models.LeaseRequest(
        id=secrets.token_hex(16),
        gpus=gpus,
        min_free_bytes=None if min_free is None else bytes_of(min_free),
        among=gpus_list(among),
        model=model,
        max_time_s=None if max_time is None else seconds_of(max_time),
        binding="process" if ttl is None else "detached",
        ttl_s=None if ttl is None else seconds_of(ttl),
        note=note)


def claim(wanted: models.LeaseRequest, wait: Optional[float]) -> CallSequence[models.Lease]:
    """Claims GPUs and waits for all of them. `wait`: None has no limit, 0 does not queue.

    An error or Ctrl-C cancels the claim.
    """
    body = wanted.to_json()
    lease = str(body.setdefault("id", secrets.token_hex(16)))
    if wait == 0:
        body["wait_s"] = 0
    try:
        return (yield from _wait(body, wait))
    except GeneratorExit:
        raise
    except BaseException:
        try:
            yield Call("DELETE", f"/api/gpu/leases/{part(lease)}")
        except Error:
            pass  # the daemon notices that the claim has no client
        raise


def _wait(body: dict[str, Any], wait: Optional[float]) -> CallSequence[models.Lease]:
    began = time.monotonic()
    why = "no response to the claim"
    reached = answered = False  # a daemon was reached; it has answered the claim
    while True:
        left = ONE_WAIT if wait is None else began + wait - time.monotonic()
        body["answer_within_s"] = min(max(left, 0.0), ONE_WAIT)
        try:
            answer = yield Call("POST", "/api/gpu/leases", body, more=body["answer_within_s"])
        except Error as error:
            # Waits for a daemon that was reached before, but not for one that never was.
            reached = reached or error.reached
            waits = answered or (reached and time.monotonic() - began < FIRST_ANSWER)
            if wait == 0 or not is_transient(error) or not waits:
                raise
            why = str(error)
            yield Sleep(BETWEEN_CLAIMS)
        else:
            answered = True
            lease = models.LeaseAnswer.read(answer).lease
            if lease.state == "held":
                return lease
            if lease.state != "waiting":
                raise Conflict(lease.why or f"the claim has ended: {lease.ending}")
            why = lease.place.text if lease.place else why
        if wait is not None and time.monotonic() >= began + wait:
            raise TimedOut(f"the GPUs were not available in time: {why}")


def find_lease(lease: str) -> CallSequence[models.Lease]:
    answer = yield from insist(Call("GET", f"/api/gpu/leases/{part(lease)}"))
    return models.LeaseAnswer.read(answer).lease


def leases() -> CallSequence[list[models.Lease]]:
    return models.Leases.read((yield from insist(Call("GET", "/api/gpu/leases")))).leases


def renew(lease: str, ttl: float, fence: Optional[int]) -> CallSequence[models.Lease]:
    body = models.RenewRequest(ttl_s=ttl, fence=fence).to_json()
    answer = yield from insist(Call("POST", f"/api/gpu/leases/{part(lease)}/renew", body))
    return models.LeaseAnswer.read(answer).lease


def release(lease: str, fence: Optional[int] = None, insists: bool = True
            ) -> CallSequence[models.Lease]:
    target = f"/api/gpu/leases/{part(lease)}{query(fence=fence)}"
    call = Call("DELETE", target)
    answer = (yield from insist(call)) if insists else (yield call)
    return models.LeaseAnswer.read(answer).lease


# Energy

def begin_window(gpus: Optional[Gpus], name: Optional[str]) -> CallSequence[models.EnergyWindow]:
    body = models.EnergyWindowRequest(gpus=gpus_list(gpus), name=name).to_json()
    return models.EnergyWindow.read(
        (yield from insist(Call("POST", "/api/gpu/energy/windows", body))))


def measure_window(window: str) -> CallSequence[models.EnergyWindow]:
    return models.EnergyWindow.read(
        (yield from insist(Call("GET", f"/api/gpu/energy/windows/{part(window)}"))))


def end_window(window: str) -> CallSequence[models.EnergyWindow]:
    return models.EnergyWindow.read(
        (yield from insist(Call("DELETE", f"/api/gpu/energy/windows/{part(window)}"))))


# Settings

Value = Union[float, int, bool, str, tuple[int, int]]


def _setting_body(setting: str, value: Value) -> dict[str, Any]:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if setting == "power_limit":
            return {"power_limit_mw": round(value * 1000)}
    if setting in ("gpu_clocks", "memory_clocks"):
        if isinstance(value, int) and not isinstance(value, bool):
            return {"min_clock_mhz": value, "max_clock_mhz": value}
        if isinstance(value, tuple) and len(value) == 2:
            return {"min_clock_mhz": value[0], "max_clock_mhz": value[1]}
    if setting in ("persistence", "ecc") and isinstance(value, bool):
        return {"enabled": value}
    if setting == "compute_mode" and isinstance(value, str):
        return {"compute_mode": value}
    raise Invalid(f"cannot set {setting!r} to {value!r}: expected power_limit in watts, gpu_clocks "
                  "or memory_clocks in MHz or as (lowest, highest), persistence or ecc as True or "
                  "False, or compute_mode as a name such as \"default\"")


def set_setting(gpus: Gpus, setting: str, value: Value, lasting: Optional[Duration]
                ) -> CallSequence[list[models.ChangeResult]]:
    body = _setting_body(setting, value)
    if lasting is not None:
        body["for_s"] = seconds_of(lasting)
    target = f"/api/gpu/manage/{part(gpus_text(gpus))}/{setting.replace('_', '-')}"
    return _changes_of((yield Call("PUT", target, body, least=LONGEST_CHANGE)))


def restore_setting(gpus: Gpus, setting: Optional[str]) -> CallSequence[list[models.ChangeResult]]:
    base = f"/api/gpu/manage/{part(gpus_text(gpus))}"
    if setting is None:
        call = Call("POST", f"{base}/restore", {}, least=LONGEST_CHANGE)
    else:
        call = Call("DELETE", f"{base}/{part(setting.replace('_', '-'))}", least=LONGEST_CHANGE)
    return _changes_of((yield call))


def _changes_of(answer: Any) -> list[models.ChangeResult]:
    """Raises the error of the first GPU that could not be changed."""
    changes = models.ChangeResults.read(answer).changes
    for change in changes:
        if change.error:
            raise error_of(change.error.code, change.error.message)
    return changes


# Alerts

def alerts() -> CallSequence[list[models.Alert]]:
    return models.Alerts.read((yield from insist(Call("GET", "/api/gpu/alerts")))).alerts


def acknowledge(alert: int, note: Optional[str]) -> CallSequence[models.Alert]:
    body = models.AcknowledgeRequest(note=note).to_json()
    answer = yield from insist(Call("POST", f"/api/gpu/alerts/{part(alert)}/acknowledge", body))
    return models.AlertAnswer.read(answer).alert
