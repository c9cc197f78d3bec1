"""A connection to one daemon: submits jobs, and reads and changes them."""

from __future__ import annotations

import functools
import os
import re
import time
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Generic,
    Iterable,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
    TypeVar,
    Union,
    cast,
    overload,
)
from urllib.parse import quote

from . import _calls, _options
from ._connection import Address, Connections, Query, find_address
from ._errors import InvalidRequest
from ._job import Job, JobArray
from ._watcher import Watcher

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from . import messages as m

T = TypeVar("T")
Command = Union[str, Sequence[str], "os.PathLike[str]"]
Selection = Union[int, str, Job[Any], Iterable[Union[int, str, Job[Any]]]]
_MOST_CACHED = 256
_DAY_S = 86400.0


class Call(Generic[T]):
    """A function with its arguments. See call()."""

    def __init__(self, function: Callable[..., T], args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        self.function, self.args, self.kwargs = function, args, kwargs


def call(function: Callable[..., T], /, *args: Any, **kwargs: Any) -> Call[T]:
    """Binds all arguments of a function, also those whose names are options of a job.

    For example `divvy.submit(divvy.call(train, name="resnet"), gpus=1)`: `name` goes to the function.
    """
    return Call(function, args, kwargs)


def _name_of(function: Callable[..., Any]) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__name__", type(function).__name__)
    return re.sub(r"[^A-Za-z0-9_.-]", "", name) or "function"


class Client:
    """One daemon, as one user. Threads may share it.

    `controller` is a token line, a file with one, "unix:PATH" or the path of a daemon's socket. Without it, the client
    talks to the daemon that a divvy command would use. `folder` is where calls of functions and their results are
    stored (default: ~/.local/share/divvy/calls, with access for you only). The nodes must see it under the same path.

    Nothing is sent before the first request. Every method may raise a DivvyError with the server's message.
    """

    def __init__(
        self,
        controller: Optional[Union[str, "os.PathLike[str]"]] = None,
        *,
        folder: Optional[Union[str, "os.PathLike[str]"]] = None,
    ) -> None:
        self.address: Address = find_address(controller)
        self.folder = os.path.abspath(os.fspath(folder)) if folder is not None else _calls.default_folder()
        self._has_folder = folder is not None
        self._connections = Connections(self.address)
        self._watcher = Watcher(self)
        self._specs: Dict[Tuple[str, ...], Dict[str, Any]] = {}
        self._cleaned_at = 0.0

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"divvy.Client({str(self.address)!r})"

    def close(self) -> None:
        """Closes the connections. Jobs are not affected."""
        self._watcher.close()
        self._connections.close()

    def request(
        self, method: str, path: str, body: Any = None, *, query: Optional[Query] = None, timeout: Optional[float] = None
    ) -> Any:
        """Sends one request of the API (docs/api.md) and returns the JSON of the answer."""
        return self._connections.request(method, path, body, query, timeout).json()

    # Submitting.

    @overload
    def submit(self, job: Call[T], /, **options: Unpack[_options.Options]) -> Job[T]: ...

    @overload
    def submit(self, job: Command, /, **options: Unpack[_options.Options]) -> Job[None]: ...

    @overload
    def submit(self, job: Callable[..., T], /, *args: Any, **kwargs: Any) -> Job[T]: ...

    def submit(self, job: Any, /, *args: Any, **kwargs: Any) -> Job[Any]:
        """Submits a command, a script or a function, and returns its job after the daemon has stored it.

        `job` is one of these:

        - a function. Its arguments follow; keywords that are names of `Options` describe the job. Its job runs this
          Python, imports the function and returns what it returns.
        - a text: a shell command line.
        - a list of texts: a program and its arguments, without a shell.
        - a path: a script, which is read now. Lines such as #SBATCH and # DIVVY in it count.
        - a call() with all arguments of a function.

        With `array` or `param`, one call submits many jobs: use the returned Job's `elements()`.
        """
        spec, folder = self._spec_of(job, args, kwargs)
        try:
            answer = self.request("POST", "/v1/jobs", {"spec": spec})
        except BaseException:
            if folder is not None:
                folder.remove()
            raise
        return Job(self, str(answer["id"]), answer, folder)

    def preview(self, job: Any, /, *args: Any, **kwargs: Any) -> m.ForecastAnswer:
        """Checks a submission and forecasts its start, without submitting it. Takes the arguments of submit()."""
        spec, folder = self._spec_of(job, args, kwargs)
        if folder is not None:
            folder.remove()
        return cast("m.ForecastAnswer", self.request("POST", "/v1/jobs", {"spec": spec, "is_test": True}))

    def map(
        self,
        function: Callable[..., T],
        /,
        *iterables: Iterable[Any],
        at_once: Optional[int] = None,
        **options: Unpack[_options.Options],
    ) -> JobArray[T]:
        """Submits one array job with one element for each group of arguments, like the built-in map().

        At most `at_once` elements run at the same time. An empty input submits nothing.
        """
        calls: List[_calls.Arguments] = [(args, {}) for args in zip(*iterables)]
        if not calls:
            return JobArray(self, None, 0)
        if "array" in options or "param" in options:
            raise InvalidRequest("map() makes its own array; leave out array and param")
        if at_once is not None and at_once < 1:
            raise InvalidRequest(f"at_once={at_once}: expected 1 or more")
        options["array"] = f"0-{len(calls) - 1}" + (f"%{at_once}" if at_once else "")
        folder = self._store(function, calls)
        try:
            options.setdefault("name", _name_of(function))
            answer = self.request("POST", "/v1/jobs", {"spec": self._spec(folder.command(), options)})
        except BaseException:
            folder.remove()
            raise
        return JobArray(self, Job(self, str(answer["id"]), answer, folder), len(calls))

    def _spec_of(
        self, job: Any, args: Tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Tuple[Dict[str, Any], Optional[_calls.CallFolder]]:
        options = {name: value for name, value in kwargs.items() if name in _options.NAMES}
        others = {name: value for name, value in kwargs.items() if name not in _options.NAMES}
        is_call = isinstance(job, Call)
        if callable(job) and not is_call:
            job, args, others, is_call = Call(job, args, others), (), {}, True
        if args or others:
            given = ", ".join(others) or "positional arguments"
            raise InvalidRequest(
                f"{given}: not an option of divvy submit (divvy.Options lists them), and a command has no other arguments"
            )
        if not is_call:
            return self._spec(job, options), None
        if "param" in options or "array" in options:
            raise InvalidRequest("a function cannot have array or param; use divvy.map(function, values)")
        folder = self._store(job.function, [(job.args, job.kwargs)])
        try:
            options.setdefault("name", _name_of(job.function))
            return self._spec(folder.command(), options), folder
        except BaseException:
            folder.remove()
            raise

    def _store(self, function: Callable[..., Any], calls: Sequence[_calls.Arguments]) -> _calls.CallFolder:
        if self.address.is_remote and not self._has_folder:
            raise InvalidRequest(
                f"the daemon is on another machine ({self.address}), so functions need a folder that both machines "
                'see under the same path: divvy.Client(folder="/shared/ada/calls"); commands need none'
            )
        now = time.monotonic()
        if self._cleaned_at == 0 or now - self._cleaned_at > _DAY_S:
            self._cleaned_at = now
            _calls.remove_old(self.folder)
        return _calls.CallFolder.create(self.folder, function, calls)

    def _spec(self, command: Command, options: Mapping[str, Any]) -> Dict[str, Any]:
        spec: Dict[str, Any] = {"capture": _options.captured(self.address.is_remote)}
        if isinstance(command, os.PathLike):
            path = os.fspath(command)
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                spec = _options.merge(spec, self._read_script(file.read(), os.path.abspath(path)))
            spec.setdefault("name", os.path.basename(path))
        elif isinstance(command, str):
            if not command.strip():
                raise InvalidRequest("the command is empty")
            spec["command"] = ["/bin/sh", "-c", command]
            words = re.findall(r"[^\s;|&()<>]+", command)
            spec["name"] = os.path.basename(words[0])[:64] if words else "sh"
        else:
            try:
                spec["command"] = [os.fspath(word) for word in command]
            except TypeError:
                raise InvalidRequest(
                    f"{command!r:.100}: expected a function, a shell command as str, a list of words, or a script as pathlib.Path"
                ) from None
            if not spec["command"]:
                raise InvalidRequest("the command is empty")
        given = tuple(_options.option_words(options))
        if given:
            spec = _options.merge(spec, self._spec_of_words(given))
        direct = _options.direct_members(options)
        if not options.get("chdir") and spec.get("directory"):
            del direct["directory"]
        return _options.merge(spec, direct)

    def _spec_of_words(self, words: Tuple[str, ...]) -> Dict[str, Any]:
        known = self._specs.get(words)
        if known is not None:
            return known
        read = self._read_script(_options.script_of(words), os.getcwd() + "/")
        read.pop("script", None)
        if not any(word.startswith(("--begin=", "--deadline=")) for word in words):  # "now+1h" is another time later.
            if len(self._specs) >= _MOST_CACHED:
                self._specs.clear()
            self._specs[words] = read
        return read

    def _read_script(self, text: str, path: str) -> Dict[str, Any]:
        answer = self.request("POST", "/v1/script", {"text": text, "directory": os.path.dirname(path)})
        if answer.get("refusal"):
            raise InvalidRequest(re.sub(r"^script\.sh line \d+: ", "", answer["refusal"]))
        spec: Dict[str, Any] = answer.get("spec", {})
        return spec

    # Reading.

    def job(self, job: Union[int, str]) -> Job[Any]:
        """Returns the job with this id ("17", "17_3"), name, or "@" for the caller's last one."""
        info = self.info(job)
        return Job(self, info["display_id"] if info["array_index"] is not None else str(info["id"]), info)

    def info(self, job: Union[int, str, Job[Any]]) -> m.JobInFull:
        return cast("m.JobInFull", self.request("GET", f"/v1/jobs/{_path(job)}"))

    def why(self, job: Union[int, str, Job[Any]]) -> m.WhyView:
        """Returns what keeps the job from starting, and which jobs hold what it lacks."""
        return cast("m.WhyView", self.request("GET", f"/v1/jobs/{_path(job)}/why"))

    def queue(
        self,
        *,
        user: str = "all",
        states: Sequence[str] = (),
        name: str = "",
        project: str = "",
        group: str = "",
        ended: bool = False,
        limit: int = 0,
    ) -> List[m.JobView]:
        """Lists jobs in queue order. `user` is "all", a name, or "" for the caller. `ended` includes ended jobs."""
        select = {
            "user": user,
            "states": list(states),
            "name": name,
            "project": project,
            "group": group,
            "includes_final": ended,
            "limit": limit,
        }
        return cast("List[m.JobView]", self.request("POST", "/v1/jobs/select", select))

    def gpus(self) -> List[m.GpuView]:
        return cast("List[m.GpuView]", self.request("GET", "/v1/gpus"))

    def nodes(self) -> List[m.NodeView]:
        return cast("List[m.NodeView]", self.request("GET", "/v1/nodes"))

    def status(self) -> m.StatusView:
        return cast("m.StatusView", self.request("GET", "/v1/status"))

    def log(
        self, job: Union[int, str, Job[Any]], *, error: bool = False, at: int = -1, last: int = -1, run: int = 0
    ) -> Tuple[bytes, int]:
        """Returns a piece of the job's output, and where the next piece begins. An empty piece is the end so far.

        `at` is the first byte. -1: from the last `last` lines on, or from the start if that is -1 too.
        """
        query = {"at": at, "last": last, "error": 1 if error else None, "run": run or None}
        answer = self._connections.request("GET", f"/v1/jobs/{_path(job)}/log", None, query)
        return answer.body, int(answer.headers.get("Divvy-Next", at))

    # Changing.

    def cancel(self, jobs: Selection, *, grace: Optional[float] = None, reason: str = "") -> List[m.ActionResult]:
        """Cancels jobs. `grace` is the time in seconds from the stop signal to SIGKILL; 0 kills at once."""
        return self._act("cancel", jobs, **({} if grace is None else {"grace_s": grace}), reason=reason)

    def hold(self, jobs: Selection) -> List[m.ActionResult]:
        return self._act("hold", jobs)

    def release(self, jobs: Selection) -> List[m.ActionResult]:
        return self._act("release", jobs)

    def requeue(self, jobs: Selection) -> List[m.ActionResult]:
        return self._act("requeue", jobs)

    def pause(self, jobs: Selection) -> List[m.ActionResult]:
        return self._act("pause", jobs)

    def resume(self, jobs: Selection) -> List[m.ActionResult]:
        return self._act("resume", jobs)

    def signal(self, jobs: Selection, number: int) -> List[m.ActionResult]:
        return self._act("signal", jobs, signal=number)

    def update(self, jobs: Selection, **changes: Any) -> List[m.ActionResult]:
        """Changes jobs. The fields are those of JobUpdate (docs/api.md): `client.update(job, time_limit_s=3600)`."""
        return self._act("update", jobs, **changes)

    def _act(self, action: str, jobs: Selection, **body: Any) -> List[m.ActionResult]:
        many = [jobs] if isinstance(jobs, (int, str, Job)) else list(jobs)
        if not many:
            return []
        ids = [str(getattr(job, "id", job)) for job in many]
        answer = self.request("POST", f"/v1/jobs/{action}", {"select": {"ids": ids}, **body})
        return cast("List[m.ActionResult]", answer["results"])


def _path(job: Union[int, str, Job[Any]]) -> str:
    text = str(getattr(job, "id", job))
    if not text:
        raise InvalidRequest("the job's id is empty")
    return quote(text, safe="")

