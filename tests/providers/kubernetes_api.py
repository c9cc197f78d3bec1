#!/usr/bin/env python3
"""A stand-in for a Kubernetes cluster, for tests: an API server for pods and secrets of one namespace, and a kubelet
that runs the first container of each pod as a process of this machine.

kubernetes_api.py STATE CERTIFICATE KEY NAMESPACE TOKEN

STATE/clients.crt is the certificate of a client that is accepted. The program writes its port to STATE/port. STATE/pods
and STATE/secrets hold the objects, for the test to read. STATE/logs has the output of each pod. STATE/calls gets
"VERB RESOURCE" for each call. The test controls the rest by files:

  STATE/faults    JSON: how often each fault occurs from now on. "429" and "500": the call is refused. "lost": it is
                  carried out, but answered with 500. "410": the next page of a list has expired.
  STATE/page      the most objects in one answer
  STATE/full      while it exists, no pod gets a node
  STATE/no_gc     while it exists, secrets stay when their pods go; garbage collection takes its time

The only priority class is "low".
"""
import base64
import json
import os
import re
import secrets
import ssl
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from kubelet import Container, secrets_of

STATE, CERTIFICATE, KEY, NAMESPACE, TOKEN = sys.argv[1:]
LOCK = threading.RLock()
OBJECTS = {"pods": {}, "secrets": {}}
KINDS = {"pods": "Pod", "secrets": "Secret"}
# Those that divvy and the tests use: "PodSpec v1 core" in the API reference.
POD_FIELDS = {"activeDeadlineSeconds", "automountServiceAccountToken", "containers", "enableServiceLinks", "nodeSelector",
              "priorityClassName", "restartPolicy", "schedulerName", "securityContext", "serviceAccountName",
              "terminationGracePeriodSeconds", "tolerations", "volumes"}
PROCESSES = {}  # Of pods, by uid.


def now():
    # Times are RFC 3339 in UTC: API conventions, "Primitive types" and metav1.Time.
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class Refusal(Exception):
    """An error as kind Status: API conventions, "Response Status Kind"; reasons: apimachinery, metav1.StatusReason."""

    def __init__(self, code, reason, message, retry_after=None):
        super().__init__(message)
        self.code = code
        self.retry_after = retry_after
        self.body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
                     "reason": reason, "code": code}


def store(resource, item):
    folder = os.path.join(STATE, resource)
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, item["metadata"]["name"] + ".json")
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(item, file)
    os.rename(path + ".new", path)


def fault(name):
    """Whether this fault occurs now."""
    with LOCK:
        path = os.path.join(STATE, "faults")
        if not os.path.exists(path):
            return False
        with open(path, encoding="utf-8") as file:
            faults = json.load(file)
        if faults.get(name, 0) <= 0:
            return False
        faults[name] -= 1
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(faults, file)
        os.rename(path + ".new", path)
        return True


def remove(resource, name):
    """Removes an object and its dependents: "Garbage Collection" in the Kubernetes documentation, by the uid of
    ownerReferences."""
    with LOCK:
        is_collecting = not os.path.exists(os.path.join(STATE, "no_gc"))
        item = OBJECTS[resource].pop(name)
        os.unlink(os.path.join(STATE, resource, name + ".json"))
        uid = item["metadata"]["uid"]
        if not is_collecting:
            return
        for other, known in list(OBJECTS["secrets"].items()):
            if any(owner["uid"] == uid for owner in known["metadata"].get("ownerReferences", [])):
                remove("secrets", other)


# --- The kubelet

def set_status(name, uid, **status):
    with LOCK:
        pod = OBJECTS["pods"].get(name)
        if pod is not None and pod["metadata"]["uid"] == uid:
            pod["status"].update(status)
            store("pods", pod)


def run_pod(name, uid):
    """The life of a pod: "Pod Lifecycle" in the Kubernetes documentation."""
    def current():
        with LOCK:
            pod = OBJECTS["pods"].get(name)
            is_wanted = pod and pod["metadata"]["uid"] == uid and "deletionTimestamp" not in pod["metadata"]
            return json.loads(json.dumps(pod)) if is_wanted else None

    home = os.path.join(STATE, "running", uid)  # Short: paths of sockets have at most 107 bytes.
    while pod := current():
        if not os.path.exists(os.path.join(STATE, "full")):
            break
        time.sleep(0.02)
    with LOCK:
        if not current():
            return
        # The binding sets spec.nodeName; the phase stays Pending until the containers run.
        OBJECTS["pods"][name]["spec"]["nodeName"] = "worker-1"
        store("pods", OBJECTS["pods"][name])
    # A container starts when its volumes are mounted: until a secret exists, the kubelet tries again.
    while current() and not all(secret in OBJECTS["secrets"] for secret in secrets_of(pod)):
        time.sleep(0.02)
    with LOCK:
        if not current():
            return
        data = {secret: OBJECTS["secrets"].get(secret, {}).get("data", {}) for secret in secrets_of(pod)}
        container = Container(pod, data, home, os.path.join(STATE, "logs", name))
        PROCESSES[uid] = container.process
        set_status(name, uid, phase="Running")
    code = container.process.wait()
    container.clean_up()
    set_status(name, uid, phase="Succeeded" if code == 0 else "Failed")


