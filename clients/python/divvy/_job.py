"""Jobs and arrays of jobs."""

from __future__ import annotations

import shlex
import time
from typing import TYPE_CHECKING, Any, Generic, Iterator, List, Mapping, Optional, Sequence, Tuple, TypeVar, cast

from . import _calls
from ._connection import wait_for_daemon
from ._errors import DivvyError, JobFailed, NotFound, ResultUnavailable, TimedOut, Unreachable, visible

if TYPE_CHECKING:
    from . import messages as m
    from ._client import Client

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

FINAL = frozenset({"succeeded", "failed", "cancelled", "timed_out", "lost"})
_SHORTEST_WAIT_S = 0.001
_FOLLOW_PAUSE_S = 0.2


class Job(Generic[T_co]):
    """A job of a daemon. Every property and method asks the daemon, except `id`, `summary` and `notes`."""

    def __init__(
        self, client: Client, job_id: str, view: Mapping[str, Any], folder: Optional[_calls.CallFolder] = None
    ) -> None:
        self.client = client
        self.id = job_id
        self.summary = str(view.get("summary", ""))
        """How the daemon read the request: "2 GPUs, 1 h 30 min, name train"."""
        self.notes: List[str] = list(view.get("notes", []))
        """Options that could not be applied, as texts for people."""
        self._folder = folder
        self._outcome: Optional[List[Any]] = None  # The result of a function, once it was read.

    def __repr__(self) -> str:
        return f"divvy.Job({self.id!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Job) and (self.id, self.client.address) == (other.id, other.client.address)

    def __hash__(self) -> int:
        return hash(self.id)

    def info(self) -> m.JobInFull:
        """Everything that the daemon knows about the job."""
        return self.client.info(self.id)

    @property
    def state(self) -> str:
        """"held", "queued", "starting", "running", "paused", "stopping" or one of the final states (docs/api.md)."""
        return self.info()["state"]

    @property
    def name(self) -> str:
        return self.info()["name"]

    @property
    def exit_code(self) -> Optional[int]:
        return self.info()["exit_code"]

    @property
    def gpus(self) -> List[int]:
        return self.info()["gpus"]

    def done(self) -> bool:
        return self.state in FINAL

    def why(self) -> str:
        """One sentence: why the job waits, or why it is in its state. `client.why(job)` has the details."""
        return visible(self.client.why(self.id)["summary"])

    def wait(self, timeout: Optional[float] = None) -> m.WaitAnswer:
        """Returns when the job has ended, with `state`, `exit_code` and `reason`; also across restarts of the daemon.

        Raises TimedOut after `timeout` seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            rest = None if deadline is None else max(deadline - time.monotonic(), _SHORTEST_WAIT_S)
            try:
                answer = self.client.request("GET", f"/v1/jobs/{self.id}/wait", timeout=rest)
                return cast("m.WaitAnswer", answer)
            except TimedOut:
                raise
            except TimeoutError:
                raise TimedOut(f"job {self.id} has not ended within {timeout:g} s") from None
            except Unreachable:
                # A daemon that goes away never ends a job.
                try:
                    wait_for_daemon(self.client._connections, deadline)
                except TimeoutError:
                    raise TimedOut(f"no daemon answers at {self.client.address}; job {self.id} continues") from None

    def result(self, timeout: Optional[float] = None) -> T_co:
        """Waits for the job and returns what its function returned. None for a command.

        Raises what the function raised, JobFailed if the job did not succeed for another reason, TimedOut after
        `timeout` seconds, and ResultUnavailable if the result cannot be read here.
        """
        if self._outcome is None:
            ended = self.wait(timeout)
            self._outcome = [self._read_result(ended)]
        return cast(T_co, self._outcome[0])

    def exception(self, timeout: Optional[float] = None) -> Optional[BaseException]:
        """Waits for the job and returns the exception that result() would raise, or None."""
        self.wait(timeout)
        try:
            self.result()
        except Exception as error:  # pylint: disable=broad-except
            return error
        return None

    def _read_result(self, ended: Mapping[str, Any]) -> Any:
        has_succeeded = ended["state"] == "succeeded"
        failure = JobFailed(self.id, ended["state"], ended["exit_code"], ended["reason"])
        folder = self._folder or _calls.CallFolder.of_command(_words(self.info()["command"]))
        if folder is None or (not has_succeeded and ended["state"] != "failed"):
            if has_succeeded:
                return None
            raise failure
        try:
            return folder.result(int(self.id.partition("_")[2] or 0), has_succeeded)
        except ResultUnavailable as error:
            if has_succeeded:
                raise
            raise failure from error

    def logs(self, *, error: bool = False, last: Optional[int] = None) -> str:
        """The job's output so far, or its last `last` lines. `error` reads a separate file for standard error.

        Bytes that are not UTF-8 become U+FFFD. All other characters are as the job wrote them.
        """
        pieces: List[bytes] = []
        at = -1
        while True:
            piece, following = self._read_log(error, at, -1 if last is None else last)
            if not piece:
                return b"".join(pieces).decode("utf-8", "replace")
            pieces.append(piece)
            at = following

    def _read_log(self, error: bool, at: int, last: int = -1) -> Tuple[bytes, int]:
        try:
            return self.client.log(self.id, error=error, at=at, last=last)
        except NotFound:
            if self.done():
                raise
            return b"", at  # The file appears when the job starts.

    def follow(self, *, error: bool = False) -> Iterator[str]:
        """Yields the lines of the job's output, without their ends, until the job has ended."""
        rest, at = b"", -1
        while True:
            is_last = self.done()  # Asked before the read, so that nothing is missed.
            piece, at = self._read_log(error, at)
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                yield line.decode("utf-8", "replace")
            if piece:
                continue
            if is_last:
                if rest:
                    yield rest.decode("utf-8", "replace")
                return
            try:
                self.wait(_FOLLOW_PAUSE_S)
            except TimedOut:
                pass

    def cancel(self, *, grace: Optional[float] = None, reason: str = "") -> bool:
        """Cancels the job. Returns False if there was nothing to cancel. `grace` is in seconds; 0 kills at once."""
        return all(result["is_done"] for result in self.client.cancel(self, grace=grace, reason=reason))

    def hold(self) -> None:
        self._must(self.client.hold(self))

    def release(self) -> None:
        self._must(self.client.release(self))

    def requeue(self) -> None:
        self._must(self.client.requeue(self))

    def update(self, **changes: Any) -> None:
        """Changes the job: `job.update(time_limit_s=7200)`. The fields are those of JobUpdate (docs/api.md)."""
        self._must(self.client.update(self, **changes))

    def elements(self) -> List[Job[T_co]]:
        """The elements of an array or sweep, in the order of their indices. A job that is no array is its own."""
        indices = _indices(self.info().get("all_indices", ""))
        if not indices:
            return [self]
        return [Job(self.client, f"{self.id}_{index}", {}, self._folder) for index in indices]

    @staticmethod
    def _must(results: Sequence[m.ActionResult]) -> None:
        for result in results:
            if not result["is_done"]:
                raise DivvyError(result["message"], "failed_precondition")


