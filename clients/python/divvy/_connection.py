"""Finds the daemon as the command line does, and sends requests to it over a Unix socket or TLS.

The server of a token line is recognised by the SHA-256 fingerprint of its certificate. Nothing is sent before the
fingerprint is checked, and no certificate authority is trusted.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import os
import re
import select
import socket
import ssl
import stat
import threading
import time
from typing import Any, Iterator, List, Mapping, NamedTuple, Optional, Tuple, Union
from urllib.parse import urlencode

from ._errors import DivvyError, InvalidRequest, NotFound, PermissionDenied, ServerError, Unreachable, of_status

CONNECT_SECONDS = 20.0
_MACHINE_SOCKET = "/run/divvy/divvy.sock"
_MACHINE_STATE = "/var/lib/divvy"
_MOST_TOKEN_BYTES = 4096
_IDLE_CONNECTIONS = 4
_FIRST_PAUSE_S = 0.02
_LONGEST_PAUSE_S = 1.0

Query = Mapping[str, Union[str, int, float, bool, None]]


class TokenLine(NamedTuple):
    """One line of `divvy token create`: HOST:PORT#ID.SECRET.FINGERPRINT."""

    host: str
    port: int
    bearer: str
    fingerprint: str

    def __repr__(self) -> str:  # The secret must not get into logs.
        return f"TokenLine({self.host}:{self.port}#{self.bearer[:8]}...)"

    @staticmethod
    def parse(text: str, where: str = "") -> TokenLine:
        prefix = where + ": " if where else ""
        address, _, rest = text.strip().partition("#")
        parts = rest.split(".")
        if not rest or len(parts) < 2:
            raise InvalidRequest(
                prefix + "this is not a token line; `divvy token create` on the controller prints one: HOST:PORT#... "
                "without spaces"
            )
        host, _, port = address.rpartition(":")
        host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
        is_good = (
            len(parts) in (3, 4)
            and re.fullmatch("[0-9a-f]{8}", parts[0])
            and all(re.fullmatch("[0-9a-f]{64}", part) for part in parts[1:])
            and host
            and port.isdecimal()
            and 0 < int(port) < 65536
        )
        if not is_good:
            raise InvalidRequest(
                prefix + f"the token line for {address} is incomplete; copy it again from what `divvy token create` "
                "printed"
            )
        return TokenLine(host, int(port), f"{parts[0]}.{parts[1]}", parts[2])


class Address(NamedTuple):
    """Where a daemon listens: a Unix socket, or another machine."""

    socket: str = ""
    token: Optional[TokenLine] = None
    is_agents: bool = False  # The socket belongs to the agent of this node, which passes requests to the controller.

    @property
    def is_remote(self) -> bool:
        return self.token is not None

    def __str__(self) -> str:
        return f"{self.token.host}:{self.token.port}" if self.token else self.socket


def _read_token_file(path: str) -> Optional[TokenLine]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise PermissionDenied(f"opening {path}: {error.strerror}") from error
    with os.fdopen(descriptor, "rb") as file:
        about = os.fstat(file.fileno())
        if stat.S_ISREG(about.st_mode) and about.st_mode & 0o077:
            raise PermissionDenied(f"other users can read the token in {path}; run chmod 600 on it")
        text = file.read(_MOST_TOKEN_BYTES)
    return TokenLine.parse(text.decode("utf-8", "replace"), path)


def _stored_login() -> Optional[TokenLine]:
    config = os.environ.get("XDG_CONFIG_HOME", "")
    folder = config if config.startswith("/") else os.environ.get("HOME", "") + "/.config"
    return _read_token_file(f"{folder}/divvy/controller")


def _local_paths() -> Tuple[str, str]:
    """Returns the socket and the state folder of this machine's daemon, by the rule of the command line."""
    home = os.environ.get("DIVVY_HOME", "")
    if home:
        home = os.path.abspath(home)
        return f"{home}/divvy.sock", home
    try:
        is_its_user = os.stat("/run/divvy").st_uid == os.geteuid()
    except OSError:
        is_its_user = False
    is_machine_wide = is_its_user or os.geteuid() == 0
    if is_machine_wide or os.path.exists(_MACHINE_SOCKET) or os.path.exists("/run/divvy-launcher/launches"):
        return _MACHINE_SOCKET, _MACHINE_STATE
    state = os.environ.get("XDG_STATE_HOME", "") or os.environ.get("HOME", "") + "/.local/state"
    runtime = os.environ.get("XDG_RUNTIME_DIR", "") or state
    return f"{runtime}/divvy/divvy.sock", f"{state}/divvy"


