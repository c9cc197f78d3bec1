"""Pickles are read only where no other user can write, and a server is recognised before anything is sent to it."""

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
from divvy import _calls, _runner
from divvy._connection import Address, TokenLine


def planted(folder, name, mode=0o600):
    """A result that creates the file `unpickled` when it is read."""

    class Attack:
        def __reduce__(self):
            return (open, (str(folder / "unpickled"), "w"))

    (folder / name).write_bytes(pickle.dumps((True, Attack(), "")))
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


def test_old_calls_are_removed(tmp_path):
    os.chmod(tmp_path, 0o700)
    for name, age_days, file in (("old", 31, "result-0.pkl"), ("new", 1, "result-0.pkl"), ("waits", 99, "call.pkl")):
        (tmp_path / name).mkdir()
        (tmp_path / name / file).touch()
        then = os.stat(tmp_path).st_mtime - age_days * 86400
        os.utime(tmp_path / name / file, (then, then))
    _calls.remove_old(str(tmp_path))
    assert sorted(os.listdir(tmp_path)) == ["new", "waits"]


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


def test_no_daemon_is_a_clear_error(tmp_path, monkeypatch):
    monkeypatch.setenv("DIVVY_HOME", str(tmp_path))
    with pytest.raises(divvy.Unreachable, match="divvy up"):
        divvy.Client().status()
    assert divvy.Client().address == Address(socket=f"{tmp_path}/divvy.sock")


def test_messages_of_the_server_have_no_control_characters():
    assert str(divvy.DivvyError("a\x1b[31mb\nc")) == "a\\x1b[31mb\nc"
