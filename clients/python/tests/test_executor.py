"""concurrent.futures and asyncio."""

import asyncio
import concurrent.futures

import functions
import pytest
from conftest import wait_until

import divvy
from divvy import aio


def test_an_executor_runs_each_call_as_a_job():
    with divvy.Executor(gpus=1, time="10m", name="of-executor") as executor:
        futures = [executor.submit(functions.add, i, b=1) for i in range(4)]
        assert [future.result(60) for future in futures] == [1, 2, 3, 4]
        assert list(executor.map(functions.add, [1, 2], [3, 4])) == [4, 6]
        failing = executor.submit(functions.fail, 3)
        assert isinstance(failing.exception(60), functions.Unfit)
    with pytest.raises(RuntimeError):
        executor.submit(functions.add, 1)


def test_an_executor_limits_its_running_jobs(client):
    with divvy.Executor(max_jobs=1, client=client) as executor:
        futures = [executor.submit(functions.sleep, 0.01) for _ in range(3)]
        assert {future.job.info()["group"] for future in futures} == {futures[0].job.info()["group"]}
        concurrent.futures.wait(futures, 60)
        spans = sorted((f.job.info()["start_time"], f.job.info()["end_time"]) for f in futures)
    assert all(first[1] <= second[0] for first, second in zip(spans, spans[1:])), spans


def test_a_future_of_a_waiting_job_can_be_cancelled(client, full):
    executor = divvy.Executor(client=client, gpus=1)
    waiting = executor.submit(functions.add, 1)
    kept = executor.submit(functions.add, 2)
    assert waiting.cancel() and waiting.cancelled()
    assert waiting.job.wait(60)["state"] == "cancelled"
    executor.shutdown(wait=True, cancel_futures=True)
    assert kept.cancelled()


def test_a_future_of_a_running_job_is_not_cancelled(client):
    executor = divvy.Executor(client=client)
    future = executor.submit(functions.sleep, 1000)
    wait_until(future.running)
    assert not future.cancel()
    future.job.cancel(grace=0)
    assert isinstance(future.exception(60), divvy.JobFailed)
    executor.shutdown()


def test_asyncio_variants(client):
    async def work():
        job = await aio.submit(functions.add, 1, b=2, gpus=1, client=client)
        assert await job.result(60) == 3
        assert await job.state() == "succeeded"
        assert [line async for line in job.follow()] == ["adds 1 and 2 for none"]
        array = await aio.map(functions.add, [1, 2, 3], client=client)
        assert await aio.gather(array, 60) == [1, 2, 3]
        lasting = await aio.submit("sleep 1000", client=client)
        with pytest.raises(divvy.TimedOut):
            await lasting.wait(0.1)
        await lasting.cancel(grace=0)
        with pytest.raises(divvy.JobFailed):
            await lasting.result(60)

    asyncio.run(work())
