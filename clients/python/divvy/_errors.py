"""The errors that the package raises. Each carries the server's message, unchanged."""

from __future__ import annotations

import re
from typing import Any, Dict, Optional, Tuple, Type

# The server escapes nothing for terminals, and other users choose the names of their jobs.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def visible(text: str) -> str:
    """Returns `text` with each control character, except line breaks and tabs, as visible text such as \\x1b."""
    return _CONTROLS.sub(lambda found: f"\\x{ord(found.group()):02x}", text)


class DivvyError(Exception):
    """The base of all errors of this package. `message` is the server's message if the server refused a request.

    `code` is the server's code (docs/api.md, "Errors"), for example "not_found".
    """

    code = "internal"
    _status = 0  # The HTTP status with which the server refused the request.

    def __init__(self, message: str, code: Optional[str] = None) -> None:
        self.message = visible(message)
        if code:
            self.code = code
        super().__init__(self.message)

    def __reduce__(self) -> Tuple[Any, ...]:  # Without this, pickle calls the class with the message alone.
        return type(self), (self.message, self.code), self.__dict__


class InvalidRequest(DivvyError, ValueError):
    """The request has a value that is not allowed, or that this cluster can never satisfy."""

    code = "invalid_argument"


class PermissionDenied(DivvyError):
    """The caller may not do this, or the token is not valid, or the server is not the one of the token."""

    code = "permission_denied"


class NotFound(DivvyError, LookupError):
    """There is no such job, node or file."""

    code = "not_found"


class Conflict(DivvyError):
    """The state of the job or of the server does not allow the request."""

    code = "failed_precondition"


class LimitExceeded(DivvyError):
    """A limit of the user, of the team or of the server is reached."""

    code = "limit_exceeded"


class Unreachable(DivvyError, ConnectionError):
    """No daemon answers. Jobs are not affected."""

    code = "unreachable"


class TimedOut(DivvyError, TimeoutError):
    """The time that the caller gave has passed. The job is not affected."""

    code = "timed_out"


class ServerError(DivvyError):
    """The server failed, or answered with something that is not divvy's protocol."""


class ResultUnavailable(DivvyError):
    """The job has no result that this process can read."""

    code = "result_unavailable"


class JobFailed(DivvyError):
    """A job did not succeed. `reason` is the server's text."""

    code = "job_failed"

    def __init__(self, job: str, state: str, exit_code: Optional[int], reason: str) -> None:
        self.job = job
        self.state = state
        self.exit_code = exit_code
        self.reason = visible(reason)
        exit_text = "" if exit_code is None or state == "succeeded" else f" with exit code {exit_code}"
        # The reason of a job that just failed is its exit code again.
        detail = "" if not reason or (exit_text and reason == f"exit code {exit_code}") else f": {reason}"
        super().__init__(f"job {job} {state}{exit_text}{detail}")

    def __reduce__(self) -> Tuple[Any, ...]:
        return type(self), (self.job, self.state, self.exit_code, self.reason), self.__dict__


class RemoteTraceback(Exception):
    """The cause of an exception that a function raised in its job: the text of the traceback there."""

    def __init__(self, text: str) -> None:
        self.text = visible(text)
        super().__init__(f"\n{self.text}")

    def __reduce__(self) -> Tuple[Any, ...]:
        return type(self), (self.text,), self.__dict__


BY_STATUS: Dict[int, Type[DivvyError]] = {
    400: InvalidRequest,
    401: PermissionDenied,
    403: PermissionDenied,
    404: NotFound,
    409: Conflict,
    429: LimitExceeded,
    503: Unreachable,
    504: TimedOut,
    507: LimitExceeded,
}


def of_status(status: int, code: str, message: str) -> DivvyError:
    return BY_STATUS.get(status, ServerError)(message or f"the daemon answered with status {status}", code or None)
