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
from typing import Any, Callable, Iterator, List, Mapping, NamedTuple, Optional, Tuple, TypeVar, Union
from urllib.parse import urlencode

from ._errors import DivvyError, InvalidRequest, NotFound, PermissionDenied, ServerError, Unreachable, of_status

CONNECT_SECONDS = 20.0
_MACHINE_SOCKET = "/run/divvy/divvy.sock"
_MACHINE_STATE = "/var/lib/divvy"
_MOST_TOKEN_BYTES = 4096
_IDLE_CONNECTIONS = 4
_FIRST_PAUSE_S = 0.02
_LONGEST_PAUSE_S = 1.0
# With several controllers: for how long the one that leads is searched, in all and at each address.
_SEARCH_S = 30.0
_SEARCH_EACH_S = 2.0
_SEARCH_PAUSE_S = 0.1

T = TypeVar("T")
Query = Mapping[str, Union[str, int, float, bool, None]]
_HostPort = Tuple[str, int]
_ADDRESS = re.compile(r"(?:\[([A-Za-z0-9._:%-]{1,253})\]|([A-Za-z0-9._-]{1,253})):([0-9]{1,5})")


def _parse_address(text: str) -> Optional[_HostPort]:
    found = _ADDRESS.fullmatch(text)
    if found is None or not 0 < int(found[3]) < 65536:
        return None
    return found[1] or found[2], int(found[3])


def _address_text(address: _HostPort) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class TokenLine(NamedTuple):
    """One line of `divvy token create`: HOST:PORT#ID.SECRET.FINGERPRINT.

    A cluster with several controllers has several addresses, separated by commas, and one certificate.
    """

    host: str
    port: int
    bearer: str
    fingerprint: str
    others: Tuple[_HostPort, ...] = ()  # The addresses of the cluster's other controllers.

    def __repr__(self) -> str:  # The secret must not get into logs.
        return f"TokenLine({','.join(map(_address_text, self.addresses()))}#{self.bearer[:8]}...)"

    def addresses(self) -> List[_HostPort]:
        return [(self.host, self.port), *self.others]

    @staticmethod
    def parse(text: str, where: str = "") -> TokenLine:
        prefix = where + ": " if where else ""
        given, _, rest = text.strip().partition("#")
        parts = rest.split(".")
        if not rest or len(parts) < 2:
            raise InvalidRequest(
                prefix + "this is not a token line; `divvy token create` on the controller prints one: HOST:PORT#... "
                "without spaces"
            )
        parsed = [_parse_address(address) for address in given.split(",")]
        addresses = [address for address in parsed if address is not None]
        is_good = (
            len(parts) in (3, 4)
            and re.fullmatch("[0-9a-f]{8}", parts[0])
            and all(re.fullmatch("[0-9a-f]{64}", part) for part in parts[1:])
            and len(addresses) == len(parsed)
        )
        if not is_good:
            raise InvalidRequest(
                prefix + f"the token line for {_shown(given)} is incomplete; copy it again from what `divvy token "
                "create` printed"
            )
        host, port = addresses[0]
        return TokenLine(host, port, f"{parts[0]}.{parts[1]}", parts[2], tuple(addresses[1:]))


class Address(NamedTuple):
    """Where a daemon listens: a Unix socket, or another machine."""

    socket: str = ""
    token: Optional[TokenLine] = None
    is_agents: bool = False  # The socket belongs to the agent of this node, which passes requests to the controller.

    @property
    def is_remote(self) -> bool:
        return self.token is not None

    def __str__(self) -> str:
        return _address_text((self.token.host, self.token.port)) if self.token else self.socket


def _shown(path: str) -> str:
    """A path for a message. Somebody may have given a token or a part of one instead of a path."""
    return "the value (not shown: it may be a token)" if re.search("[0-9A-Fa-f]{64}", path) else path


def _read_token_file(path: str) -> Optional[TokenLine]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise PermissionDenied(f"opening {_shown(path)}: {error.strerror}") from error
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
            raise NotFound(
                f"{name}: {_shown(chosen)} is neither a token line nor a file with one; divvy token create prints a line"
            )
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
                tls = self._connect_leader(token) if token.others else self._connect_tls(token, token.addresses()[0])
                tls.settimeout(self.timeout)
                self.sock = tls
        except (OSError, ssl.SSLError) as error:
            self.close()
            raise Unreachable(self._hint(error)) from error
        except DivvyError:
            self.close()
            raise

    def _connect_leader(self, token: TokenLine) -> ssl.SSLSocket:
        """Connects to the controller that leads, and waits for half a minute until one does."""
        addresses = token.addresses()
        end = time.monotonic() + _SEARCH_S
        while True:
            failure: Exception = ConnectionError("no controller leads at the moment")
            for address in addresses:
                try:
                    tls = self._connect_tls(token, address, _SEARCH_EACH_S)
                except OSError as error:
                    failure = error
                    continue
                try:
                    leader = _ask_leader(tls)
                    if leader.get("leads") is True:
                        return tls
                    named = _parse_address(str(leader.get("address", "")))
                    if named is not None and named not in addresses:
                        addresses.append(named)  # Its address may be new.
                except (OSError, http.client.HTTPException, ValueError, AttributeError) as error:
                    failure = error
                tls.close()
            if time.monotonic() >= end:
                raise ConnectionError(getattr(failure, "strerror", None) or str(failure)) from failure
            time.sleep(_SEARCH_PAUSE_S)

    @staticmethod
    def _connect_tls(token: TokenLine, address: _HostPort, timeout: float = CONNECT_SECONDS) -> ssl.SSLSocket:
        plain = socket.create_connection(address, timeout=timeout)
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
                f"{_address_text(address)} is not the controller of this token: its certificate has another "
                "fingerprint; log in again with a new token line (divvy token create there)"
            )
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


def _ask_leader(tls: ssl.SSLSocket) -> Any:
    asking = http.client.HTTPConnection("divvy")
    asking.sock = tls
    asking.request("GET", "/leader")
    return json.loads(asking.getresponse().read())


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
        return self._repeated(method, path, lambda: self._request_once(method, path, body, query, timeout))

    def _request_once(
        self, method: str, path: str, body: Any, query: Optional[Query], timeout: Optional[float]
    ) -> Answer:
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
        return self._repeated("GET", path, lambda: self._lines_once(path, query, timeout))

    def _repeated(self, method: str, path: str, attempt: Callable[[], T]) -> T:
        """With several controllers, repeats a request at the next leader, if that can do no harm.

        Either a controller that does not lead has refused it, or it changes nothing.
        """
        end = time.monotonic() + _SEARCH_S
        while True:
            try:
                return attempt()
            except DivvyError as error:
                was_refused = error._status in (307, 503)
                is_read = method == "GET" or path == "/v1/jobs/select"
                was_lost = isinstance(error, Unreachable) and not error._status and is_read
                has_others = self.address.token is not None and bool(self.address.token.others)
                if not has_others or not (was_refused or was_lost) or time.monotonic() >= end:
                    raise
            time.sleep(_SEARCH_PAUSE_S)

    def _lines_once(self, path: str, query: Optional[Query], timeout: Optional[float]) -> Iterator[str]:
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
        refusal = of_status(status, code, message)
        refusal._status = status
        raise refusal


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
