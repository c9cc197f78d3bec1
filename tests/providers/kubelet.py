#!/usr/bin/env python3
"""A stand-in for the scheduler, the kubelet and the garbage collector of Kubernetes, for tests: it runs the first
container of each pod as a process of this machine. kubernetes_api.py uses its functions. Alone, it serves a real API
server, through the socket of "kubectl proxy":

kubelet.py STATE SOCKET NAMESPACE NODE

It serves the pods of the namespace with the scheduler NODE, as worker NODE. STATE/logs has the output of each pod. While
STATE/full exists, no pod gets a node.
"""
import base64
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from urllib.parse import urlencode

from local_provider import processes_of


def secrets_of(pod):
    """The names of the secrets that must exist before the container starts."""
    return [volume["secret"]["secretName"] for volume in pod["spec"].get("volumes", []) if "secret" in volume]


class Container:
    """The process of a pod's first container. `data` has the data of its secrets, by name, as the API shows them."""

    def __init__(self, pod, data, home, log):
        container = pod["spec"]["containers"][0]
        self.home = home
        self.folders = {}
        volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes", [])}
        for mount in container.get("volumeMounts", []):
            folder = os.path.join(home, mount["name"])
            os.makedirs(folder, mode=0o700)
            self.folders[mount["mountPath"]] = folder
            secret = volumes[mount["name"]].get("secret", {}).get("secretName")
            for key, value in data.get(secret, {}).items():
                with open(os.open(os.path.join(folder, key), os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
                    file.write(base64.b64decode(value))
        environment = {"PATH": os.environ["PATH"]}
        environment.update({one["name"]: self.here(one["value"]) for one in container.get("env", [])})
        self.processes_home = environment.get("DIVVY_HOME", home)
        with open(log, "w", encoding="utf-8") as out:
            self.process = subprocess.Popen(
                [self.here(word) for word in container["command"] + container.get("args", [])], stdin=subprocess.DEVNULL,
                stdout=out, stderr=out, cwd=home, env=environment, start_new_session=True)

    def here(self, text):
        """There is no mount namespace, so paths below a mount are replaced."""
        for path, folder in self.folders.items():
            if text == path or text.startswith(path + "/"):
                return folder + text[len(path):]
        return text

    def clean_up(self):
        """After the process has ended. All processes of a container end with its first one, which is process 1 of their
        PID namespace."""
        deadline = time.monotonic() + 10
        while (left := list(processes_of(self.processes_home))) and time.monotonic() < deadline:
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        shutil.rmtree(self.home, ignore_errors=True)


class Api:
    """An API server, through kubectl proxy."""

    def __init__(self, path):
        self.path = path

    def call(self, method, target, body=None, kind="application/json"):
        """The answer, or None for the status 404 or 409: the object is gone, or another one by now."""
        connection = http.client.HTTPConnection("localhost", timeout=30)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(self.path)
        try:
            connection.request(method, target, None if body is None else json.dumps(body), {"Content-Type": kind})
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        if answer.status in (404, 409):
            return None
        if answer.status >= 300:
            raise RuntimeError(f"{method} {target}: {answer.status} {text.decode()}")
        return json.loads(text)


class Kubelet:
    def __init__(self, state, api, namespace, node):
        self.state = state
        self.api = api
        self.folder = f"/api/v1/namespaces/{namespace}/"
        self.node = node
        self.containers = {}  # By the uid of the pod.
        self.kill_at = {}  # The end of the grace period, by the uid of the pod.

    def set_status(self, pod, phase, container_state):
        status = {"phase": phase, "containerStatuses": [
            {"name": pod["spec"]["containers"][0]["name"], "image": pod["spec"]["containers"][0]["image"], "imageID": "",
             "restartCount": 0, "ready": phase == "Running", "state": container_state}]}
        # A precondition: only if the pod is still the one with this uid.
        self.api.call("PATCH", self.folder + f"pods/{pod['metadata']['name']}/status",
                      {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}, "application/merge-patch+json")

    def remove(self, pod):
        """The kubelet removes the object of a pod that is being deleted when its containers have ended."""
        self.api.call("DELETE", self.folder + "pods/" + pod["metadata"]["name"],
                      {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}})

    def serve(self, pod):
        metadata, spec = pod["metadata"], pod["spec"]
        uid = metadata["uid"]
        container = self.containers.get(uid)
        is_deleting = "deletionTimestamp" in metadata
        if container is not None and container.process.poll() is None:
            if is_deleting and uid not in self.kill_at:
                self.kill_at[uid] = time.monotonic() + metadata["deletionGracePeriodSeconds"]
                container.process.terminate()
            elif is_deleting and time.monotonic() > self.kill_at[uid]:
                container.process.kill()
        elif container is not None:
            code = container.process.returncode
            container.clean_up()
            del self.containers[uid]
            self.set_status(pod, "Succeeded" if code == 0 else "Failed",
                            {"terminated": {"exitCode": code if code >= 0 else 128 - code}})
        elif is_deleting:
            self.remove(pod)
        elif not spec.get("nodeName"):
            if not os.path.exists(os.path.join(self.state, "full")):
                self.api.call("POST", self.folder + f"pods/{metadata['name']}/binding",
                              {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": metadata["name"], "uid": uid},
                               "target": {"apiVersion": "v1", "kind": "Node", "name": self.node}})
        elif pod["status"]["phase"] == "Pending":
            # The container starts when its volumes are mounted: until a secret exists, the kubelet tries again.
            found = {name: self.api.call("GET", self.folder + "secrets/" + name) for name in secrets_of(pod)}
            if all(found.values()):
                self.containers[uid] = Container(pod, {name: secret["data"] for name, secret in found.items()},
                                                 os.path.join(self.state, "running", uid),
                                                 os.path.join(self.state, "logs", metadata["name"]))
                self.set_status(pod, "Running", {"running": {}})

    def collect(self, pods):
        """Secrets go with the pods that own them: "Garbage Collection" in the Kubernetes documentation."""
        uids = {pod["metadata"]["uid"] for pod in pods}
        for secret in self.api.call("GET", self.folder + "secrets")["items"]:
            owners = [owner["uid"] for owner in secret["metadata"].get("ownerReferences", []) if owner["kind"] == "Pod"]
            # A pod newer than the list may own the secret.
            if owners and not uids.intersection(owners) and not self.exists(secret["metadata"]["name"], owners):
                self.api.call("DELETE", self.folder + "secrets/" + secret["metadata"]["name"],
                              {"preconditions": {"uid": secret["metadata"]["uid"]}})

    def exists(self, name, uids):
        pod = self.api.call("GET", self.folder + "pods/" + name)
        return pod is not None and pod["metadata"]["uid"] in uids

    def run(self):
        os.makedirs(os.path.join(self.state, "logs"), exist_ok=True)
        chosen = urlencode({"fieldSelector": "spec.schedulerName=" + self.node})
        while True:
            pods = self.api.call("GET", self.folder + "pods?" + chosen)["items"]
            for pod in pods:
                self.serve(pod)
            self.collect(pods)
            time.sleep(0.1)


def main():
    state, path, namespace, node = sys.argv[1:]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    kubelet = Kubelet(state, Api(path), namespace, node)
    try:
        kubelet.run()
    finally:
        for container in kubelet.containers.values():
            container.process.kill()
            container.process.wait()
            container.clean_up()


if __name__ == "__main__":
    main()