class JobArray(Sequence[Job[T]]):
    """The elements of one array job, in the order of map()'s arguments."""

    def __init__(self, client: Client, job: Optional[Job[T]], count: int) -> None:
        self.client = client
        self.job = job
        """The array as a whole. None if it is empty."""
        self._elements: List[Job[T]] = []
        if job is not None:
            self._elements = [Job(client, f"{job.id}_{index}", {}, job._folder) for index in range(count)]

    def __repr__(self) -> str:
        return f"divvy.JobArray({self.job.id if self.job else ''!r}, {len(self)} elements)"

    def __len__(self) -> int:
        return len(self._elements)

    def __getitem__(self, index: Any) -> Any:
        return self._elements[index]

    def wait(self, timeout: Optional[float] = None) -> None:
        """Returns when all elements have ended. Raises TimedOut after `timeout` seconds."""
        if self.job is not None:
            self.job.wait(timeout)

    def results(self, timeout: Optional[float] = None) -> List[T]:
        """Waits for all elements and returns what their functions returned. Raises the first failure, in order."""
        self.wait(timeout)
        return [element.result() for element in self._elements]

    def cancel(self) -> None:
        if self.job is not None:
            self.job.cancel()


def _words(command: str) -> List[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return []


def _indices(ranges: str) -> List[int]:
    """"0-3,7,10-20:5" as numbers."""
    numbers: List[int] = []
    for part in filter(None, ranges.split(",")):
        span, _, step = part.partition(":")
        first, _, last = span.partition("-")
        numbers += range(int(first), int(last or first) + 1, int(step or 1))
    return numbers

