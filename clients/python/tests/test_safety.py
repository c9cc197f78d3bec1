"""Pickles are read only where no other user can write, and a server is recognised before anything is sent to it."""

import hashlib
import http.server
import json
import os
import pickle
import socket
import ssl
import subprocess
import threading

import functions
import pytest
from conftest import run

import divvy
from divvy import _calls, _connection, _runner
from divvy._connection import Address, TokenLine


def planted(folder, name, mode=0o600):
    """A result that creates the file `unpickled` when it is read."""

    class Attack:
        def __reduce__(self):
            return (open, (str(folder / "unpickled"), "w"))

    (folder / name).write_bytes(pickle.dumps((True, pickle.dumps(Attack()), "")))
    os.chmod(folder / name, mode)


@pytest.fixture()
def folder(tmp_path):
    one = tmp_path / "calls"
    one.mkdir(mode=0o700)
    planted(one, "result-0.pkl")
    return one


def is_read(folder, *, says):
    with pytest.raises(divvy.PermissionDenied, match=says):
        _calls.CallFolder(str(folder)).result(0, True)
    return (folder / "unpickled").exists()


def test_the_planted_result_would_run_code(folder):
    _calls.CallFolder(str(folder)).result(0, True)
    assert (folder / "unpickled").exists()


def test_a_folder_that_others_can_write_to_is_not_read(folder):
    os.chmod(folder, 0o702)
    assert not is_read(folder, says="other users can write")


def test_a_folder_below_one_that_others_can_write_to_is_not_read(folder):
    os.chmod(folder.parent, 0o777)
    assert not is_read(folder, says="other users can write")


def test_a_file_that_others_can_write_to_is_not_read(folder):
    os.chmod(folder / "result-0.pkl", 0o602)
    assert not is_read(folder, says="other users can write")


def test_a_link_is_not_followed(folder, tmp_path):
    target = tmp_path / "elsewhere"
    (folder / "result-0.pkl").rename(target)
    (folder / "result-0.pkl").symlink_to(target)
    with pytest.raises(divvy.ResultUnavailable):
        _calls.CallFolder(str(folder)).result(0, True)
    assert not (folder / "unpickled").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_file_of_another_user_is_not_read(folder):
    os.chown(folder / "result-0.pkl", 65534, -1)
    assert not is_read(folder, says="belongs to user 65534")
    os.chown(folder, 65534, -1)
    assert not is_read(folder, says="belongs to user 65534")


def test_the_job_does_not_read_a_call_that_others_could_have_written(folder):
    planted(folder, _runner.CALL)
    os.chmod(folder, 0o777)
    ran = subprocess.run(_calls.CallFolder(str(folder)).command(), stderr=subprocess.PIPE, check=False, text=True)
    assert ran.returncode != 0 and "other users can write" in ran.stderr
    assert not (folder / "unpickled").exists()


def test_stored_calls_are_for_their_owner_only(client):
    job = client.submit(functions.add, 1)
    job.wait(60)
    path = job._folder.path
    modes = {os.stat(path).st_mode & 0o777} | {os.stat(os.path.join(path, f)).st_mode & 0o777 for f in os.listdir(path)}
    assert modes == {0o700, 0o600}
    assert sorted(os.listdir(path)) == ["call.pkl", "result-0.pkl"]


OLD, NEW, WAITS, OTHER, LINKED, NAMED = "0" * 16, "1" * 16, "2" * 16, "3" * 16, "4" * 16, "results"


@pytest.fixture()
def calls(tmp_path):
    """A folder with old and new submissions, and with things that only look like one."""
    calls, elsewhere = tmp_path / "calls", tmp_path / "elsewhere"
    for path, age_days, *files in (
        (calls / OLD, 31, "call.pkl", "result-0.pkl", "result-1.pkl", ".result-2.pkl.0123abcd"),
        (calls / NEW, 1, "call.pkl", "result-0.pkl"),
        (calls / WAITS, 99, "call.pkl"),
        (calls / OTHER, 99, "call.pkl", "result-0.pkl", "result-final.csv"),
        (calls / NAMED, 99, "call.pkl", "result-0.pkl"),
        (elsewhere, 99, "call.pkl", "result-0.pkl"),
    ):
        path.mkdir(mode=0o700, parents=True)
        then = os.stat(tmp_path).st_mtime - age_days * 86400
        for file in files:
            (path / file).touch()
            os.utime(path / file, (then, then))
    os.chmod(calls, 0o700)
    (calls / LINKED).symlink_to(elsewhere)
    return calls


def test_old_calls_are_removed_and_nothing_else(calls):
    _calls.remove_old(str(calls))
    assert sorted(os.listdir(calls)) == [NEW, WAITS, OTHER, LINKED, NAMED]
    assert len(os.listdir(calls / LINKED)) == 2


