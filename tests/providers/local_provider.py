#!/usr/bin/env python3
"""A provider of nodes for tests: each node is an agent on this machine, with emulated GPUs.

local_provider.py STATE create|list|destroy

STATE/faults, if it exists, is the chance in percent of each fault: the call fails before or after it took effect, hangs,
prints garbage, fails and takes effect some seconds later, or is slow. STATE/calls gets a line when a call of create or
destroy begins. STATE/log gets a line for each node that is created, with the number of nodes there are then.
"""
import fcntl
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time


def processes_of(home):
    """The processes with this folder in their environment."""
    wanted = ("DIVVY_HOME=" + home).encode()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if wanted in file.read().split(b"\0"):
                    yield int(pid)
        except OSError:
            pass


class Provider:
    def __init__(self, state, order):
        self.state = state
        self.order = order
        self.nodes = os.path.join(state, "nodes")
        os.makedirs(self.nodes, exist_ok=True)

    def all(self):
        nodes = []
        for instance in sorted(os.listdir(self.nodes)):
            try:
                with open(os.path.join(self.nodes, instance, "order"), encoding="utf-8") as file:
                    nodes.append((instance, json.load(file)))
            except FileNotFoundError:  # It is being removed.
                pass
        return nodes

    def create(self):
        order = self.order
        for instance, known in self.all():
            if known["token"] == order["token"]:
                return {"instance": instance}
        count = int(open(os.path.join(self.state, "count"), encoding="utf-8").read() or 0) + 1
        with open(os.path.join(self.state, "count"), "w", encoding="utf-8") as file:
            file.write(str(count))
        instance = f"i-{count}"
        home = os.path.join(self.nodes, instance)
        os.makedirs(home, mode=0o700)
        join = os.path.join(home, "join")
        with open(os.open(join, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as file:
            file.write(order["join"])
        kept = {"token": order["token"], "cluster": order["cluster"], "name": order["name"]}
        with open(os.path.join(home, "order"), "w", encoding="utf-8") as file:
            json.dump(kept, file)
        shape = order["shape"]
        words = [os.environ["DIVVY"], "agent", "--join-file", join, "--name", order["name"],
                 "--emulate", f"{shape['gpus']}x{shape['gpu_model']}"]
        with open(os.path.join(home, "agent.out"), "w", encoding="utf-8") as out:
            subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
                             env={"PATH": os.environ["PATH"], "DIVVY_HOME": home})
        with open(os.path.join(self.state, "log"), "a", encoding="utf-8") as log:
            log.write(f"{order['token']} {instance} {order['name']} {len(self.all())}\n")
        return {"instance": instance}

    def list(self):
        return {"nodes": [{"cluster": known["cluster"], "token": known["token"], "instance": instance}
                          for instance, known in self.all() if known["cluster"] == self.order["cluster"]]}

    def destroy(self):
        for instance, known in self.all():
            wanted = self.order.get("instance") or instance
            if instance != wanted or known["token"] != self.order["token"]:
                continue
            home = os.path.join(self.nodes, instance)
            end = time.monotonic() + 10
            while (left := list(processes_of(home))) and time.monotonic() < end:
                for pid in left:
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
            shutil.rmtree(home, ignore_errors=True)
        return {}


def main():
    state, verb = sys.argv[1:]
    provider = Provider(state, json.load(sys.stdin))
    if verb != "list":
        with open(os.path.join(state, "calls"), "a", encoding="utf-8") as calls:
            calls.write(f"{verb} {provider.order['token']}\n")
    chance = 0
    faults = os.path.join(state, "faults")
    if os.path.exists(faults):
        with open(faults, encoding="utf-8") as file:
            chance = int(file.read())
    draw = random.randrange(600)
    fault = draw % 6 if draw < 6 * chance else None
    if fault == 0:
        sys.exit("fails before anything is done")
    if fault == 4:
        if os.fork() != 0:
            os._exit(1)
        os.setsid()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(nowhere, stream)
    if fault in (4, 5):
        time.sleep(random.uniform(0, 4))
    with open(os.path.join(state, "lock"), "a", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with open(os.path.join(state, "count"), "a", encoding="utf-8"):
            pass
        answer = getattr(provider, verb)()
    if fault == 1:
        sys.exit("fails after it was done")
    if fault == 2:
        while True:
            signal.pause()
    print("garbage {" if fault == 3 else json.dumps(answer))


if __name__ == "__main__":
    main()
