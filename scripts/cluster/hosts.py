"""Hosts in network namespaces on one bridge, each with its own folder and its own divvy."""
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from lines import Line, Lines  # noqa: E402

DIVVY = os.environ.get("DIVVY", "divvy")


def run(*words, check=True, **more):
    done = subprocess.run(words, capture_output=True, text=True, **more)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, words))}: {done.stderr or done.stdout}")
    return done


class Host:
    def __init__(self, lab, name, number):
        self.lab, self.name = lab, name
        self.line = None
        self.space = f"dv{os.getpid() % 10000}{name}"
        self.wire = f"v{os.getpid() % 10000}{number}"
        self.address = f"10.213.{number // 250}.{number % 250 + 1}"
        self.folder = os.path.join(lab.folder, name)
        os.makedirs(self.folder)
        run("ip", "netns", "add", self.space)
        self.at("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", self.wire, "type", "veth", "peer", "name", "eth0", "netns", self.space)
        run("ip", "link", "set", self.wire, "master", lab.bridge, "up")
        self.at("ip", "addr", "add", f"{self.address}/16", "dev", "eth0")
        self.at("ip", "link", "set", "eth0", "up")

    def words(self, *words):
        """Uses a separate host name: MPI names its shared files after it, and two hosts must not share them."""
        return ["ip", "netns", "exec", self.space, "unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', self.name,
                "env", "-u", "SLURM_JOB_ID", f"DIVVY_HOME={self.folder}", *words]

    def at(self, *words, **more):
        return run(*self.words(*words), **more)

    def divvy(self, *words, **more):
        more.setdefault("cwd", self.folder)
        return self.at(DIVVY, *words, **more)

    # --- Faults ----------------------------------------------------------------------------------------------------
    def cut(self):
        run("ip", "link", "set", self.wire, "down")

    def join(self):
        run("ip", "link", "set", self.wire, "up")

    def lose(self, percent):
        """Drops this percentage of all incoming packets; 0: none."""
        self.at("iptables", "-F", "INPUT", check=False)
        if percent:
            self.at("iptables", "-A", "INPUT", "-m", "statistic", "--mode", "random", "--probability",
                    str(percent / 100), "-j", "DROP")

    def slow(self, delay_ms):
        """Delays frames in both directions by a random time with this mean; 0: no delay. Requires Lab.lengthen()."""
        if self.line is not None:
            self.line.delay_ms = delay_ms

    # --- The agent -------------------------------------------------------------------------------------------------
    def agent_pid(self):
        try:
            with open(os.path.join(self.folder, "agent/agent.lock")) as lock:
                return int(lock.read())
        except (OSError, ValueError):
            return 0

    def start_agent(self, *words):
        self.divvy("agent", *words, "--detach", "--quiet")

    def kill_agent(self):
        pid = self.agent_pid()
        if pid:
            kill(pid)

    def log_of(self, job):
        try:
            with open(os.path.join(self.folder, f"agent/logs/{job}.log")) as log:
                return log.read()
        except OSError:
            return ""

    def remove(self):
        run("ip", "netns", "del", self.space, check=False)
        run("ip", "link", "del", self.wire, check=False)


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    wait_for(f"the end of {pid}", lambda: not is_alive(pid))


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def name_of(pid):
    """Returns the name of the program; empty if it has ended."""
    try:
        with open(f"/proc/{pid}/comm") as comm:
            return comm.read()
    except OSError:
        return ""


class Waited(Exception):
    pass


def wait_for(what, holds, seconds=60):
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise Waited(f"waited {seconds} s in vain for {what}")
        time.sleep(0.02)


