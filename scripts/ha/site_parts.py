"""The parts of a site on this machine: a database behind proxies, controllers, agents and clients."""
import contextlib
import http.client
import json
import os
import random
import re
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time

DIVVY = os.environ["DIVVY"]
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NOBODY = 65534
LIBFAKETIME = next((place for place in (root + "/usr/lib/" + os.uname().machine + "-linux-gnu/faketime/libfaketime.so.1"
                                        for root in (ROOT + "/build/unpacked", "")) if os.path.exists(place)), "")


class Waited(Exception):
    pass


def wait_for(what, condition, seconds=60, pause=0.02):
    end = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > end:
            raise Waited(f"waited {seconds} s in vain for {what}")
        time.sleep(pause)


def lives(path):
    """Whether the process whose id is in this file lives."""
    with open(path, encoding="utf-8") as file:
        return os.path.exists(f"/proc/{file.read().strip() or 0}")


def free_port():
    """A port below the kernel's range: outgoing connections cannot take it while its server is down."""
    while True:
        with socket.socket() as probe:
            port = random.randrange(16384, 32768)
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass


def programs():
    for place in (os.environ.get("DIVVY_POSTGRES", ""), ROOT + "/build/unpacked/usr/lib/postgresql/15/bin",
                  "/usr/lib/postgresql/15/bin"):
        if place and os.access(place + "/initdb", os.X_OK):
            return place
    return ""


class Database:
    """A PostgreSQL server of its own. It refuses to run as root."""
    url = None

    def __init__(self, folder):
        self.make_place(folder)
        self.run("initdb", "--pgdata=" + folder + "/data", "--username=divvy", "--auth=trust", "--encoding=UTF8",
                 "--locale=C", "--no-sync", "--no-instructions")
        self.start()
        self.sql("CREATE DATABASE divvy", "postgres")

    def make_place(self, folder):
        self.folder, self.port, self.process = folder, free_port(), None
        os.mkdir(folder)
        # As root, the folder is a small file system of its own, which a test can fill.
        self.is_small = os.geteuid() == 0 and subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=400m", "divvy-test-ha", folder], capture_output=True,
            check=False).returncode == 0
        os.chmod(folder, 0o755)
        if os.geteuid() == 0:
            os.chown(folder, NOBODY, NOBODY)

    def fill(self):
        """Fills the disk; `start` and `free` end that."""
        with open(self.folder + "/filler", "wb", buffering=0) as file:
            for size in (1 << 20, 4096):
                try:
                    while True:
                        file.write(bytes(size))
                except OSError:
                    pass

    def free(self):
        try:
            os.unlink(self.folder + "/filler")
        except FileNotFoundError:
            pass

    def remove(self):
        if self.is_small:
            subprocess.run(["umount", "--lazy", self.folder], capture_output=True, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def as_server(self):
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)

    def run(self, program, *words):
        done = subprocess.run([programs() + "/" + program, *words], preexec_fn=self.as_server, cwd="/",
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{program} {' '.join(words)}: {done.stderr}")
        return done.stdout.strip()

    def sql(self, text, database="divvy"):
        return self.run("psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", "divvy", "-d", database, "-qAtc", text)

    def answers(self):
        try:
            self.sql("SELECT 1", "postgres")
            return True
        except RuntimeError:
            return False

    def start(self):
        self.free()

        def serves():
            # Sessions of a server that was killed may outlive it for a moment, and the next one refuses to start.
            if self.process is None or self.process.poll() is not None:
                with open(self.folder + ".log", "a", encoding="utf-8") as log:
                    self.process = subprocess.Popen(
                        [programs() + "/postgres", "-D", self.folder + "/data", "-h", "127.0.0.1", "-p", str(self.port),
                         "-k", "", "-F", "-c", "min_wal_size=32MB", "-c", "max_wal_size=64MB"], preexec_fn=self.as_server, cwd="/", stdout=log, stderr=log,
                        start_new_session=True)
            return self.answers()
        try:
            wait_for("the database", serves, 120, 0.1)
        except Waited as error:
            with open(self.folder + ".log", encoding="utf-8") as log:
                raise Waited(f"{error}; the end of its log:\n{log.read()[-2000:]}") from None

    def add_standby(self):
        """Starts a synchronous standby: from now on a commit is on both when it is acknowledged."""
        other = Database.__new__(Database)
        other.make_place(os.path.join(os.path.dirname(self.folder), f"postgres-{time.monotonic_ns()}"))
        self.run("pg_basebackup", "-h", "127.0.0.1", "-p", str(self.port), "-U", "divvy", "-D", other.folder + "/data",
                 "--write-recovery-conf", "--no-sync", "--checkpoint=fast")
        other.start()
        wait_for("the standby", lambda: self.sql("SELECT 1 FROM pg_stat_replication WHERE state = 'streaming'") == "1")
        self.sql("ALTER SYSTEM SET synchronous_standby_names = '*'")
        self.sql("SELECT pg_reload_conf()")
        wait_for("synchronous commits",
                 lambda: self.sql("SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'") == "1")
        return other

    def promote(self):
        self.sql("SELECT pg_promote()", "postgres")
        wait_for("the new primary", lambda: self.sql("SELECT pg_is_in_recovery()", "postgres") == "f")

    def stop(self, how=signal.SIGQUIT):
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait()
            self.process = None


class Proxy:
    """Forwards connections to a server, until they are cut or swallowed."""

    def __init__(self, target):
        self.target = target
        self.is_cut = False
        self.swallows = frozenset()  # "up" (to the server), "down", or both: what comes is lost without a sign.
        self.pairs = []
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=32)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            if self.is_cut:
                client.close()
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                client.close()
                continue
            # Without TCP_NODELAY, each answer would wait 40 ms for a delayed acknowledgement.
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self.lock:
                self.pairs.append((client, server))
            state = self.new_state()
            for way, source, sink in (("up", client, server), ("down", server, client)):
                threading.Thread(target=self.forward, args=(way, source, sink, state), daemon=True).start()

    def new_state(self):
        return None

    def pieces(self, way, piece, _):
        """What to forward of `piece`; None: the connection is cut before the rest."""
        return [] if way in self.swallows else [piece]

    def forward(self, way, source, sink, state):
        try:
            while piece := source.recv(65536):
                for part in self.pieces(way, piece, state):
                    if part is None:
                        raise OSError("cut")
                    sink.sendall(part)
        except OSError:
            pass
        with self.lock:
            self.pairs = [pair for pair in self.pairs if source not in pair]  # The sockets close with their last use.
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def drop(self):
        """Ends all connections."""
        with self.lock:
            for pair in self.pairs:
                for end in pair:
                    try:
                        end.shutdown(socket.SHUT_RDWR)
                    except OSError:
                        pass
            self.pairs.clear()

    def cut(self):
        self.is_cut = True
        self.drop()

    def swallow(self, *ways):
        self.swallows = frozenset(ways)

    def mend(self):
        if self.swallows:
            self.swallows = frozenset()
            self.drop()  # A connection that has lost bytes is of no use.
        self.is_cut = False


