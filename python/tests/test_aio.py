"""The asyncio client, against a real daemon."""

import asyncio
import os
import time

import pytest

import gpuyard


def run(function, *arguments):
    return asyncio.run(asyncio.wait_for(function(*arguments), 90))


@pytest.fixture(autouse=True)
def all_free(shared, monkeypatch):
    monkeypatch.setenv("GPUYARD_SOCKET", shared.socket)
    yield
    shared.wait_until_free()


async def until(condition, seconds=30):
    end = time.monotonic() + seconds
    while not await condition():
        assert time.monotonic() < end, "it did not come"
        await asyncio.sleep(0.05)


def test_a_lease_for_a_block_of_a_coroutine():
    async def main():
        async with gpuyard.aio.Client() as yard:
            assert len(await yard.devices()) == 4
            async with yard.lease(2, wait="1m", note="async") as lease:
                (held,) = await yard.leases()
                assert held.id == lease.id and held.pid == os.getpid() and len(lease.uuids) == 2
                assert (await lease.refresh()).state == "held"
            assert (await yard.find_lease(lease.id)).ending == "released"
            with pytest.raises(gpuyard.Invalid):
                await lease.release()
    run(main)


def test_cancelled_task_leaves_the_queue():
    async def main():
        async with gpuyard.aio.Client() as yard:
            async def waits():
                return len((await yard.request("GET", "/api/gpu/queue"))["waiting"]) == 1
            async with yard.lease(4):
                task = asyncio.ensure_future(yard.lease(1).take())
                await until(waits)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert not await waits()
                with pytest.raises(gpuyard.TimedOut):
                    await yard.lease(1, wait=0.3).take()
    run(main)


def test_a_lease_with_a_time_is_renewed():
    async def main():
        async with gpuyard.aio.Client() as yard:
            async with yard.lease(1, ttl=10) as lease:
                first = lease.record.until

                async def renewed():
                    return (await lease.refresh()).until > first
                await until(renewed)
                assert (await lease.renew(60)).state == "held"
            assert lease.lost == ""
    run(main)


def test_energy_of_a_block_of_a_coroutine(shared):
    async def main():
        async with gpuyard.aio.Client() as yard:
            async with yard.energy([0, 1]) as e:
                await asyncio.sleep(1.2)
                await e.measure()
                early = e.joules
                await asyncio.sleep(1.2)
            assert 0 < early < e.joules and e.final and len(e.by_gpu) == 2
            assert e.why is None and e.co2(grid=100) > 0 and e.seconds > 2
            assert (await yard.request("GET", "/api/gpu/energy/windows"))["windows"] == []
    run(main)


def test_events_come_while_others_work():
    async def main():
        async with gpuyard.aio.Client() as yard:
            states = []

            async def listen(events):
                async for event in events:
                    if event.name == "lease":
                        states.append(event.data["state"])
                        if states[-1] == "ended":
                            return
            events = yard.events()
            await events.next(0.5)
            task = asyncio.ensure_future(listen(events))
            async with yard.lease(1):
                pass
            await task
            events.close()
            assert "held" in states
    run(main)


def test_unavailable_daemon_error_suggests_gpuyard_serve(tmp_path):
    async def main():
        yard = gpuyard.aio.Client(f"unix://{tmp_path}/none.sock")
        with pytest.raises(gpuyard.Unavailable, match="gpuyard serve"):
            await yard.devices()
        with pytest.raises(gpuyard.Unavailable):
            await yard.lease(1).take()
        with pytest.raises(gpuyard.Unavailable):
            await yard.events().next(1)
        async with yard.energy() as e:
            pass
        assert e.joules is None and "gpuyard serve" in e.why
    run(main)


def test_daemon_restart_keeps_lease_and_stream(make_ground):
    ground = make_ground(gpus=1)

    async def main():
        yard = gpuyard.aio.Client("unix://" + ground.socket)
        events = yard.events()
        await events.next(0.5)
        loop = asyncio.get_running_loop()
        async with yard.lease(1) as lease:
            await loop.run_in_executor(None, ground.kill)
            kinds = []

            async def told(kind):
                event = await events.next(1)
                kinds.append(event.kind if event else None)
                return kinds[-1] == kind
            await until(lambda: told("away"))
            await loop.run_in_executor(None, ground.start)
            await until(lambda: told("lost"))
            assert "back" in kinds
            assert (await lease.refresh()).state == "held"
        events.close()
    run(main)
    ground.wait_until_free()
