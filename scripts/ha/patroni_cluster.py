"""A PostgreSQL database that Patroni keeps, on machines of its own: two with PostgreSQL, and etcd on three."""
import http.client
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys

from site_parts import NOBODY, ROOT, programs, wait_for

MODULES = [ROOT + "/build/unpacked/usr/lib/python3/dist-packages", "/usr/lib/python3/dist-packages"]
PYTHON = "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else sys.executable  # Debian's modules need it.
INIT = """import os, time
while True:
    try:
        os.wait()
    except ChildProcessError:
        time.sleep(0.05)
"""


def program(name):
    """The path of a program of Debian's packages, installed or unpacked; None without it."""
    return shutil.which(name, path=f"{ROOT}/build/unpacked/usr/bin:/usr/bin")


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def missing():
    """Why there can be no such cluster here; None if it can be."""
    if os.environ.get("DIVVY_HA_SPACE") != "1":
        return "needs root, network namespaces (unshare, nsenter) and ip of iproute2"
    for name, package in (("etcd", "etcd-server"), ("patroni", "patroni")):
        if not program(name):
            return f"needs Debian's package {package}, which could not be downloaded"
    done = subprocess.run([PYTHON, "-c", "import etcd, patroni.dcs.etcd3, psycopg2"], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": ":".join(MODULES)}, check=False)
    return f"Patroni cannot be loaded: {done.stderr.strip().splitlines()[-1]}" if done.returncode else None


class Machine:
    """Has its own network, processes and small file system. Its namespaces end with its first process."""

    def __init__(self, cluster, number):
        self.cluster, self.number, self.name = cluster, number, f"db{number}"
        self.address = f"10.214.0.{number}"
        self.folder = os.path.join(cluster.folder, self.name)
        os.mkdir(self.folder)
        run("mount", "-t", "tmpfs", "-o", f"size=600m,mode=700,uid={NOBODY},gid={NOBODY}", "divvy-test-ha", self.folder)
        self.spawned = []
        self.start()

    def start(self):
        """Switches it on. It starts none of its services."""
        # Its first process ends with this one, even if this one is killed.
        outer = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--uts", "--pid", "--fork",
                                  "--kill-child", "--mount-proc", PYTHON, "-c", INIT],
                                 stderr=subprocess.DEVNULL, start_new_session=True)
        self.spawned.append(outer)

        def child():
            with open(f"/proc/{outer.pid}/task/{outer.pid}/children", encoding="utf-8") as file:
                return file.read().split()
        self.init = wait_for("a machine", child)[0]
        wait_for("its network", lambda: os.readlink(f"/proc/{self.init}/ns/net") != os.readlink("/proc/self/ns/net"))
        run("ip", "link", "add", self.name, "type", "veth", "peer", "name", "eth0", "netns", self.init)
        run("ip", "link", "set", self.name, "master", "dbs", "up")
        for words in (("ip", "link", "set", "lo", "up"), ("ip", "addr", "add", self.address + "/24", "dev", "eth0"),
                      ("ip", "link", "set", "eth0", "up"), ("hostname", self.name)):
            run("nsenter", "--target", self.init, "--net", "--uts", *words)

    def spawn(self, name, *words):
        """Starts a service."""
        with open(f"{self.cluster.folder}/{self.name}-{name}.log", "a", encoding="utf-8") as log:
            self.spawned.append(subprocess.Popen(
                ["nsenter", "--target", self.init, "--net", "--uts", "--pid", "--mount", "setpriv", f"--reuid={NOBODY}",
                 f"--regid={NOBODY}", "--clear-groups", *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={**os.environ, "PYTHONPATH": ":".join(MODULES)}, cwd="/", start_new_session=True))

    def start_etcd(self):
        here = f"http://{self.address}"
        self.spawn("etcd", program("etcd"), "--name", self.name, "--data-dir", self.folder + "/etcd",
                   "--listen-peer-urls", here + ":2380", "--initial-advertise-peer-urls", here + ":2380",
                   "--listen-client-urls", here + ":2379", "--advertise-client-urls", here + ":2379",
                   "--initial-cluster", ",".join(f"db{i}=http://10.214.0.{i}:2380" for i in (1, 2, 3)))

    def start_patroni(self):
        cluster, path = self.cluster, self.folder + "/patroni.yml"
        with open(path, "w", encoding="utf-8") as file:  # JSON is YAML, too.
            json.dump({
                "scope": "divvy", "name": self.name,
                "restapi": {"listen": self.address + ":8008", "connect_address": self.address + ":8008"},
                "etcd3": {"hosts": [f"10.214.0.{i}:2379" for i in (1, 2, 3)]},
                "bootstrap": {
                    "dcs": {**cluster.times, "synchronous_mode": True, "postgresql": {"use_pg_rewind": True}},
                    "initdb": [{"encoding": "UTF8"}, {"locale": "C"}],
                    "pg_hba": ["host all all 10.214.0.0/24 scram-sha-256",
                               "host replication replicator 10.214.0.0/24 scram-sha-256"]},
                "postgresql": {
                    "listen": self.address + ":5432", "connect_address": self.address + ":5432",
                    "data_dir": self.folder + "/data", "bin_dir": programs(), "pgpass": self.folder + "/pgpass",
                    "parameters": {"unix_socket_directories": "", "min_wal_size": "32MB", "max_wal_size": "64MB",
                                   "wal_keep_size": "64MB"},
                    "authentication": {
                        "superuser": {"username": "postgres", "password": cluster.password},
                        "replication": {"username": "replicator", "password": cluster.password}}}}, file)
        os.chown(path, NOBODY, NOBODY)
        self.spawn("patroni", PYTHON, program("patroni"), path)

    def pids(self):
        """Its processes: name and command line by id."""
        try:
            space = os.readlink(f"/proc/{self.init}/ns/pid")
        except OSError:
            return {}
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.readlink(f"/proc/{pid}/ns/pid") == space:
                    texts = []
                    for name in ("comm", "cmdline"):
                        with open(f"/proc/{pid}/{name}", encoding="utf-8") as file:
                            texts.append(file.read().strip())
                    found[int(pid)] = texts
            except OSError:
                pass
        return found

    def services(self):
        """The processes of Patroni, and then those of PostgreSQL."""
        found = self.pids().items()
        return ([pid for pid, (_, line) in found if "patroni.yml" in line] +
                [pid for pid, (name, _) in found if name == "postgres"])

    def kill_services(self):
        """kill -9 of Patroni, which goes first so that it cannot react, and of all of PostgreSQL."""
        for pid in self.services():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        wait_for("their end", lambda: not self.services())

    def kill(self):
        """Switches it off: all its processes end, and its network is silent."""
        pids = self.pids()
        os.kill(int(self.init), signal.SIGKILL)
        for one in self.spawned:
            one.kill()
            one.wait()
        self.spawned.clear()
        wait_for("its end", lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids))

    def role(self):
        """Patroni's answer about its PostgreSQL: "primary", "sync_standby", "replica", or "" without one."""
        for role, path in (("primary", "/primary"), ("sync_standby", "/synchronous"), ("replica", "/replica")):
            connection = http.client.HTTPConnection(self.address, 8008, timeout=2)
            try:
                connection.request("GET", path)
                if connection.getresponse().status == 200:
                    return role
            except (OSError, http.client.HTTPException):
                return ""
            finally:
                connection.close()
        return ""