class Messages:
    """Cuts the bytes of one direction of a PostgreSQL connection into whole messages."""

    def __init__(self, has_start):
        self.rest = b""
        self.starts = has_start  # The first messages of a client have no type.

    def take(self, piece):
        self.rest += piece
        whole = []
        while True:
            head = 0 if self.starts else 1
            if len(self.rest) < head + 4:
                return whole
            size = head + int.from_bytes(self.rest[head:head + 4], "big")
            if len(self.rest) < size:
                return whole
            message, self.rest = self.rest[:size], self.rest[size:]
            # An SSLRequest or GSSENCRequest is followed by a start message.
            if self.starts and message[4:8] not in (b"\x04\xd2\x16\x2f", b"\x04\xd2\x16\x30"):
                self.starts = False
            whole.append(message)


class DatabaseProxy(Proxy):
    """A proxy that can also cut a connection at a message boundary of the next commit."""

    def __init__(self, target):
        super().__init__(target)
        self.cut_after = None  # How many messages of the next commit still pass.
        self.on_cut = None  # Is called when that connection is cut.
        self.cuts = 0

    def new_state(self):
        return {"up": Messages(True), "down": Messages(False), "answered": False, "left": None}

    def pieces(self, way, piece, state):
        if way in self.swallows:
            return
        if way == "down" and not state["answered"]:
            # PostgreSQL's answer to an SSLRequest is a single byte.
            while piece[:1] in (b"N", b"G") and not piece[1:5].startswith(b"\0\0"):
                yield piece[:1]
                piece = piece[1:]
            state["answered"] = piece != b""
        for message in state[way].take(piece):
            with self.lock:
                begins = way == "up" and message[:1] == b"B" and b"\0begin\0" in message[:16]
                if begins and self.cut_after is not None and state["left"] is None:
                    state["left"], self.cut_after = self.cut_after, None
                is_last = state["left"] == 0
                if state["left"] is not None:
                    state["left"] -= 1
                if is_last:
                    self.cuts += 1
            if is_last and self.on_cut is not None:
                self.on_cut()
            if is_last or (state["left"] is not None and state["left"] < 0):
                yield None
                return
            yield message