def test_nothing_is_removed_where_others_can_write(calls):
    os.chmod(calls, 0o777)
    _calls.remove_old(str(calls))
    assert (calls / OLD).exists()
    _calls.remove_old(str(calls / "missing"))


def test_a_call_that_cannot_be_written_leaves_no_folder(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_runner, "write_file", fail)
    with pytest.raises(OSError, match="No space"):
        _calls.CallFolder.create(str(tmp_path / "calls"), functions.add, [((1,), {})])
    assert os.listdir(tmp_path / "calls") == []


# Other machines.


def token_of(home):
    return run("token", "create", "--label", "test").strip()


def test_a_token_line_reaches_the_daemon_over_tls(home, tmp_path):
    line = token_of(home)
    with divvy.Client(line, folder=tmp_path / "calls") as remote:
        job = remote.submit("echo $SECRET $LANG; pwd", chdir="/", gpus=1)
        job.wait(60)
        assert job.logs().split()[-1] == "/"
        assert remote.submit(functions.add, 1, 2, env={"PYTHONPATH": os.path.dirname(__file__)}).result(60) == 3
        with divvy.Executor(client=remote) as executor:
            assert executor.submit(functions.add, 4).result(60) == 4
        with pytest.raises(divvy.InvalidRequest, match="both machines"):
            divvy.Client(line).submit(functions.add, 1)
    secret = TokenLine.parse(line).bearer.partition(".")[2]
    assert secret not in repr(remote) + repr(remote.address)


def test_a_token_is_read_from_a_private_file_only(home, tmp_path, monkeypatch):
    path = tmp_path / "token"
    path.write_text(token_of(home))
    os.chmod(path, 0o644)
    with pytest.raises(divvy.PermissionDenied, match="chmod 600"):
        divvy.Client(path)
    os.chmod(path, 0o600)
    monkeypatch.setenv("DIVVY_CONTROLLER", str(path))
    with divvy.Client() as remote:
        assert remote.address.is_remote and remote.status()["pid"] > 0


def test_an_invalid_token_is_refused_with_the_servers_message(home):
    line = token_of(home)
    head, secret, rest = line.split("#")[0], "0" * 64, line.rsplit(".", 1)[1]
    with pytest.raises(divvy.PermissionDenied) as refusal:
        divvy.Client(f"{head}#{line.split('#')[1][:8]}.{secret}.{rest}").status()
    assert "token" in refusal.value.message


def test_an_impostor_gets_no_secret(home, tmp_path):
    """A server with another certificate, which counts the bytes that it gets after the handshake."""
    key = tmp_path / "key.pem"
    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", key, "-subj", "/CN=x"],
        stderr=subprocess.DEVNULL,
        check=False,
    )
    if made.returncode != 0:
        pytest.skip("needs openssl")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(key)
    got = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            connection, _ = listener.accept()
            with context.wrap_socket(connection, server_side=True) as tls:
                try:
                    got.append(tls.recv(4096))
                except OSError:
                    got.append(b"")

        thread = threading.Thread(target=serve)
        thread.start()
        line = TokenLine.parse(token_of(home))._replace(host="127.0.0.1", port=listener.getsockname()[1])
        client = divvy.Client(_text(line))
        with pytest.raises(divvy.PermissionDenied, match="fingerprint"):
            client.status()
        thread.join()
    assert got == [b""]


def _text(line):
    return f"{line.host}:{line.port}#{line.bearer}.{line.fingerprint}"


@pytest.mark.parametrize("text", ["gpu1:7433#", "gpu1:7433#12.34.56", "gpu1#" + "a" * 8 + ".b.c", "x:99999#" + "a" * 8])
def test_a_damaged_token_line_is_refused(text):
    with pytest.raises(divvy.InvalidRequest):
        divvy.Client(text)


SECRET = "b" * 64
REST = f"4f1c22aa.{SECRET}.{'0' * 64}"


def test_a_token_line_names_several_controllers():
    line = TokenLine.parse(f"gpu1:7433,10.0.0.7:7434,[fd00::7]:7435#{REST}")
    assert line.addresses() == [("gpu1", 7433), ("10.0.0.7", 7434), ("fd00::7", 7435)]
    assert repr(line) == "TokenLine(gpu1:7433,10.0.0.7:7434,[fd00::7]:7435#4f1c22aa...)"
    assert str(Address(token=TokenLine.parse(f"[fd00::7]:7435#{REST}"))) == "[fd00::7]:7435"
    for bad in ("gpu1:7433,", "gpu1:7433,gpu2", "gpu1:7433, gpu2:7433", "fd00::7:7433", "[fd00::7:7433", "a@b:1", ":7433"):
        with pytest.raises(divvy.InvalidRequest):
            TokenLine.parse(f"{bad}#{REST}")