class PatroniCluster:
    """Synchronous replication: Patroni promotes only a standby that has all acknowledged commits."""

    def __init__(self, folder):
        self.folder, self.password = folder, secrets.token_hex(8)
        self.times = {"ttl": 30, "loop_wait": 10, "retry_timeout": 10}  # Patroni's defaults, in seconds.
        self.process = None
        self.machines = []
        os.mkdir(folder)
        os.chmod(folder, 0o755)
        try:
            self.start()
        except BaseException:
            print(self.log(), flush=True)
            self.stop()
            self.remove()
            raise
        self.passfile = folder + "/pgpass"
        with open(self.passfile, "w", encoding="utf-8") as file:
            file.write(f"*:*:*:divvy:{self.password}\n")
        os.chmod(self.passfile, 0o600)
        self.url = (f"postgresql://divvy@{self.hosts()}/divvy?target_session_attrs=read-write"
                    f"&passfile={self.passfile}")

    def start(self):
        run("ip", "link", "add", "dbs", "type", "bridge")
        run("ip", "addr", "add", "10.214.0.254/24", "dev", "dbs")
        run("ip", "link", "set", "dbs", "up")
        for number in (1, 2, 3):
            self.machines.append(Machine(self, number))
        self.servers = self.machines[:2]  # The third has only etcd: two of three must agree.
        for machine in self.machines:
            machine.start_etcd()
        for machine in self.servers:
            machine.start_patroni()
        self.wait_for_standby()
        self.sql(f"CREATE ROLE divvy LOGIN PASSWORD '{self.password}'", "postgres")
        self.sql("CREATE DATABASE divvy OWNER divvy", "postgres")

    def hosts(self):
        return ",".join(f"{one.address}:5432" for one in self.servers)

    def sql(self, text, database="divvy"):
        done = subprocess.run(
            [programs() + "/psql", f"postgresql://postgres@{self.hosts()}/{database}?target_session_attrs=read-write"
             "&connect_timeout=3", "-qAtc", text], env={**os.environ, "PGPASSWORD": self.password}, capture_output=True,
            text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"psql: {done.stderr}")
        return done.stdout.strip()

    def primary(self, but=None):
        return next((one for one in self.servers if one is not but and one.role() == "primary"), None)

    def wait_for_standby(self):
        wait_for("a primary and a synchronous standby",
                 lambda: sorted(one.role() for one in self.servers) == ["primary", "sync_standby"], 180, 0.2)

    def log(self):
        text = ""
        for name in sorted(os.listdir(self.folder)):
            if name.endswith(".log"):
                with open(os.path.join(self.folder, name), encoding="utf-8") as file:
                    text += f"-- {name}\n{file.read()[-3000:]}"
        return text

    def stop(self):
        for machine in self.machines:
            if machine.spawned:
                machine.kill()

    def remove(self):
        subprocess.run(["ip", "link", "del", "dbs"], capture_output=True, check=False)
        for machine in self.machines:
            run("umount", "--lazy", machine.folder)
        shutil.rmtree(self.folder, ignore_errors=True)