class Host:
    """A folder that stands for a machine."""

    def __init__(self, folder, program=DIVVY):
        self.folder, self.program = folder, program
        os.makedirs(folder, exist_ok=True)

    def divvy(self, *words, check=True, environment=None):
        variables = {**os.environ, "DIVVY_HOME": self.folder, **(environment or {})}
        variables.pop("DIVVY_CONTROLLER", None)
        done = subprocess.run([self.program, *words], env=variables, capture_output=True, text=True, check=False,
                              cwd=self.folder, stdin=subprocess.DEVNULL)
        if check and done.returncode != 0:
            raise RuntimeError(f"divvy {' '.join(words)}: {done.stderr.strip()}")
        return done

    def pid(self, lock):
        try:
            with open(os.path.join(self.folder, lock), encoding="utf-8") as file:
                return int(file.read())
        except (OSError, ValueError):
            return 0


class Controller(Host):
    def __init__(self, site, name):
        super().__init__(os.path.join(site.folder, name), site.program)
        self.name_of_folder = name
        # A database with a URL of its own, which may name several hosts, has no proxy in front of it.
        self.proxy = None if site.database.url else DatabaseProxy(site.database.port)
        self.url = site.database.url or f"postgresql://divvy@127.0.0.1:{self.proxy.port}/divvy"
        self.port = free_port()
        self.front = Proxy(self.port)  # Agents and clients come through it.
        self.address = f"127.0.0.1:{self.front.port}"
        self.environment = {}
        self.configure()

    def set_clock_ahead(self, hours):
        """Its clock is ahead of all others, if libfaketime is there. Call before `up`."""
        if LIBFAKETIME:
            self.environment = {"LD_PRELOAD": LIBFAKETIME, "FAKETIME": f"+{hours}h", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}

    def configure(self, name=None):
        path = os.path.join(self.folder, "divvy.toml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f'[store]\nurl = "{self.url}"\n[controller]\nlisten = "127.0.0.1:{self.port}"\n'
                       f"high_availability = true\nname = \"{name or self.address}\"\n")
        os.chmod(path, 0o600)

    def join(self, first):
        for name in ("cluster-id", "identity.pem"):
            shutil.copy(os.path.join(first.folder, name), self.folder)

    def up(self):
        # Also asks for the status, while the controller may begin to lead.
        self.divvy("up", environment=self.environment)

    def daemon(self):
        return self.pid("daemon.lock")

    def kill(self, number=signal.SIGKILL):
        os.kill(self.daemon(), number)

    def ask(self, path, timeout=2, more=""):
        """Returns status, headers and body, without a login unless `more` headers have one."""
        context = ssl._create_unverified_context()
        with socket.create_connection(("127.0.0.1", self.port), timeout=timeout) as plain:
            with context.wrap_socket(plain) as tls:
                tls.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n{more}Connection: close\r\n\r\n".encode())
                text = b""
                while piece := tls.recv(65536):
                    text += piece
        if not text:
            raise OSError("no answer")
        head, _, body = text.decode().partition("\r\n\r\n")
        lines = head.split("\r\n")
        return int(lines[0].split()[1]), dict(line.split(": ", 1) for line in lines[1:]), body

    def ask_locally(self, path):
        """Returns status, headers and body, as a user of its machine."""
        connection = http.client.HTTPConnection("localhost")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(30)
        connection.sock.connect(os.path.join(self.folder, "divvy.sock"))
        with contextlib.closing(connection):
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read().decode()

    def is_ok(self, path):
        try:
            return self.ask(path)[0] == 200
        except OSError:
            return False

    def leads(self):
        return self.is_ok("/leader")

    def stands_by(self):
        return self.is_ok("/readyz") and not self.leads()

    def log(self):
        try:
            with open(os.path.join(self.folder, "daemon.log"), encoding="utf-8") as file:
                return file.read()
        except OSError:
            return ""


class Agent(Host):
    def join(self, token, gpus):
        path = os.path.join(self.folder, "token")
        with open(path, "w", encoding="utf-8") as file:
            file.write(token)
        os.chmod(path, 0o600)
        self.divvy("agent", "--join-file", path, "--name", os.path.basename(self.folder), "--emulate", gpus, "--detach",
                   "--quiet")


