"""One short program with the installed package, for try_versions.sh."""

import asyncio
import os
import sys
import time

began = time.perf_counter()
import gpuyard  # noqa: E402  (timed)

took = (time.perf_counter() - began) * 1000
for _ in range(100):  # the daemon has been started a moment ago
    try:
        devices = gpuyard.devices()
        break
    except gpuyard.Unavailable:
        time.sleep(0.1)
assert len(devices) == 2 and "site-packages" in (gpuyard.__file__ or "")

with gpuyard.lease(1, wait="30s") as lease, gpuyard.energy() as e:
    assert os.environ["CUDA_VISIBLE_DEVICES"] == lease.uuids[0]
    time.sleep(1.1)
assert e.joules and e.joules > 0, e.why
with gpuyard.events(since="oldest") as events:
    assert events.next(10)
try:
    gpuyard.Client("ssh://-x")
    raise SystemExit("it took an option of ssh for a host")
except gpuyard.Invalid:
    pass


async def main() -> None:
    async with gpuyard.aio.Client() as yard:
        async with yard.lease(1, wait="30s") as lease:
            assert (await lease.refresh()).state == "held"


asyncio.run(main())
print(f"{sys.version.split()[0]}: gpuyard {gpuyard.__version__}, imported in {took:.1f} ms, "
      f"{e.joules:.0f} J in the block")
