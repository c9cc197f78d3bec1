"""JupyterHub with batchspawner's SlurmSpawner: a notebook server as a job, reached through the hub, and its end."""

import importlib.metadata
import json
import os
import pathlib
import secrets
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

TOKEN = secrets.token_hex(16)
proxy = pathlib.Path(os.environ["CLIENTS_ENVIRONMENT"], "node")
if not (proxy / "node_modules").exists():
    subprocess.run(["npm", "install", "--silent", "--prefix", proxy, "configurable-http-proxy@5.3.0"], check=True)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


port, api, hub_port = free_port(), free_port(), free_port()
user = os.environ["USER"]
pathlib.Path("config.py").write_text(f"""
import os
import batchspawner
from traitlets import default


class PrivateSpawner(batchspawner.SlurmSpawner):
    @default("req_homedir")  # Where the script writes its log.
    def _req_homedir_default(self):
        return "{os.getcwd()}"


c.JupyterHub.bind_url = "http://127.0.0.1:{port}"
c.JupyterHub.hub_port = {hub_port}
c.JupyterHub.hub_ip = "127.0.0.1"
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{api}"
c.ConfigurableHTTPProxy.command = ["{proxy}/node_modules/.bin/configurable-http-proxy"]
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allow_all = True
c.JupyterHub.spawner_class = PrivateSpawner
c.SlurmSpawner.exec_prefix = ""
c.SlurmSpawner.req_gres = "gpu:1"
c.SlurmSpawner.req_runtime = "0:30:00"
c.SlurmSpawner.start_timeout = 240
c.Spawner.http_timeout = 240
c.Spawner.args = ["--allow-root"]
c.Spawner.environment = {{name: os.environ[name] for name in ("PATH", "DIVVY_HOME")}}  # The commands and the daemon.
c.JupyterHub.services = [dict(name="test", api_token="{TOKEN}")]
c.JupyterHub.load_roles = [dict(name="test", services=["test"], scopes=["admin:servers", "admin:users", "access:servers"])]
""")


def call(method, path, allowed=()):
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", method=method, headers={"Authorization": f"token {TOKEN}"},
        data=b"" if method == "POST" else None,
    )  # fmt: skip
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        if error.code in allowed:
            return error.code, error.read()
        raise
    except OSError:
        return 0, b""


def wait_for(holds, what, seconds=300):
    end = time.monotonic() + seconds
    while not holds():
        assert hub.poll() is None, "the hub has ended"
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.2)


def squeue(form):
    return subprocess.run(["squeue", "-h", "-o", form], check=True, capture_output=True, text=True).stdout.strip()


with open("hub.log", "w") as log:
    hub = subprocess.Popen([sys.executable, "-m", "jupyterhub", "-f", "config.py"], stdout=log, stderr=log)
try:
    wait_for(lambda: call("GET", "/hub/api/", (502, 503, 404))[0] == 200, "the hub")
    call("POST", f"/hub/api/users/{user}")
    status, _ = call("POST", f"/hub/api/users/{user}/server")
    assert status in (201, 202), status
    wait_for(lambda: json.loads(call("GET", f"/hub/api/users/{user}")[1])["server"], "the notebook server")
    assert squeue("%j %T %b").startswith("spawner-jupyterhub RUNNING"), squeue("%j %T %b")
    status, body = call("GET", f"/user/{user}/api/status")
    assert status == 200 and "kernels" in json.loads(body), body
    call("DELETE", f"/hub/api/users/{user}/server")
    wait_for(lambda: not squeue("%i"), "the end of the job")
except Exception:
    print(pathlib.Path("hub.log").read_text()[-6000:])
    raise
finally:
    hub.terminate()
    try:
        hub.wait(60)
    except subprocess.TimeoutExpired:
        hub.kill()
        hub.wait()
versions = {name: importlib.metadata.version(name) for name in ("batchspawner", "jupyterhub")}
print(f"batchspawner {versions['batchspawner']} with JupyterHub {versions['jupyterhub']}: a notebook server as a job")