class Wire(threading.Thread):
    """A TCP proxy in the controller's namespace that delays the traffic between agents and the controller."""

    def __init__(self, listen, target, delay_ms, seed):
        super().__init__(daemon=True)
        self.draw = random.Random(seed)
        self.delay_ms = delay_ms
        self.target = target
        self.socket = socket.create_server(listen, backlog=128)

    def run(self):
        while True:
            try:
                near, _ = self.socket.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(self.target, 5)
            except OSError:
                near.close()
                continue
            for a, b in ((near, far), (far, near)):
                threading.Thread(target=self.carry, args=(a, b), daemon=True).start()

    def carry(self, a, b):
        try:
            while data := a.recv(65536):
                time.sleep(self.draw.uniform(0, 2 * self.delay_ms) / 1000)
                b.sendall(data)
        except OSError:
            pass
        for one in (a, b):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class Lab:
    def __init__(self, agents, gpus, keep=False):
        self.keep = keep
        self.folder = tempfile.mkdtemp(prefix="divvy-cluster-")
        os.chmod(self.folder, 0o755)
        self.bridge = f"dvbr{os.getpid() % 10000}"
        run("ip", "link", "add", self.bridge, "type", "bridge")
        run("ip", "link", "set", self.bridge, "up")
        self.controller = Host(self, "head", 0)
        self.agents = {}
        for number in range(1, agents + 1):
            self.agents[f"n{number}"] = Host(self, f"n{number}", number)
        self.gpus = gpus
        self.lines = None

    def up(self):
        self.controller.divvy("up", "--quiet", "--emulate", "1xL4-24GB", "--listen",
                              f"{self.controller.address}:7447")

    def join_all(self, **labels):
        token = self.controller.divvy("token", "create", "--node", "--uses", str(len(self.agents))).stdout
        path = os.path.join(self.folder, "token")
        with open(path, "w") as file:
            file.write(token)
        for number, (name, host) in enumerate(self.agents.items()):
            host.start_agent("--join-file", path, "--name", name, "--emulate", f"{self.gpus}xA100-40GB",
                             "--label", f"rack=r{number // 4}")

    def daemon_pid(self):
        try:
            with open(os.path.join(self.controller.folder, "daemon.lock")) as lock:
                return int(lock.read())
        except (OSError, ValueError):
            return 0

    def nodes(self):
        rows = self.controller.divvy("nodes", "--csv").stdout.splitlines()[1:]
        return {row.split(",")[0]: row.split(",")[1] for row in rows}

    def lengthen(self, seed):
        """Puts a delay line between each agent's host and the bridge (lines.py). Returns False without tun devices."""
        if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
            return False
        self.lines = Lines(seed)
        for number, host in enumerate(self.agents.values()):
            host.line = Line(f"{os.getpid() % 10000}{number}", self.bridge, host.wire)
            self.lines.lines.append(host.line)
        self.lines.start()
        return True

    def all_up(self):
        states = self.nodes()
        return all(states.get(name) == "up" for name in self.agents)

    def close(self):
        self.controller.divvy("cancel", "--all", "--grace", "0", check=False)
        try:
            wait_for("the queue's end", lambda: self.controller.divvy("queue", "--json", check=False).stdout.strip()
                     in ("[]", ""), 20)
        except Waited:
            pass
        self.controller.divvy("down", check=False)
        for host in self.agents.values():
            host.kill_agent()
            end_runs(host)
        if self.lines is not None:
            self.lines.close()
        for host in [self.controller, *self.agents.values()]:
            host.remove()
        run("ip", "link", "del", self.bridge, check=False)
        if not self.keep:
            shutil.rmtree(self.folder, ignore_errors=True)


def end_runs(host):
    """Kills processes of jobs that are left in the host's namespace. All of them belong to this test."""
    for pid in run("ip", "netns", "pids", host.space, check=False).stdout.split():
        try:
            os.kill(int(pid), signal.SIGKILL)
        except (ProcessLookupError, ValueError):
            pass


if __name__ == "__main__":  # ADDRESS PORT TARGET-PORT DELAY-MS: runs the proxy in the present namespace.
    address, port, target, delay = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
    proxy = Wire((address, port), (address, target), delay, 1)
    proxy.start()
    proxy.join()
