"""concurrent.futures and asyncio."""

import asyncio
import concurrent.futures
import os
import random
import threading
import types

import functions
import pytest
from conftest import wait_until

import divvy
from divvy import _executor, aio


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


def test_a_future_is_not_cancelled_if_its_job_cannot_be(client, full, monkeypatch):
    def fail(*_, **__):
        raise divvy.Unreachable("no daemon answers")

    executor = divvy.Executor(client=client, gpus=1)
    future = executor.submit(functions.add, 1)
    with monkeypatch.context() as patch:
        patch.setattr(future.job, "cancel", fail)
        with pytest.raises(divvy.Unreachable):
            future.cancel()
        patch.setattr(future.job, "cancel", lambda: False)
        assert not future.cancel()
    assert not future.cancelled() and future.job.state == "queued"
    assert future.cancel() and future.cancel()
    assert concurrent.futures.wait([future], 60).done == {future}
    executor.shutdown()


def test_a_future_starts_once_whoever_sees_it_first():
    """The thread that reads events and the one that submits may both see that a job has started or ended."""
    for _ in range(200):
        future = _executor.JobFuture()
        future.job = types.SimpleNamespace(cancel=lambda: True, _read_result=lambda ended: ended["state"])
        watched = concurrent.futures.Future()
        watched.set_result({"state": "succeeded", "exit_code": 0, "reason": ""})
        errors = []

        def attempt(step, errors=errors):
            try:
                step()
            except BaseException as error:
                errors.append(error)

        steps = [future._note_start, future._note_start, future.cancel, lambda: _executor._finish(future, watched)]
        random.shuffle(steps)
        threads = [threading.Thread(target=attempt, args=(step,)) for step in steps]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert concurrent.futures.wait([future], 1).done == {future}
        assert future.cancelled() or future.result() == "succeeded"


def test_a_refused_watch_leaves_no_future(client):
    executor = divvy.Executor(client=client)
    client._watcher.close()
    with pytest.raises(divvy.DivvyError, match="closed"):
        executor.submit(functions.add, 1)
    executor.shutdown()  # Does not wait for it.


def test_a_watcher_that_fails_says_so(client, full, monkeypatch):
    def fail(*_):
        raise KeyError("state")

    monkeypatch.setattr(client._watcher, "_ask", fail)
    assert isinstance(client._watcher.watch(full.id).exception(60), KeyError)


def test_a_watcher_has_one_thread(client):
    """A thread that sees in the middle of its work that nothing is waited for goes on, so watch() starts no other."""
    watcher = client._watcher
    watcher._thread = threading.current_thread()
    assert watcher._waiting() == [] and not watcher._take('{"kind":"job","id":1,"state":"failed"}')
    assert watcher._thread is threading.current_thread()
    assert watcher._may_end() and watcher._thread is None


def test_a_forked_process_waits_for_its_own_jobs(client, full):
    watched = client._watcher.watch(full.id)
    with client._watcher._lock:  # Nobody releases this in the child.
        child = os.fork()
        if child == 0:
            try:
                with divvy.Executor(client=client) as executor:
                    is_good = executor.submit(functions.add, 1, 2).result(60) == 3
                os._exit(0 if is_good and full.id not in client._watcher._waiting() else 1)
            finally:
                os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert not watched.done()
    full.cancel(grace=0)
    assert watched.result(60)["state"] == "cancelled"


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
