"""The package for asyncio: `from divvy import aio`, then `job = await aio.submit(train, gpus=1)`.

Requests run in threads. Waiting for jobs, however many, costs one thread and one connection of a client.
"""

from __future__ import annotations

import asyncio
import functools
from typing import (
    TYPE_CHECKING,
    Any,
    AsyncIterator,
    Callable,
    Generic,
    Iterable,
    List,
    Optional,
    Sequence,
    TypeVar,
    overload,
)

from ._client import Call, Client, Command
from ._errors import TimedOut
from ._job import Job
from ._shared import default_client

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from . import messages as m
    from ._options import Options

T = TypeVar("T")


class AsyncJob(Generic[T]):
    """A Job whose methods are coroutines. `job` is the Job itself."""

    def __init__(self, job: Job[T]) -> None:
        self.job = job
        self.id = job.id

    def __repr__(self) -> str:
        return f"divvy.aio.AsyncJob({self.id!r})"

    async def info(self) -> m.JobInFull:
        return await asyncio.to_thread(self.job.info)

    async def state(self) -> str:
        return await asyncio.to_thread(lambda: self.job.state)

    async def why(self) -> str:
        return await asyncio.to_thread(self.job.why)

    async def logs(self, *, error: bool = False, last: Optional[int] = None) -> str:
        return await asyncio.to_thread(functools.partial(self.job.logs, error=error, last=last))

    async def cancel(self, *, grace: Optional[float] = None, reason: str = "") -> bool:
        return await asyncio.to_thread(functools.partial(self.job.cancel, grace=grace, reason=reason))

    async def wait(self, timeout: Optional[float] = None) -> None:
        """Returns when the job has ended. Raises TimedOut after `timeout` seconds."""
        watched = await asyncio.to_thread(self.job.client._watcher.watch, self.id)
        try:
            await asyncio.wait_for(asyncio.wrap_future(watched), timeout)
        except asyncio.TimeoutError:
            raise TimedOut(f"job {self.id} has not ended within {timeout:g} s") from None

    async def result(self, timeout: Optional[float] = None) -> T:
        """The same as Job.result()."""
        await self.wait(timeout)
        return await asyncio.to_thread(self.job.result)

    async def follow(self, *, error: bool = False) -> AsyncIterator[str]:
        """Yields the lines of the job's output until the job has ended."""
        lines = self.job.follow(error=error)
        end = object()
        while True:
            line = await asyncio.to_thread(next, lines, end)
            if line is end:
                return
            yield str(line)


@overload
async def submit(job: Call[T], /, *, client: Optional[Client] = None, **options: Unpack[Options]) -> AsyncJob[T]: ...


@overload
async def submit(
    job: Command, /, *, client: Optional[Client] = None, **options: Unpack[Options]
) -> AsyncJob[None]: ...


@overload
async def submit(
    job: Callable[..., T], /, *args: Any, client: Optional[Client] = None, **kwargs: Any
) -> AsyncJob[T]: ...


async def submit(job: Any, /, *args: Any, client: Optional[Client] = None, **kwargs: Any) -> AsyncJob[Any]:
    """The same as divvy.submit()."""
    chosen = client or default_client()
    return AsyncJob(await asyncio.to_thread(functools.partial(chosen.submit, job, *args, **kwargs)))


async def map(  # pylint: disable=redefined-builtin
    function: Callable[..., T],
    /,
    *iterables: Iterable[Any],
    client: Optional[Client] = None,
    at_once: Optional[int] = None,
    **options: Unpack[Options],
) -> List[AsyncJob[T]]:
    """The same as divvy.map(): one array job, with an AsyncJob for each element."""
    chosen = client or default_client()
    array = await asyncio.to_thread(
        functools.partial(chosen.map, function, *iterables, at_once=at_once, **options)
    )
    return [AsyncJob(job) for job in array]


async def gather(jobs: Sequence[AsyncJob[T]], timeout: Optional[float] = None) -> List[T]:
    """Waits for all jobs and returns their results, in order. Raises the first failure that happens."""
    return list(await asyncio.gather(*(job.result(timeout) for job in jobs)))