def find_address(controller: Optional[Union[str, "os.PathLike[str]"]] = None) -> Address:
    """Returns the daemon that `controller` names, or else the one that a divvy command would use.

    `controller` is a token line, a file with one, "unix:PATH", or the path of a daemon's socket.
    """
    chosen = os.fspath(controller) if controller is not None else os.environ.get("DIVVY_CONTROLLER", "")
    name = "DIVVY_CONTROLLER" if controller is None else "controller"
    if chosen.startswith("unix:"):
        return Address(socket=chosen[len("unix:") :], is_agents=True)
    if "#" in chosen:
        return Address(token=TokenLine.parse(chosen, name))
    if chosen:
        try:
            if stat.S_ISSOCK(os.stat(chosen).st_mode):
                return Address(socket=chosen)
        except OSError:
            pass
        token = _read_token_file(chosen)
        if token is None:
            raise NotFound(f"{name} is not a token line, and {chosen} is not a file")
        return Address(token=token)
    path, state = _local_paths()
    # A machine without a daemon may be a workstation. One whose daemon is down is not, and neither is a job.
    is_workstation = not (
        os.environ.get("DIVVY_HOME") or os.path.exists(state) or "DIVVY_JOB_ID" in os.environ or os.path.exists(path)
    )
    token = _stored_login() if is_workstation else None
    return Address(token=token) if token else Address(socket=path)


class _Connection(http.client.HTTPConnection):
    """One connection to the daemon, over whichever kind of socket its address has."""

    def __init__(self, address: Address, timeout: Optional[float]) -> None:
        super().__init__("divvy", timeout=timeout)
        self._address = address

    def connect(self) -> None:
        token = self._address.token
        try:
            if token is None:
                self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                self.sock.settimeout(self.timeout)
                self.sock.connect(self._address.socket)
            else:
                self.sock = self._connect_tls(token)
        except (OSError, ssl.SSLError) as error:
            self.close()
            raise Unreachable(self._hint(error)) from error
        except DivvyError:
            self.close()
            raise

    def _connect_tls(self, token: TokenLine) -> socket.socket:
        plain = socket.create_connection((token.host, token.port), timeout=CONNECT_SECONDS)
        try:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.minimum_version = ssl.TLSVersion.TLSv1_3
            # The fingerprint below replaces names and authorities.
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            tls = context.wrap_socket(plain)
        except BaseException:
            plain.close()
            raise
        certificate = tls.getpeercert(binary_form=True) or b""
        if not hmac.compare_digest(hashlib.sha256(certificate).hexdigest(), token.fingerprint):
            tls.close()
            raise PermissionDenied(
                f"{self._address} is not the controller of this token: its certificate has another fingerprint; log in "
                "again with a new token line (divvy token create there)"
            )
        tls.settimeout(self.timeout)
        return tls

    def _hint(self, error: Exception) -> str:
        why = getattr(error, "strerror", None) or str(error)
        if self._address.is_agents:
            return f"the agent on this machine does not answer ({why}); jobs keep running"
        hint = "" if self._address.is_remote else "; start one with: divvy up"
        return f"no daemon answers at {self._address} ({why}){hint}"

    def is_usable(self) -> bool:
        """Whether the server has kept this idle connection open."""
        if self.sock is None:
            return False
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        return not poll.poll(0)


class Answer(NamedTuple):
    body: bytes
    headers: http.client.HTTPMessage

    def json(self) -> Any:
        try:
            return json.loads(self.body)
        except ValueError as error:
            raise ServerError(f"the daemon's answer is not JSON: {error}") from error


