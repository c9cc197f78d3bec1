"""For code that runs inside a job: metrics, progress and elastic GPUs."""

from __future__ import annotations

import os
import signal
import threading
import warnings
from types import FrameType
from typing import TYPE_CHECKING, Any, Dict, List, Optional

from ._client import Client
from ._errors import DivvyError, InvalidRequest

if TYPE_CHECKING:
    from . import messages as m

_TIMEOUT_S = 10.0
_lock = threading.Lock()
_client: Optional[Client] = None
_has_warned = False


def job_id() -> Optional[str]:
    """The id of the job in which this process runs, or None outside of jobs."""
    return os.environ.get("DIVVY_JOB_ID") or None


def _post(what: str, body: Dict[str, Any]) -> Any:
    global _client
    with _lock:
        if _client is None:
            _client = Client()
    attempt = os.environ.get("DIVVY_ATTEMPT", "")
    request = {**body, "attempt": int(attempt) if attempt.isdecimal() else 0}
    return _client.request("POST", f"/v1/jobs/{job_id()}/{what}", request, timeout=_TIMEOUT_S)


def _report(what: str, body: Dict[str, Any]) -> bool:
    """A daemon that does not answer must not end a training: it is reported once as a warning."""
    global _has_warned
    if job_id() is None:
        return False
    try:
        _post(what, body)
        return True
    except (DivvyError, OSError) as error:
        if not _has_warned:
            _has_warned = True
            warnings.warn(f"divvy: the {what} of job {job_id()} could not be reported: {error}", stacklevel=3)
        return False


def report(**metrics: float) -> bool:
    """Reports metrics of the job in which this process runs: `divvy.report(step=10, loss=0.3)`.

    The newest value of each second counts. Returns whether the daemon has taken them. Outside of jobs this does
    nothing, and a daemon that does not answer causes one warning, so a script needs no special case.
    """
    if not metrics:
        raise InvalidRequest("report() needs at least one metric, such as report(loss=0.3)")
    return _report("metrics", {"values": {name: float(value) for name, value in metrics.items()}})


def progress(done: float, of: Optional[int] = None) -> bool:
    """Reports the job's progress: `progress(0.35)`, or `progress(1200, of=100_000)` in steps.

    Returns whether the daemon has taken it. Outside of jobs this does nothing.
    """
    if of is not None:
        if not 0 <= done <= of or of < 1:
            raise InvalidRequest(f"progress({done}, of={of}): expected a step from 0 to {of}, of 1 or more steps")
        return _report("progress", {"step": int(done), "steps": int(of)})
    if not 0 <= done <= 1:
        raise InvalidRequest(f"progress({done}): expected a fraction from 0 to 1; for steps, write progress({done}, of=N)")
    return _report("progress", {"fraction": float(done)})


class Elastic:
    """Lets an elastic job (`gpus="2..8"`) take part in resizing, as a context manager.

        with divvy.Elastic() as elastic:
            while not finished:
                worker = start_training(elastic.gpus)      # A process that uses these GPUs.
                while worker_runs() and not elastic.should_checkpoint():
                    train_some_steps()
                save_and_stop(worker)                      # No GPU is in use now.
                elastic.checkpoint()                       # Gives GPUs back, or gets more.

    A process that has initialised CUDA cannot change its GPUs, so a worker process uses them. Entering and
    checkpoint() raise a DivvyError if the daemon does not answer; then the GPUs stay as they are. Outside of jobs
    nothing ever changes, and `gpus` is CUDA_VISIBLE_DEVICES.
    """

    def __init__(self, resize_signal: int = signal.SIGUSR1) -> None:
        self._signal = resize_signal
        self._gpus = os.environ.get("DIVVY_GPUS", os.environ.get("CUDA_VISIBLE_DEVICES", ""))
        self._path = os.environ.get("DIVVY_GPUS_FILE", "")

    @property
    def gpus(self) -> List[int]:
        """The GPUs that the job has now."""
        return [int(gpu) for gpu in self._gpus.split(",") if gpu.strip().isdecimal()]

    @property
    def visible_devices(self) -> str:
        """The same as the value of CUDA_VISIBLE_DEVICES for a worker: "0,1,2"."""
        return self._gpus

    def __enter__(self) -> Elastic:
        if job_id() is None:
            return self
        if not self._path:
            raise InvalidRequest(f'job {job_id()} is not elastic; submit it with a range of GPUs, such as gpus="2..8"')
        # The daemon may send the signal after the first checkpoint. Without a handler it would end the process.
        if threading.current_thread() is threading.main_thread():
            signal.signal(self._signal, self._on_signal)
        self.checkpoint()
        return self

    def __exit__(self, *_: object) -> None:
        # The signal may still arrive. At its end, Python gives a signal with a handler its default effect again, which
        # would end the process.
        if job_id() is not None and threading.current_thread() is threading.main_thread():
            signal.signal(self._signal, signal.SIG_IGN)

    @staticmethod
    def _on_signal(number: int, frame: Optional[FrameType]) -> None:
        """Only interrupts system calls that wait: should_checkpoint() reads the file."""

    def should_checkpoint(self) -> bool:
        """Whether the GPUs that the job may use differ from those that it has. Costs the read of a small file."""
        try:
            with open(self._path, encoding="ascii") as file:
                return file.read().strip() != self._gpus
        except (OSError, ValueError):
            return False

    def checkpoint(self) -> bool:
        """Reports that the job uses none of its GPUs now. Returns whether its GPUs have changed.

        GPUs that this gives back belong to another job at once.
        """
        if job_id() is None:
            return False
        answer: m.CheckpointAnswer = _post("checkpoint", {})
        self._gpus = answer["gpus"]
        os.environ["CUDA_VISIBLE_DEVICES"] = self._gpus
        return answer["has_changed"]
