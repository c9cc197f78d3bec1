"""The options of a submission, and how they become the JSON of a job.

The daemon reads the options itself (POST /v1/script), with the table of `divvy submit`. So `gpus="2..8"` and
`time="90m"` mean exactly what `--gpus 2..8` and `--time 90m` mean, and errors are those of the command line.
"""

from __future__ import annotations

import datetime
import os
import resource
import shlex
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence, TypedDict, Union

from ._errors import InvalidRequest

if TYPE_CHECKING:
    from ._job import Job

    JobReference = Union[int, str, Job[Any]]
    JobReferences = Union[JobReference, Sequence[JobReference]]
Time = Union[str, datetime.timedelta]
Moment = Union[str, datetime.datetime]
Path = Union[str, "os.PathLike[str]"]


class Options(TypedDict, total=False):
    """Keywords of `divvy.submit` that describe the job. All others belong to the function.

    Each is the option of `divvy submit` with the same name (`divvy submit --help --all`), with "_" for "-".
    """

    # Resources.
    gpus: Union[int, float, str]  # 2, 0.25, "2..8", "2x0.5"
    gpu_type: str
    gpu_memory: str  # "40G"
    gpu_limit: float
    gpu_memory_limit: str
    shared: bool
    compute: Union[float, str]
    idle_park: Time
    mps: bool
    slice: str
    cpus: int
    memory: str  # "64G"
    tasks: int
    gpus_per_task: int
    nodes: int
    constraint: str
    nodelist: str
    exclude: str
    topology: str
    placement: str
    queue_anyway: bool
    # When.
    time: Time  # "2h", "90m" or a timedelta
    begin: Moment
    deadline: Moment
    priority: int
    hold: bool
    after: "JobReferences"  # Starts when these jobs have ended.
    after_ok: "JobReferences"  # Starts when these jobs have succeeded.
    dependency: str  # Any expression of --dependency.
    keep_waiting: bool
    # How many.
    array: str  # "0-99%8"
    param: Mapping[str, Sequence[Any]]  # One job for each combination; {NAME} in the command is replaced.
    name_template: str
    retries: int
    retry_delay: Time
    group: str
    group_limit: int
    preemptible: str
    requeue_after_reboot: bool
    # Files and environment.
    output: Path
    error: Path
    input: Path
    open_mode: str
    chdir: Path
    env: Mapping[str, str]
    # Signals.
    signal: str
    stop_signal: str
    resize_signal: str
    grace: Time
    # Labels.
    name: str
    project: str
    team: str
    comment: str
    account: str
    pool: str
    notify: str
    notify_to: str
    on_waste: str
    # Containers.
    image: str
    mount: Union[str, Sequence[str]]
    container_workdir: Path


NAMES = frozenset(Options.__annotations__)
_NOT_WORDS = frozenset({"param", "env", "chdir"})  # These go into the JSON directly.
_TRAVELLING = ("LANG=", "LC_", "TERM=", "TZ=")
_LIMITS = ("nofile", "nproc", "memlock", "stack", "core", "fsize", "as", "cpu", "data")


def _job_id(job: "JobReference") -> str:
    text = str(getattr(job, "id", job))
    # An id becomes part of a line of a script, which other characters would end.
    if isinstance(job, bool) or not text or " " in text or not text.isprintable():
        raise InvalidRequest(f"{job!r} is not a job; give a Job or its id")
    return text


def _references(value: Any) -> str:
    many = value if isinstance(value, (list, tuple)) else [value]
    return ":".join(_job_id(job) for job in many)


def _word(name: str, value: Any) -> str:
    """The text of an option's value, as the command line has it."""
    if isinstance(value, datetime.timedelta):
        return f"{value.total_seconds():g}s" if value.total_seconds() < 1e6 else f"{round(value.total_seconds())}s"
    if isinstance(value, datetime.datetime):
        return value.astimezone().strftime("%Y-%m-%dT%H:%M:%S")
    if name in ("time", "retry_delay", "grace", "idle_park") and not isinstance(value, str):
        raise InvalidRequest(f'{name}={value!r} has no unit; write a text such as "2h" or "90m", or a timedelta')
    if not isinstance(value, (str, int, float, os.PathLike)) or isinstance(value, bool):
        raise InvalidRequest(f"{name}={value!r}: expected a text or a number, got a {type(value).__name__}")
    text = os.fspath(value) if isinstance(value, os.PathLike) else str(value)
    if any(ord(letter) < 32 for letter in text):
        raise InvalidRequest(f"{name}={value!r} has a line break or another control character")
    return text


def option_words(options: Mapping[str, Any]) -> List[str]:
    """Returns the options as words of `divvy submit`, one for each: "--gpus=2". None and False leave an option out."""
    words: List[str] = []
    for name, value in options.items():
        if name not in NAMES:
            raise InvalidRequest(f"there is no option {name!r}; divvy submit --help --all lists the options")
        if name in _NOT_WORDS or value is None or value is False:
            continue
        option = "--" + name.replace("_", "-")
        if name == "after":
            words.append(f"--after={_references(value)}")
        elif name == "after_ok":
            words.append(f"--dependency=afterok:{_references(value)}")
        elif value is True:
            words.append(option)
        elif name == "mount" and not isinstance(value, str):
            words += [f"{option}={_word(name, one)}" for one in value]
        else:
            words.append(f"{option}={_word(name, value)}")
    return words


def script_of(words: Sequence[str]) -> str:
    """A script whose own lines have these options, for POST /v1/script."""
    return "#!/bin/sh\n" + "".join(f"# DIVVY {shlex.quote(word)}\n" for word in words) + "true\n"


def merge(base: Dict[str, Any], over: Mapping[str, Any]) -> Dict[str, Any]:
    """`base` with the members of `over`, recursively."""
    merged = dict(base)
    for name, value in over.items():
        both = isinstance(value, dict) and isinstance(merged.get(name), dict)
        merged[name] = merge(merged[name], value) if both else value
    return merged


def _umask() -> int:
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as status:
            for line in status:
                if line.startswith("Umask:"):
                    return int(line.split()[1], 8)
    except OSError:
        pass
    return 0o022


def captured(is_remote: bool) -> Dict[str, Any]:
    """The environment, limits and umask of this process, as `divvy submit` captures them."""
    # A job need not know which daemon its submitter used, and a token must not get into its environment.
    pairs = sorted(f"{name}={value}" for name, value in os.environ.items() if name != "DIVVY_CONTROLLER")
    if is_remote:
        return {"environment": [pair for pair in pairs if pair.startswith(_TRAVELLING)], "umask": _umask()}
    limits: Dict[str, int] = {}
    for name in _LIMITS:
        soft, _ = resource.getrlimit(getattr(resource, f"RLIMIT_{name.upper()}"))
        limits[name] = -1 if soft == resource.RLIM_INFINITY else soft
    return {"environment": pairs, "limits": limits, "umask": _umask()}


def direct_members(options: Mapping[str, Any]) -> Dict[str, Any]:
    """The members of the job for the options that have no words."""
    spec: Dict[str, Any] = {}
    if options.get("param"):
        spec["parameters"] = [
            {"name": name, "values": [str(value) for value in values]} for name, values in options["param"].items()
        ]
    if options.get("env"):
        spec["extra_environment"] = [f"{name}={value}" for name, value in options["env"].items()]
    directory: Optional[Path] = options.get("chdir")
    spec["directory"] = os.path.abspath(os.fspath(directory)) if directory else os.getcwd()
    return spec