class Connections:
    """Sends requests to one daemon. Threads may share it: each request uses a connection of its own meanwhile.

    A process that was forked opens connections of its own.
    """

    def __init__(self, address: Address) -> None:
        self.address = address
        self._lock = threading.Lock()
        self._idle: List[_Connection] = []
        self._owner = os.getpid()

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        query: Optional[Query] = None,
        timeout: Optional[float] = None,
    ) -> Answer:
        """Returns the daemon's answer. Raises a DivvyError with the daemon's message if the daemon refuses.

        `timeout` limits the seconds without any data from the daemon, not the whole request. TimeoutError follows.
        """
        connection = self._take(timeout)
        try:
            answer, keeps = self._exchange(connection, method, path, body, query)
        except BaseException:
            connection.close()
            raise
        if keeps:
            self._give(connection)
        else:
            connection.close()
        return answer

    def lines(self, path: str, query: Optional[Query] = None, timeout: Optional[float] = None) -> Iterator[str]:
        """Returns the lines of an answer that has no end, until the daemon closes it.

        The daemon has begun to answer when this returns, so it reports everything that happens from then on.
        """
        connection = _Connection(self.address, timeout)
        try:
            response = self._send(connection, "GET", path, None, query)
            if response.status >= 300:
                self._refuse(response.status, response.read())
        except BaseException:
            connection.close()
            raise
        return self._lines_of(connection, response)

    def _lines_of(self, connection: _Connection, response: http.client.HTTPResponse) -> Iterator[str]:
        try:
            while True:
                line = response.readline()
                if not line:
                    return
                yield line.decode("utf-8", "replace").rstrip("\r\n")
        except http.client.HTTPException as error:
            raise Unreachable(f"the daemon at {self.address} ended the connection") from error
        finally:
            connection.close()

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _take(self, timeout: Optional[float]) -> _Connection:
        with self._lock:
            if self._owner != os.getpid():  # The parent process reads from these.
                self._idle, self._owner = [], os.getpid()
            while self._idle:
                connection = self._idle.pop()
                if connection.is_usable():
                    connection.timeout = timeout
                    connection.sock.settimeout(timeout)
                    return connection
                connection.close()
        return _Connection(self.address, timeout)

    def _give(self, connection: _Connection) -> None:
        with self._lock:
            if len(self._idle) < _IDLE_CONNECTIONS and self._owner == os.getpid():
                self._idle.append(connection)
                return
        connection.close()

    def _send(
        self, connection: _Connection, method: str, path: str, body: Any, query: Optional[Query]
    ) -> http.client.HTTPResponse:
        given = {name: value for name, value in (query or {}).items() if value is not None}
        target = path + ("?" + urlencode(given) if given else "")
        headers = {"Content-Type": "application/json"}
        if self.address.token:
            headers["Authorization"] = f"Bearer {self.address.token.bearer}"
        data = None if method == "GET" else json.dumps({} if body is None else body).encode()
        try:
            try:
                connection.request(method, target, data, headers)
            except BrokenPipeError:
                pass  # A daemon that rejects a request may have answered before it closed.
            return connection.getresponse()
        except TimeoutError:
            raise
        except socket.timeout as error:  # Before Python 3.10 this is not a TimeoutError.
            raise TimeoutError(str(error)) from error
        except (OSError, http.client.HTTPException) as error:
            if isinstance(error, DivvyError):
                raise
            raise Unreachable(f"the daemon at {self.address} closed the connection before it answered") from error

    def _exchange(
        self, connection: _Connection, method: str, path: str, body: Any, query: Optional[Query]
    ) -> Tuple[Answer, bool]:
        response = self._send(connection, method, path, body, query)
        try:
            content = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(f"the daemon at {self.address} closed the connection in its answer") from error
        if response.status >= 300:
            self._refuse(response.status, content)
        return Answer(content, response.headers), not response.will_close

    @staticmethod
    def _refuse(status: int, content: bytes) -> None:
        try:
            error = json.loads(content)
            code, message = str(error.get("code", "")), str(error.get("message", ""))
        except (ValueError, AttributeError):
            code, message = "", ""
        raise of_status(status, code, message)


def pauses() -> Iterator[float]:
    """The pauses between attempts to reach a daemon that went away: short at first, then one second each."""
    pause = _FIRST_PAUSE_S
    while True:
        yield pause
        pause = min(2 * pause, _LONGEST_PAUSE_S)


def wait_for_daemon(connections: Connections, deadline: Optional[float]) -> None:
    """Returns when the daemon answers again. Raises TimeoutError at `deadline` (of time.monotonic())."""
    for pause in pauses():
        if deadline is not None and time.monotonic() >= deadline:
            raise TimeoutError
        time.sleep(pause)
        try:
            connections.request("GET", "/v1/status", timeout=CONNECT_SECONDS)
            return
        except (Unreachable, TimeoutError):
            continue