class Site:
    """`program`: the divvy that its machines run at first. Commands of users are those of the program to test."""

    def __init__(self, make_database=Database, program=DIVVY):
        self.folder, self.program = tempfile.mkdtemp(prefix="divvy-ha-"), program
        os.chmod(self.folder, 0o755)
        try:
            self.database = make_database(os.path.join(self.folder, "postgres"))
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        self.standby = None
        self.controllers, self.agents = [], []

    def start(self, agents, gpus):
        self.controllers = [Controller(self, name) for name in ("a", "b", "c")]
        self.controllers[2].set_clock_ahead(1)
        first = self.controllers[0]
        first.up()
        wait_for("the first leader", first.leads)
        for other in self.controllers[1:]:
            other.join(first)
            other.up()
        wait_for("all controllers", lambda: first.divvy("controllers", "--csv", "--no-header").stdout.count("\n") == 3)
        node_token = first.divvy("token", "create", "--node", "--uses", str(agents)).stdout
        self.login = os.path.join(self.folder, "login")
        with open(self.login, "w", encoding="utf-8") as file:
            file.write(first.divvy("token", "create", "--role", "admin").stdout)
        os.chmod(self.login, 0o600)
        self.agents = [Agent(os.path.join(self.folder, f"n{i}"), self.program) for i in range(1, agents + 1)]
        for agent in self.agents:
            agent.join(node_token, gpus)

    def divvy(self, *words, check=True, timeout=None):
        """A command of a user on another machine, who is logged in to the cluster."""
        variables = {**os.environ, "DIVVY_CONTROLLER": self.login}
        variables.pop("DIVVY_HOME", None)
        done = subprocess.run([DIVVY, *words], env=variables, capture_output=True, text=True, check=False,
                              cwd=self.folder, timeout=timeout, stdin=subprocess.DEVNULL)
        if check and done.returncode != 0:
            raise RuntimeError(f"divvy {' '.join(words)}: {done.stderr.strip()}")
        return done

    def begin(self, *words, stdout=subprocess.DEVNULL):
        """Starts such a command, and does not wait for its end."""
        variables = {**os.environ, "DIVVY_CONTROLLER": self.login}
        variables.pop("DIVVY_HOME", None)
        return subprocess.Popen([DIVVY, *words], env=variables, stdout=stdout, stderr=subprocess.DEVNULL,
                                cwd=self.folder, stdin=subprocess.DEVNULL)

    def leader(self, but=None):
        return next((one for one in self.controllers if one is not but and one.leads()), None)

    def wait_for_leader(self, but=None, seconds=30):
        return wait_for("a leader", lambda: self.leader(but), seconds)

    def job(self, job):
        shown = json.loads(self.divvy("show", str(job), "--json").stdout)
        return shown[0] if isinstance(shown, list) else shown

    def jobs(self, *filters):
        """State and exit code by id, of all jobs."""
        text = self.divvy("queue", "--all", "--csv", "--no-header", "-o", "id,state,exit", "--limit", "0",
                          *filters).stdout
        return {int(row[0]): (row[1], row[2]) for row in (line.split(",") for line in text.split())}

    def use_database(self, database):
        self.database = database
        for one in self.controllers:
            one.proxy.target = database.port
            one.proxy.drop()

    def schema(self):
        return int(self.database.sql("SELECT value FROM divvy.meta WHERE key = 'schema_version'"))

    def epoch(self):
        return int(self.database.sql("SELECT epoch FROM divvy.lease"))

    def log(self):
        """The ends of the logs of all controllers."""
        return "".join(f"-- log of {one.name_of_folder}\n{one.log()[-6000:]}\n" for one in self.controllers)

    def close(self, keep):
        for host in self.controllers:
            try:
                host.kill(signal.SIGCONT)
            except ProcessLookupError:
                pass
        pids = set()
        for _ in range(200):
            pids = {pid for pid in os.listdir("/proc") if pid.isdigit() and self.is_ours(pid)}
            if not pids:
                break
            for pid in pids:
                try:
                    os.kill(int(pid), signal.SIGKILL)
                except OSError:
                    pass
            time.sleep(0.05)
        for database in (self.database, self.standby):
            if database is not None:
                database.stop()
                if not keep:
                    database.remove()
        if keep:
            print(f"kept {self.folder}")
        else:
            shutil.rmtree(self.folder, ignore_errors=True)

    def is_ours(self, pid):
        """Whether the process belongs to one of the hosts of this site."""
        servers = [one.process.pid for one in (self.database, self.standby) if one and one.process]
        if int(pid) in (os.getpid(), *servers):
            return False
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                home = re.search(rb"(?:^|\0)DIVVY_HOME=([^\0]*)", file.read())
            return home is not None and home.group(1).startswith(self.folder.encode() + b"/")
        except OSError:
            return False
