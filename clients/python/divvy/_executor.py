"""concurrent.futures on divvy."""

from __future__ import annotations

import concurrent.futures
import secrets
import threading
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional, Set, TypeVar

from ._client import Call, Client
from ._errors import InvalidRequest
from ._job import Job

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._options import Options

T = TypeVar("T")


class JobFuture(concurrent.futures.Future):  # type: ignore[type-arg]
    """The future of one job. `job` is the Job. cancel() cancels a job that has not started."""

    job: Job[Any]

    def __init__(self) -> None:
        super().__init__()
        self._start_lock = threading.Lock()
        self._has_cancelled = False

    def cancel(self) -> bool:
        with self._start_lock:
            if self._has_cancelled:
                return True
            # The job first: if it cannot be cancelled, the future must not say so.
            if self.running() or self.done() or not self.job.cancel():
                return False
            self._has_cancelled = True
        super().cancel()
        self.set_running_or_notify_cancel()  # Without this, concurrent.futures.wait() does not count it.
        return True

    def _note_start(self) -> bool:
        """Marks the future as running, unless it is already. Returns False if it was cancelled."""
        with self._start_lock:
            if self._has_cancelled:
                return False
            if not self.running() and not self.done():
                self.set_running_or_notify_cancel()
            return True


class Executor(concurrent.futures.Executor):
    """Runs each call as a job of its own: `with divvy.Executor(gpus=1, time="2h") as executor: ...`.

    The keywords are those of Options, for every job. At most `max_jobs` of the jobs run at the same time (default: as
    many as divvy allows). submit() gives all of its keywords to the function. Jobs go on if this process ends.
    """

    def __init__(
        self, max_jobs: Optional[int] = None, *, client: Optional[Client] = None, **options: Unpack[Options]
    ) -> None:
        if max_jobs is not None:
            if max_jobs < 1:
                raise InvalidRequest(f"max_jobs={max_jobs}: expected 1 or more")
            options.setdefault("group", f"executor-{secrets.token_hex(4)}")
            options["group_limit"] = max_jobs
        self._options: Dict[str, Any] = dict(options)
        self._owns_client = client is None
        self._client = client or Client()
        self._lock = threading.Lock()
        self._is_shut_down = False
        self._futures: Set[JobFuture] = set()

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> "concurrent.futures.Future[T]":
        with self._lock:
            if self._is_shut_down:
                raise RuntimeError("cannot schedule new futures after shutdown")
        future = JobFuture()
        future.job = self._client.submit(Call(fn, args, kwargs), **self._options)
        ended = self._client._watcher.watch(future.job.id, future._note_start)
        with self._lock:
            self._futures.add(future)
        future.add_done_callback(self._forget)
        ended.add_done_callback(lambda watched: _finish(future, watched))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Waits for the jobs. With `cancel_futures`, jobs that have not started are cancelled."""
        with self._lock:
            self._is_shut_down = True
            futures = list(self._futures)
        if cancel_futures:
            for future in futures:
                future.cancel()
        if wait:
            concurrent.futures.wait(futures)
            if self._owns_client:
                self._client.close()

    def _forget(self, future: "concurrent.futures.Future[Any]") -> None:
        with self._lock:
            self._futures.discard(future)


def _finish(future: JobFuture, watched: "concurrent.futures.Future[Dict[str, Any]]") -> None:
    if not future._note_start():
        return
    try:
        row = watched.result()
        ended = {"state": row["state"], "exit_code": row["exit_code"], "reason": row["reason"]}
        future.set_result(future.job._read_result(ended))
    except BaseException as error:  # pylint: disable=broad-except
        future.set_exception(error)
