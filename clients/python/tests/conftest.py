"""Starts a private daemon with emulated GPUs for the tests: DIVVY=build/divvy python3 -m pytest clients/python"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Iterator

import pytest

PACKAGE = Path(__file__).resolve().parents[1]
BINARY = os.environ.get("DIVVY") or str(PACKAGE.parents[1] / "build" / "divvy")
sys.path.insert(0, str(PACKAGE))

import divvy  # noqa: E402


def run(*words: str) -> str:
    return subprocess.run([BINARY, *words], check=True, stdout=subprocess.PIPE, text=True).stdout


def up() -> None:
    """Starts the daemon, which listens on a free port for tests with tokens."""
    for _ in range(5):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        words = [BINARY, "up", "--quiet", "--emulate", "8xH100-80GB", "--listen", f"127.0.0.1:{port}"]
        started = subprocess.run(words, stderr=subprocess.PIPE, text=True, check=False)
        if started.returncode == 0:
            return
        assert "Address already in use" in started.stderr, started.stderr
    raise AssertionError("found no free port")


@pytest.fixture(scope="session", autouse=True)
def home() -> Iterator[Path]:
    """The folder of the daemon. Functions of the tests are found by jobs through PYTHONPATH."""
    if not os.access(BINARY, os.X_OK):
        pytest.exit(f"there is no program {BINARY}; build divvy, or set DIVVY to its path", 2)
    folder = Path(tempfile.mkdtemp(prefix="divvy-python-"))
    for name in ("DIVVY_JOB_ID", "DIVVY_CONTROLLER", "SLURM_JOB_ID", "DIVVY_STEPS"):
        os.environ.pop(name, None)
    os.environ["DIVVY_HOME"] = str(folder)
    os.environ["XDG_DATA_HOME"] = str(folder / "data")
    up()
    yield folder
    subprocess.run([BINARY, "cancel", "--all", "--grace", "0"], stdout=subprocess.DEVNULL, check=False)
    wait_until(lambda: run("queue", "--json").strip() == "[]")
    subprocess.run([BINARY, "down"], stdout=subprocess.DEVNULL, check=False)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture()
def client(home: Path) -> Iterator["divvy.Client"]:
    with divvy.Client() as one:
        yield one


@pytest.fixture()
def full(client: "divvy.Client") -> Iterator["divvy.Job[None]"]:
    """A job that holds all GPUs, so that others wait."""
    job = client.submit("sleep 1000", gpus=8, name="full")
    wait_until(lambda: job.state == "running")
    yield job
    job.cancel(grace=0)
    job.wait(60)


def wait_until(holds, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)
