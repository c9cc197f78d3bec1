"""divvy for Python: submit commands and functions to divvy, the job scheduler for GPU servers.

    import divvy

    job = divvy.submit(train, lr=1e-3, gpus=1, time="2h")
    print(job.why())        # Why it waits.
    print(job.result())     # Waits, and returns what train() returned.

The functions use the daemon that a divvy command would use. For another one, make a Client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Iterable, List, Optional, TypeVar, Union, overload

from . import messages
from ._client import Call, Client, Command, call
from ._errors import (
    Conflict,
    DivvyError,
    InvalidRequest,
    JobFailed,
    LimitExceeded,
    NotFound,
    PermissionDenied,
    RemoteTraceback,
    ResultUnavailable,
    ServerError,
    TimedOut,
    Unreachable,
)
from ._executor import Executor, JobFuture
from ._inside import Elastic, job_id, progress, report
from ._job import Job, JobArray
from ._options import Options
from ._shared import default_client
from ._version import VERSION as __version__

if TYPE_CHECKING:
    from typing_extensions import Unpack

T = TypeVar("T")


@overload
def submit(job: Call[T], /, **options: Unpack[Options]) -> Job[T]: ...


@overload
def submit(job: Command, /, **options: Unpack[Options]) -> Job[None]: ...


@overload
def submit(job: Callable[..., T], /, *args: Any, **kwargs: Any) -> Job[T]: ...


def submit(job: Any, /, *args: Any, **kwargs: Any) -> Job[Any]:
    """Submits a command, a script or a function. See Client.submit()."""
    result: Job[Any] = default_client().submit(job, *args, **kwargs)
    return result


def map(  # pylint: disable=redefined-builtin
    function: Callable[..., T],
    /,
    *iterables: Iterable[Any],
    at_once: Optional[int] = None,
    **options: Unpack[Options],
) -> JobArray[T]:
    """Submits one array job with one element for each group of arguments. See Client.map()."""
    return default_client().map(function, *iterables, at_once=at_once, **options)


def preview(job: Any, /, *args: Any, **kwargs: Any) -> messages.ForecastAnswer:
    """Checks a submission and forecasts its start, without submitting it."""
    return default_client().preview(job, *args, **kwargs)


def job(job_id: Union[int, str]) -> Job[Any]:  # pylint: disable=redefined-outer-name
    """Returns the job with this id ("17", "17_3"), name, or "@" for the caller's last one."""
    return default_client().job(job_id)


def queue(**filters: Any) -> List[messages.JobView]:
    """Lists jobs in queue order. See Client.queue()."""
    return default_client().queue(**filters)


def gpus() -> List[messages.GpuView]:
    """Lists the GPUs and the jobs that hold them."""
    return default_client().gpus()


__all__ = [
    "Call",
    "Client",
    "Conflict",
    "DivvyError",
    "Elastic",
    "Executor",
    "InvalidRequest",
    "Job",
    "JobArray",
    "JobFailed",
    "JobFuture",
    "LimitExceeded",
    "NotFound",
    "Options",
    "PermissionDenied",
    "RemoteTraceback",
    "ResultUnavailable",
    "ServerError",
    "TimedOut",
    "Unreachable",
    "__version__",
    "call",
    "default_client",
    "gpus",
    "job",
    "job_id",
    "map",
    "messages",
    "preview",
    "progress",
    "queue",
    "report",
    "submit",
]