def test_a_token_in_the_wrong_place_is_not_shown(tmp_path, monkeypatch):
    with pytest.raises(divvy.NotFound, match="/nowhere is neither"):
        divvy.Client("/nowhere")
    long = f"{SECRET}{SECRET}.{SECRET}{SECRET}"  # Longer than the name of a file may be.
    with pytest.raises(divvy.InvalidRequest) as refusal:
        TokenLine.parse(f"{REST}#{REST}")
    assert "bbbb" not in str(refusal.value)
    for value in (SECRET, REST, f"{tmp_path}/{REST}", long):
        monkeypatch.setenv("DIVVY_CONTROLLER", value)
        for arguments in ((value,), ()):
            with pytest.raises(divvy.DivvyError, match="may be a token") as refusal:
                divvy.Client(*arguments)
            assert "bbbb" not in str(refusal.value)


class Controllers:
    """Servers with one certificate. `leader` is the index of the one that leads; None if none does."""

    def __init__(self, folder, count):
        key = folder / "key.pem"
        made = subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", key, "-subj", "/CN=x"],
            stderr=subprocess.DEVNULL,
            check=False,
        )
        if made.returncode != 0:
            pytest.skip("needs openssl")
        certificate = ssl.PEM_cert_to_DER_cert(key.read_text()[key.read_text().index("-----BEGIN CERT") :])
        self.fingerprint = hashlib.sha256(certificate).hexdigest()
        self.leader = 0
        self.asked = []  # (index, method, path, whether it had the token)
        self.servers = [self._serve(key, index) for index in range(count)]

    def _serve(self, key, index):
        controllers = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                controllers.asked.append((index, self.command, self.path, "Authorization" in self.headers))
                leads = controllers.leader == index
                if self.path == "/leader":
                    body = json.dumps({"leads": leads, "address": ""}).encode()
                else:
                    body = json.dumps({"of": index} if leads else {"message": "this controller does not lead"}).encode()
                self.send_response(200 if leads else 307 if self.path == "/v1/jobs/hold" else 503)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    def line(self):
        ports = ",".join(f"127.0.0.1:{server.server_port}" for server in self.servers)
        return f"{ports}#4f1c22aa.{SECRET}.{self.fingerprint}"


@pytest.fixture()
def controllers(tmp_path):
    some = Controllers(tmp_path, 3)
    yield some
    for server in some.servers:
        server.shutdown()
        server.server_close()


def test_requests_go_to_the_controller_that_leads(controllers):
    controllers.leader = 1
    with divvy.Client(controllers.line()) as client:
        assert client.request("GET", "/v1/status") == {"of": 1}
        assert client.request("POST", "/v1/jobs", {}) == {"of": 1}
        assert [one[:3] for one in controllers.asked] == [
            (0, "GET", "/leader"), (1, "GET", "/leader"), (1, "GET", "/v1/status"), (1, "POST", "/v1/jobs")
        ]  # fmt: skip
        # Another one leads now. The client learns it from the refusal of the connection that it kept.
        controllers.leader, controllers.asked[:] = 2, []
        assert client.request("POST", "/v1/jobs", {}) == {"of": 2}
        assert controllers.asked[0][:3] == (1, "POST", "/v1/jobs")
        controllers.leader = 0
        assert client.request("POST", "/v1/jobs/hold", {}) == {"of": 0}
        assert list(client._connections.lines("/v1/events")) == ['{"of": 0}']


def test_the_search_for_a_leader_ends(controllers, monkeypatch):
    monkeypatch.setattr(_connection, "_SEARCH_S", 0.3)
    controllers.leader = None
    with divvy.Client(controllers.line()) as client:
        with pytest.raises(divvy.Unreachable, match="no controller leads"):
            client.status()
        controllers.servers[0].socket.close()
        controllers.leader = 1
        assert client.request("GET", "/v1/status") == {"of": 1}


def test_no_controller_with_another_certificate_gets_the_token(controllers):
    line = TokenLine.parse(controllers.line())._replace(fingerprint="0" * 64)
    addresses = ",".join(f"{host}:{port}" for host, port in line.addresses())
    with pytest.raises(divvy.PermissionDenied, match="fingerprint"):
        divvy.Client(f"{addresses}#{line.bearer}.{line.fingerprint}").status()
    assert controllers.asked == []


def test_no_daemon_is_a_clear_error(tmp_path, monkeypatch):
    monkeypatch.setenv("DIVVY_HOME", str(tmp_path))
    with pytest.raises(divvy.Unreachable, match="divvy up"):
        divvy.Client().status()
    assert divvy.Client().address == Address(socket=f"{tmp_path}/divvy.sock")


def test_messages_of_the_server_have_no_control_characters():
    assert str(divvy.DivvyError("a\x1b[31mb\nc")) == "a\\x1b[31mb\nc"
