"""Waits for many jobs with one connection and one thread.

The thread reads the daemon's events. When one may concern a job that is waited for, it asks for that job. After a lost
connection it asks for all of them, because events were missed.
"""

from __future__ import annotations

import json
import os
import threading
import weakref
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

from ._connection import CONNECT_SECONDS, pauses
from ._errors import DivvyError

if TYPE_CHECKING:
    from ._client import Client

_FINAL = frozenset({"succeeded", "failed", "cancelled", "timed_out", "lost"})
_STARTED = frozenset({"running", "paused", "stopping"})
_QUIET_S = 60.0  # After this time without an event, ask again: the connection may be dead.
_AT_ONCE = 500  # Jobs in one request.


class _Watch:
    def __init__(self, future: "Future[Dict[str, Any]]", on_start: Optional[Callable[[], object]]) -> None:
        self.future = future
        self.on_start = on_start


class Watcher:
    """Completes futures when their jobs end. The thread runs while there is a job to wait for.

    A process that was forked waits for its own jobs, with a thread of its own.
    """

    def __init__(self, client: Client) -> None:
        self._client = weakref.ref(client)
        self._locks: Dict[int, threading.Lock] = {}
        self._owner = os.getpid()
        self._watches: Dict[str, List[_Watch]] = {}
        self._thread: Optional[threading.Thread] = None
        self._is_closed = False

    @property
    def _lock(self) -> threading.Lock:
        """The lock of this process. After a fork, nobody may release that of the parent process."""
        lock = self._locks.setdefault(os.getpid(), threading.Lock())
        with lock:
            if self._owner != os.getpid():
                self._watches, self._thread, self._owner = {}, None, os.getpid()
        return lock

    def watch(self, job_id: str, on_start: Optional[Callable[[], object]] = None) -> "Future[Dict[str, Any]]":
        """Returns a future with the job's row (JobView) once it has ended. `on_start` is called when it runs."""
        future: "Future[Dict[str, Any]]" = Future()
        with self._lock:
            if self._is_closed:
                raise DivvyError("the client is closed")
            is_first = self._thread is None
            if is_first:
                thread = threading.Thread(target=self._run, name="divvy watcher", daemon=True)
                thread.start()
                self._thread = thread
            self._watches.setdefault(job_id, []).append(_Watch(future, on_start))
        if is_first:
            return future
        # The event stream may have passed the job's end already, so ask once from here.
        try:
            self._ask([job_id])
        except (DivvyError, OSError):
            pass  # The thread asks again when it has a connection.
        return future

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            watches, self._watches = self._watches, {}
        for waiting in watches.values():
            for watch in waiting:
                watch.future.cancel()

    def _waiting(self) -> List[str]:
        """The jobs that are waited for."""
        with self._lock:
            return list(self._watches)

    def _may_end(self) -> bool:
        """Whether nothing is waited for, so that the thread ends and watch() starts another one."""
        with self._lock:
            if self._watches:
                return False
            self._thread = None
            return True

    def _run(self) -> None:
        try:
            self._read_events()
        except Exception as error:  # pylint: disable=broad-except
            self._fail(error)  # Whoever waits must not wait for ever.

    def _read_events(self) -> None:
        attempts = pauses()
        while not self._may_end():
            client = self._client()
            if client is None:
                return self.close()
            try:
                lines = client._connections.lines("/v1/events", timeout=_QUIET_S)
                self._ask(self._waiting())
                for line in lines:
                    attempts = pauses()
                    if line.startswith("data:") and not self._take(line[len("data:") :]):
                        break
            except TimeoutError:
                attempts = pauses()
            except (DivvyError, OSError, ValueError) as error:
                if self._is_hopeless(error):
                    return self._fail(error)
                threading.Event().wait(next(attempts))

    @staticmethod
    def _is_hopeless(error: Exception) -> bool:
        return isinstance(error, DivvyError) and error.code not in ("unreachable", "timed_out", "limit_exceeded")

    def _take(self, text: str) -> bool:
        """Handles an event. Returns False when nothing is waited for any more."""
        event = json.loads(text)
        waiting = self._waiting()
        if event.get("kind") == "job" and (event.get("state") in _FINAL or event.get("state") in _STARTED):
            # The element of an array has a number of its own, so any event may concern one.
            number = str(event.get("id"))
            elements = [job for job in waiting if not job.isdecimal()]
            self._ask([number] if number in waiting else elements)
        return bool(waiting)

    def _ask(self, jobs: List[str]) -> None:
        client = self._client()
        if client is None:
            return
        for begin in range(0, len(jobs), _AT_ONCE):
            some = jobs[begin : begin + _AT_ONCE]
            select = {"ids": some, "user": "all", "includes_final": True}
            rows = client.request("POST", "/v1/jobs/select", select, timeout=CONNECT_SECONDS)
            for row in rows:
                self._settle(row)

    def _settle(self, row: Dict[str, Any]) -> None:
        names = {str(row["id"]), row["display_id"]}
        is_final = row["state"] in _FINAL
        if not is_final and row["state"] not in _STARTED:
            return
        found: List[Tuple[_Watch, Optional[Callable[[], object]]]] = []
        with self._lock:
            for name in names:
                for watch in self._watches.get(name, []):
                    found.append((watch, watch.on_start))
                    watch.on_start = None
                if is_final:
                    self._watches.pop(name, None)
        for watch, on_start in found:
            if on_start is not None:
                on_start()
            if is_final and watch.future.set_running_or_notify_cancel():
                watch.future.set_result(row)

    def _fail(self, error: Exception) -> None:
        with self._lock:
            watches, self._watches, self._thread = self._watches, {}, None
        for waiting in watches.values():
            for watch in waiting:
                if watch.future.set_running_or_notify_cancel():
                    watch.future.set_exception(error)