def end_pod(name, uid, grace):
    """SIGTERM, then SIGKILL after the grace period, then the object goes: "Pod Lifecycle", "Termination of Pods"."""
    with LOCK:
        process = PROCESSES.pop(uid, None)
    if process is not None and process.poll() is None:
        process.terminate()
        try:
            process.wait(grace)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if process is not None:  # run_pod removes its folder.
        while os.path.exists(os.path.join(STATE, "running", uid)):
            time.sleep(0.02)
    with LOCK:
        if name in OBJECTS["pods"] and OBJECTS["pods"][name]["metadata"]["uid"] == uid:
            remove("pods", name)


# --- The API server

def check_new(resource, item, is_strict):
    metadata = item.get("metadata", {})
    # Names are DNS subdomains: "Object Names and IDs".
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", metadata.get("name", "")):
        raise Refusal(422, "Invalid", "metadata.name is invalid")
    # Label values: "Labels and Selectors", "Syntax and character set".
    for value in metadata.get("labels", {}).values():
        if not re.fullmatch(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?", value):
            raise Refusal(422, "Invalid", "a label is invalid")
    if resource != "pods":
        return
    # Strict validation, and the admission plug-in Priority: as kube-apiserver 1.34 answers.
    for field in item["spec"]:
        if is_strict and field not in POD_FIELDS:
            raise Refusal(400, "BadRequest", 'Pod in version "v1" cannot be handled as a Pod: strict decoding error: '
                                             f'unknown field "spec.{field}"')
    if item["spec"].get("priorityClassName", "low") != "low":
        raise Refusal(403, "Forbidden", f'pods "{metadata["name"]}" is forbidden: no PriorityClass with name '
                                        f'{item["spec"]["priorityClassName"]} was found')
    for container in item["spec"]["containers"]:
        if not container.get("image"):
            raise Refusal(422, "Invalid", "spec.containers.image: Required value")
        for name, value in container.get("resources", {}).get("limits", {}).items():
            # Quantities are text or numbers: "Quantity" in the API reference.
            if not re.fullmatch(r"\d+(\.\d+)?(m|[KMGT]i?)?", str(value)):
                raise Refusal(422, "Invalid", f"spec.containers.resources.limits.{name} is invalid")


def create(resource, item, is_strict):
    with LOCK:
        check_new(resource, item, is_strict)
        metadata = item["metadata"]
        if metadata["name"] in OBJECTS[resource]:
            # 409, reason AlreadyExists: apimachinery, api/errors, NewAlreadyExists.
            raise Refusal(409, "AlreadyExists", f'{resource} "{metadata["name"]}" already exists')
        metadata.update(uid=secrets.token_hex(8), namespace=NAMESPACE, creationTimestamp=now(), resourceVersion="1")
        if resource == "pods":
            item["status"] = {"phase": "Pending"}
        # stringData is for writing only: "Secret v1 core" in the API reference.
        for key, value in item.pop("stringData", {}).items():
            item.setdefault("data", {})[key] = base64.b64encode(value.encode()).decode()
        OBJECTS[resource][metadata["name"]] = item
        store(resource, item)
        if resource == "pods":
            threading.Thread(target=run_pod, args=(metadata["name"], metadata["uid"]), daemon=True).start()
        return item


def find(resource, name):
    item = OBJECTS[resource].get(name)
    if item is None:
        raise Refusal(404, "NotFound", f'{resource} "{name}" not found')
    return item


def items_after(resource, query):
    """Pages by limit and continue: API concepts, "Retrieving large results sets in chunks". The server may return fewer
    than the limit. An expired token is answered with 410 and the reason Expired."""
    selector = [part.split("=", 1) for part in query.get("labelSelector", [""])[0].split(",") if part]
    after = query.get("continue", [""])[0]
    if after and fault("410"):
        raise Refusal(410, "Expired", "The provided continue parameter is too old to display a consistent list result.")
    most = int(query.get("limit", ["0"])[0]) or 10_000
    page = os.path.join(STATE, "page")
    if os.path.exists(page):
        most = min(most, int(open(page, encoding="utf-8").read()))
    with LOCK:
        names = sorted(name for name, item in OBJECTS[resource].items() if name > after and
                       all(item["metadata"].get("labels", {}).get(key) == value for key, value in selector))
        chosen = [OBJECTS[resource][name] for name in names[:most]]
        metadata = {"resourceVersion": "1"}
        if len(names) > most:
            metadata.update({"continue": names[most - 1], "remainingItemCount": len(names) - most})
        return {"kind": KINDS[resource] + "List", "apiVersion": "v1", "metadata": metadata, "items": chosen}


def delete(resource, name, options):
    with LOCK:
        item = find(resource, name)
        # 409, reason Conflict, if a precondition fails: apiserver, registry/generic/registry, Store.Delete.
        wanted = options.get("preconditions", {}).get("uid")
        if wanted and wanted != item["metadata"]["uid"]:
            raise Refusal(409, "Conflict", f'the UID in the precondition ({wanted}) does not match the UID in record')
        if resource != "pods":
            remove(resource, name)
            return {"kind": "Status", "apiVersion": "v1", "status": "Success"}
        if "deletionTimestamp" not in item["metadata"]:
            grace = options.get("gracePeriodSeconds", item["spec"].get("terminationGracePeriodSeconds", 30))
            item["metadata"].update(deletionTimestamp=now(), deletionGracePeriodSeconds=grace)
            store("pods", item)
            threading.Thread(target=end_pod, args=(name, item["metadata"]["uid"], grace), daemon=True).start()
        return item


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def carry_out(self):
        url = urlsplit(self.path)
        size = int(self.headers.get("Content-Length", 0))
        body = json.loads(self.rfile.read(size)) if size else {}
        # A client certificate or a bearer token; otherwise 401: "Authenticating", "Anonymous requests".
        is_known = self.connection.getpeercert() or self.headers.get("Authorization") == "Bearer " + TOKEN
        if not is_known:
            raise Refusal(401, "Unauthorized", "Unauthorized")
        parts = url.path.strip("/").split("/")
        if parts[:3] != ["api", "v1", "namespaces"] or len(parts) not in (5, 6) or parts[4] not in OBJECTS:
            raise Refusal(404, "NotFound", "the server could not find the requested resource")
        resource, name = parts[4], parts[5] if len(parts) == 6 else ""
        # Verbs of a request: "Authorization", "Determine the request verb".
        verb = {"POST": "create", "GET": "get" if name else "list", "DELETE": "delete"}[self.command]
        with LOCK, open(os.path.join(STATE, "calls"), "a", encoding="utf-8") as calls:
            calls.write(f"{verb} {resource}\n")
        if parts[3] != NAMESPACE:
            raise Refusal(403, "Forbidden", f'{resource} is forbidden: User "divvy" cannot {verb} resource "{resource}" '
                                            f'in API group "" in the namespace "{parts[3]}"')
        # 429 with Retry-After: "API Priority and Fairness"; apiserver, util/flowcontrol.
        if fault("429"):
            raise Refusal(429, "TooManyRequests", "Too many requests, please try again later.", retry_after=1)
        if fault("500"):
            raise Refusal(500, "InternalError", "Internal error occurred: etcdserver: request timed out")
        if verb == "create":
            answer = create(resource, body, parse_qs(url.query).get("fieldValidation") == ["Strict"])
        elif verb == "list":
            answer = items_after(resource, parse_qs(url.query))
        elif verb == "get":
            answer = find(resource, name)
        else:
            answer = delete(resource, name, body)
        if verb != "list" and fault("lost"):
            raise Refusal(500, "InternalError", "Internal error occurred: the answer was lost")
        return 201 if verb == "create" else 200, answer

    def answer(self):
        retry_after = None
        try:
            code, body = self.carry_out()
        except Refusal as refusal:
            code, body, retry_after = refusal.code, refusal.body, refusal.retry_after
        with LOCK:
            text = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        if retry_after is not None:
            self.send_header("Retry-After", str(retry_after))
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_DELETE = answer

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def finish_request(self, request, client_address):
        # In the thread of the connection, so that a peer that sends nothing delays no other.
        try:
            secured = self.context.wrap_socket(request, server_side=True)
        except (ssl.SSLError, OSError):
            return
        with secured:
            super().finish_request(secured, client_address)

    def handle_error(self, request, client_address):
        pass


def main():
    os.makedirs(os.path.join(STATE, "logs"), exist_ok=True)
    server = Server(("127.0.0.1", 0), Handler)
    server.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.context.load_cert_chain(CERTIFICATE, KEY)
    server.context.load_verify_locations(os.path.join(STATE, "clients.crt"))
    server.context.verify_mode = ssl.CERT_OPTIONAL
    with open(os.path.join(STATE, "port.new"), "w", encoding="utf-8") as file:
        file.write(str(server.server_port))
    os.rename(os.path.join(STATE, "port.new"), os.path.join(STATE, "port"))
    server.serve_forever()


main()
