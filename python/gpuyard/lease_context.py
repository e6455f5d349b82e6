"""A lease for the duration of a `with` block."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import warnings
from typing import TYPE_CHECKING, Callable, Optional

from . import calls, cuda, models
from .calls import CallSequence, Sleep
from .errors import Conflict, Error, Invalid, NotFound, is_transient
from .units import Duration, seconds_of

if TYPE_CHECKING:
    from .client import Client

LEAVES_WITHIN = 5.0  # seconds to wait for a restarting daemon at the end of a block


class LeaseBase:
    """The common part of the blocking and the asyncio lease."""

    TTL = 120.0  # default: seconds that a lease on another machine outlasts this process

    def __init__(self, request: models.LeaseRequest, wait: Optional[float]) -> None:
        self._request = request
        self._wait = wait
        self._record: Optional[models.Lease] = None
        self._held = False
        self._owner = os.getpid()
        self._sets_environment = False
        self._lost = ""
        self._end_renewals: Callable[[], object] = lambda: None

    @property
    def record(self) -> models.Lease:
        """The lease as the daemon last reported it; after the block, with its resource use."""
        self._check_owner()
        if self._record is None:
            raise Invalid("no GPUs are leased: use the lease in a `with` block, or call take()")
        return self._record

    @property
    def id(self) -> str:
        return str(self._request.id)

    @property
    def gpus(self) -> list[models.LeasedGpu]:
        return self.record.gpus

    @property
    def uuids(self) -> list[str]:
        return [gpu.uuid for gpu in self.gpus]

    @property
    def fence(self) -> Optional[int]:
        """The fencing token. It rises with every grant on the machine; an older one is invalid."""
        return self.record.fence

    @property
    def lost(self) -> str:
        """Why the lease ended without a release; "": as far as known, it has not."""
        return self._lost

    def set_environment(self) -> None:
        """Sets CUDA_VISIBLE_DEVICES to the GPUs while the lease is held. Call it before take()."""
        self._sets_environment = True

    def __repr__(self) -> str:
        state = self._record.state if self._record else "not taken"
        return f"<gpuyard lease {self.id}: {state}>"

    def _check_owner(self) -> None:
        """A lease belongs to its process: a child would release the GPUs of its parent."""
        if os.getpid() != self._owner:
            raise Conflict(f"lease {self.id} belongs to process {self._owner}, the parent of this "
                           f"process {os.getpid()}. Use its GPUs here, but renew and release it "
                           "in the parent, or take another lease here")

    def _check_held(self) -> None:
        self._check_owner()
        if not self._held:
            raise Invalid(f"lease {self.id} is not held: use it in a `with` block, or call take()")

    def _check_cuda(self) -> None:
        if not self._sets_environment:
            return
        culprit = cuda.initialised_by()
        if culprit:
            raise Conflict(f"{culprit} has already initialised CUDA in this process, so it would "
                           "not use the GPUs of the lease: take the lease before you use CUDA, or "
                           "start the program with `gpuyard run -- COMMAND`")

    def _begin(self) -> None:
        if self._record is not None:
            raise Invalid(f"lease {self.id} has already been taken; create another one")
        self._owner = os.getpid()
        self._check_cuda()

    def _on_granted(self, record: models.Lease) -> None:
        self._check_cuda()
        self._record = record
        self._held = True
        if self._sets_environment:
            cuda.visible.show(self, self.uuids, record.id, record.fence)

    def _leave(self) -> bool:
        """Hides the GPUs from this process. Returns whether there is a lease to release."""
        cuda.visible.hide(self)
        held, self._held = self._held, False
        return held and os.getpid() == self._owner and not self._lost

    def _release_with_retries(self) -> CallSequence[None]:
        """The work in the block is done, so an unavailable daemon only causes a warning."""
        if not self._leave():
            return
        self._end_renewals()
        end = time.monotonic() + LEAVES_WITHIN
        fence = self._record.fence if self._record else None
        while True:
            try:
                self._record = yield from calls.release(self.id, fence, insists=False)
                return
            except NotFound:
                return
            except Error as error:
                if not is_transient(error) or time.monotonic() >= end:
                    warnings.warn(f"lease {self.id} could not be released: {error}. It ends with "
                                  "this process, or when it expires", RuntimeWarning, stacklevel=4)
                    return
            yield Sleep(0.2)

    def _renew(self, ttl: Optional[Duration]) -> CallSequence[models.Lease]:
        lasts = self._request.ttl_s if ttl is None else ttl
        if lasts is None:
            raise Invalid(f"lease {self.id} lasts as long as this process; it needs no renewal")
        self._check_held()
        self._record = yield from calls.renew(self.id, seconds_of(lasts), self.fence)
        return self._record

    def _renewal_interval(self) -> Optional[float]:
        return None if self._request.ttl_s is None else self._request.ttl_s / 3

    def _on_renewal_error(self, error: Error, renewed: float) -> bool:
        """Whether the lease is lost. `renewed`: when the last successful renewal was requested."""
        assert self._request.ttl_s is not None
        gone = isinstance(error, (NotFound, Conflict))
        if gone or time.monotonic() - renewed > self._request.ttl_s:
            self._lost = f"lease {self.id} could not be renewed: {error}"
            warnings.warn(self._lost, RuntimeWarning, stacklevel=2)
            return True
        return False


class Lease(LeaseBase):
    """GPUs for a `with` block. `take()` and `release()` do the same without one.

    The lease survives a restart of the daemon. After fork() the child cannot use this object: its
    record, renew() and release() raise Conflict.
    """

    def __init__(self, client: Client, request: models.LeaseRequest, wait: Optional[float]) -> None:
        super().__init__(request, wait)
        self._client = client

    def __enter__(self) -> Lease:
        return self.take()

    def __exit__(self, *_: object) -> None:
        self._client.run(self._release_with_retries())

    def take(self) -> Lease:
        """Waits for the GPUs. Ctrl-C, and every other error, cancels the claim."""
        self._begin()
        record: Optional[models.Lease] = None
        try:
            record = self._client.claim(self._request, self._wait)
            self._on_granted(record)
            self._begin_renewals()
        except BaseException as error:
            self._leave()
            # After an Error claim() has already cancelled it; Ctrl-C may come in between.
            if record or not isinstance(error, Error):
                with contextlib.suppress(Error):  # the first error matters more
                    self._client.run(calls.release(self.id, insists=False))
            raise
        return self

    def release(self) -> None:
        """Releases the GPUs."""
        self._check_held()
        fence = self.fence
        if self._leave():
            self._end_renewals()
            self._record = self._client.release(self.id, fence)

    def renew(self, ttl: Optional[Duration] = None) -> models.Lease:
        """Extends a lease that has a TTL to `ttl` from now. A `with` block does this by itself."""
        return self._client.run(self._renew(ttl))

    def refresh(self) -> models.Lease:
        """Reads the lease from the daemon: its state, its use and its energy."""
        self._check_owner()
        self._record = self._client.find_lease(self.id)
        return self._record

    def _begin_renewals(self) -> None:
        every = self._renewal_interval()
        if every is None:
            return
        stop = threading.Event()
        self._end_renewals = stop.set
        threading.Thread(target=self._renew_until, args=(stop, every), daemon=True,
                         name="gpuyard-renewal").start()

    def _renew_until(self, stop: threading.Event, every: float) -> None:
        assert self._record is not None
        fence, ttl = self._record.fence, self._request.ttl_s
        assert ttl is not None
        renewed, pause = time.monotonic(), every
        while not stop.wait(pause):
            asked = time.monotonic()
            try:
                self._client.renew(self.id, ttl, fence)
                renewed, pause = asked, every
            except Error as error:
                if stop.is_set() or self._on_renewal_error(error, renewed):
                    return
                pause = min(every, 1.0)
