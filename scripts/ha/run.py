"""The checks of scripts/test-ha."""
import argparse
import json
import os
import re
import signal
import socket
import statistics
import sys
import threading
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from histories import RunningJobs, histories  # noqa: E402
from own_sites import patroni, versions  # noqa: E402
from site_parts import LIBFAKETIME, Controller, Site, Waited, lives, wait_for  # noqa: E402


class Checks:
    def __init__(self):
        self.passed, self.failed, self.skipped = 0, [], 0

    def skip(self, what, why):
        self.skipped += 1
        print(f"skip  {what}: {why}", flush=True)

    def check(self, what, holds, seen=""):
        if holds:
            self.passed += 1
            print(f"ok    {what}", flush=True)
        else:
            self.failed.append(what)
            print(f"FAIL  {what}: {seen}", flush=True)

    def section(self, name, body):
        print(f"-- {name}", flush=True)
        try:
            body()
        except (Waited, RuntimeError, KeyError, ValueError, IndexError, OSError) as error:
            self.failed.append(name)
            print(f"FAIL  {name}: {error}", flush=True)
            traceback.print_exc(file=sys.stdout)


class Clients:
    """Users who submit one job after the other, each of which says that it ran and exits with 7."""

    def __init__(self, site, count):
        self.site = site
        self.ran = os.path.join(site.folder, "ran")
        self.acknowledged = []  # (started, ended, id)
        self.errors = []
        self.is_ending = False
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self.submit, daemon=True) for _ in range(count)]
        for thread in self.threads:
            thread.start()

    def submit(self):
        command = f'echo "$DIVVY_JOB_ID" >>{self.ran}; exit 7'
        while not self.is_ending:
            started = time.monotonic()
            done = self.site.divvy("submit", "--quiet", "--", "sh", "-c", command, check=False)
            with self.lock:
                if done.returncode == 0:
                    self.acknowledged.append((started, time.monotonic(), int(done.stdout)))
                else:
                    self.errors.append(done.stderr.strip())

    def first_after(self, moment):
        """When the first submission that began after this moment was acknowledged."""
        with self.lock:
            ends = [ended for started, ended, _ in self.acknowledged if started > moment]
        return min(ends, default=None)

    def end(self):
        self.is_ending = True
        for thread in self.threads:
            thread.join()


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def check_jobs(checks, site, clients, what):
    ids = [job for _, _, job in clients.acknowledged]
    checks.check(f"{what}: no id was given out twice", len(ids) == len(set(ids)))

    def all_over():
        known = site.jobs()
        return all(known.get(job, ("", ""))[0] in ("failed", "") for job in ids)
    wait_for("the ends of all jobs", all_over, 180, 0.5)
    known = site.jobs()
    lost = [job for job in ids if job not in known]
    checks.check(f"{what}: all {len(ids)} acknowledged submissions are known", not lost, lost[:5])
    wrong = [(job, known[job]) for job in ids if job in known and known[job] != ("failed", "7")]
    checks.check(f"{what}: all exit codes are right", not wrong, wrong[:5])
    with open(clients.ran, encoding="utf-8") as file:
        ran = file.read().split()
    checks.check(f"{what}: no job ran twice", len(ran) == len(set(ran)), [job for job in ran if ran.count(job) > 1][:5])
    checks.check(f"{what}: clients saw no error", not clients.errors, clients.errors[:3])


def basics(checks, site, _):
    first = site.controllers[0]
    status, _, body = site.controllers[1].ask("/leader")
    checks.check("a standby says who leads", status == 503 and json.loads(body)["address"] == first.address, body)
    status, headers, _ = site.controllers[1].ask("/v1/jobs?limit=1")
    checks.check("it sends clients there", status == 307 and
                 headers.get("Location") == f"https://{first.address}/v1/jobs?limit=1", headers)
    checks.check("it is ready", site.controllers[2].ask("/readyz")[0] == 200)
    listed = site.divvy("controllers", "--csv", "--no-header").stdout.split("\n")
    checks.check("divvy controllers lists the leader first",
                 listed[0].startswith(f"{first.address},leader,") and len(listed) == 4, listed)
    if LIBFAKETIME:
        clocks = [one["ahead_s"] for one in json.loads(site.divvy("controllers", "--json").stdout)]
        checks.check("the clock of one controller is an hour ahead", max(clocks) > 3000, clocks)
    job = int(site.divvy("submit", "--quiet", "--gpus", "2", "--", "sh", "-c", "exit 5").stdout)
    wait_for("its end", lambda: site.job(job)["state"] == "failed")
    shown = site.job(job)
    checks.check("a job runs on an agent", shown["exit_code"] == 5 and shown["node"].startswith("n"), shown)
    said = site.controllers[1].divvy("cancel", str(job), check=False).stderr
    checks.check("a standby's own machine is told who leads", f"controller {first.address} leads" in said, said)


def standby_reads(checks, site, _):
    leader = site.wait_for_leader()
    standby = next(one for one in site.controllers if one is not leader)
    job = int(site.divvy("submit", "--quiet", "--gpus", "1", "--hold", "--name", "read-me", "--", "true").stdout)

    def read(path, what):
        status, headers, body = standby.ask_locally(path)
        age = headers.get("Divvy-Age", "")
        checks.check(f"a standby answers {what}, with its age", status == 200 and 0 <= float(age or -1) < 30,
                     (status, headers, body[:200]))
        return json.loads(body)
    wait_for("the job at the standby",
             lambda: job in [one["id"] for one in json.loads(standby.ask_locally("/v1/jobs")[2])])
    ended = read(f"/v1/jobs?ids={job}", "queue")
    checks.check("with the job's state", [one["state"] for one in ended] == ["held"], ended)
    checks.check("show", read(f"/v1/jobs/{job}", "show")["name"] == "read-me")
    checks.check("why", "held" in json.dumps(read(f"/v1/jobs/{job}/why", "why")))
    nodes = read("/v1/nodes", "nodes")
    checks.check("the nodes are there", {one["name"] for one in nodes} >= {"n1", "n2"}, nodes)
    checks.check("and their GPUs", len(read("/v1/gpus", "gpus")) >= 2)
    done = standby.divvy("show", str(job))
    checks.check("divvy show works on a standby's machine", "read-me" in done.stdout, done)
    status, headers, _ = standby.ask(f"/v1/jobs/{job}")
    checks.check("a caller without a login is sent to the leader", status == 307, headers)
    with open(site.login, encoding="utf-8") as file:
        login = "Authorization: Bearer " + ".".join(file.read().partition("#")[2].split(".")[:2]) + "\r\n"
    status, headers, body = standby.ask(f"/v1/jobs/{job}", 30, login)
    checks.check("a caller with a login is answered", status == 200 and "read-me" in body and "Divvy-Age" in headers,
                 (status, headers, body[:200]))
    status, headers, _ = standby.ask(f"/v1/jobs/{job}", 30, login + "Cache-Control: no-cache\r\n")
    checks.check("unless it wants the present state", status == 307, (status, headers))
    site.divvy("cancel", str(job))


def wrong_use(checks, site, _):
    def refusal(name, change, reason, more=""):
        other = Controller(site, name)
        change(other)
        done = other.divvy("up", "--quiet", check=False)
        checks.check(f"refused: {name}", done.returncode != 0 and reason in done.stderr, done.stderr)
        return more
    first = site.controllers[0]
    refusal("another-cluster", lambda other: None, "belongs to another cluster")

    def without_certificate(other):
        other.join(first)
        os.unlink(os.path.join(other.folder, "identity.pem"))
    refusal("no-certificate", without_certificate, "copy identity.pem")

    def same_name(other):
        other.join(first)
        other.configure(name=first.address)
    refusal("same-name", same_name, "another live controller is named")

    def alone(other):
        other.join(first)
        path = os.path.join(other.folder, "divvy.toml")
        with open(path, encoding="utf-8") as file:
            text = file.read().replace("high_availability = true\n", "")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    refusal("alone", alone, "is in use by another divvy")

    def without_store(other):
        path = os.path.join(other.folder, "divvy.toml")
        with open(path, "w", encoding="utf-8") as file:
            file.write("[controller]\nlisten = \"127.0.0.1:1\"\nhigh_availability = true\n")
    refusal("no-store", without_store, "needs url in [store]")


def keys(checks, site, _):
    submit = ("submit", "--quiet", "--key", "night-7", "--", "true")
    first = site.divvy(*submit).stdout
    checks.check("the same key gives the same job", site.divvy(*submit).stdout == first)
    before = site.leader()
    site.divvy("controllers", "step-down")
    after = site.wait_for_leader(before)
    checks.check("divvy controllers step-down hands over", after is not before)
    checks.check("the next leader knows the key", site.divvy(*submit).stdout == first)
    wait_for("the former leader as a standby", before.stands_by)


def kills(checks, site, wishes):
    marks = []
    running = RunningJobs(site, wishes.jobs)
    clients = Clients(site, wishes.clients)
    wait_for("the first submissions", lambda: len(clients.acknowledged) > wishes.clients)
    for _ in range(wishes.kills):
        leader = site.wait_for_leader()
        killed = time.monotonic()
        leader.kill()
        after = wait_for("the next acknowledged submission", lambda: clients.first_after(killed), 60)
        marks.append(after - killed)
        wait_for("the end of the process", lambda: not os.path.exists(f"/proc/{leader.daemon()}"))
        leader.up()
    clients.end()
    text = f"p50 {statistics.median(marks):.2f} s, p99 {percentile(marks, 0.99):.2f} s, max {max(marks):.2f} s"
    print(f"      leader killed {wishes.kills} times: next acknowledged submission after {text}", flush=True)
    checks.check("the next submission is acknowledged within 4 s (p50)", statistics.median(marks) <= 4, text)
    checks.check("the next submission is acknowledged within 6 s (p99)", percentile(marks, 0.99) <= 6, text)
    running.end(checks)
    check_jobs(checks, site, clients, "kills")


def submit_many(controller, count):
    """Submits jobs of one GPU each, many requests at a time over one connection."""
    body = json.dumps({"spec": {"command": ["true"], "directory": "/tmp", "name": "many", "request": {"gpus": 1}}}).encode()
    request = b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(120)
        connection.connect(os.path.join(controller.folder, "divvy.sock"))
        answers, text, sent = 0, b"", 0
        while answers < count:
            while sent < count and sent - answers < 500:
                part = min(100, count - sent)
                connection.sendall(request * part)
                sent += part
            piece = connection.recv(1 << 20)
            if not piece:
                raise RuntimeError(f"the connection ended: {text[-300:]}")
            text += piece
            answers += text.count(b"HTTP/1.1 200")
            if b"HTTP/1.1 4" in text or b"HTTP/1.1 5" in text:
                raise RuntimeError(f"refused: {text[-500:]}")
            text = text[-11:] if not text.endswith(b"HTTP/1.1 200") else b""


def take_over(checks, site, wishes):
    """How long the next leader needs with a long queue, from taking the lease until it serves and has decided."""
    if wishes.queued == 0:
        return
    leader = site.wait_for_leader()
    gpus = len(json.loads(site.divvy("gpus", "--json").stdout))
    blockers = [site.divvy("submit", "--quiet", "--gpus", "1", "--", "sleep", "3600").stdout.strip() for _ in range(gpus)]
    wait_for("the blockers", lambda: all(state == "running" for state, _ in site.jobs().values()
                                         if state not in ("failed", "succeeded", "cancelled")), 120, 0.5)
    started = time.monotonic()
    submit_many(leader, wishes.queued)
    print(f"      {wishes.queued} jobs submitted in {time.monotonic() - started:.1f} s", flush=True)
    marks, decided, cpus = [], [], []
    for _ in range(wishes.take_overs):
        leader = site.wait_for_leader()
        others = [one for one in site.controllers if one is not leader]
        for one in others:
            wait_for("a standby", one.stands_by)
        time.sleep(2)  # They follow each second.
        before = {one: cpu_of(one.daemon()) for one in others}
        epoch = site.epoch()
        leader.kill()
        wait_for("another lease", lambda: site.epoch() > epoch, 30, 0.001)
        taken = time.monotonic()
        after = wait_for("the next leader", lambda: site.leader(but=leader), 120, 0.005)
        job = after.divvy("submit", "--quiet", "--gpus", "1", "--name", "next", "--", "true").stdout.strip()
        marks.append(time.monotonic() - taken)
        cpus.append(cpu_of(after.daemon()) - before[after])
        decided.append(int(re.findall(r"event=decides .*ms_after_lease=(\d+)", after.log())[-1]))
        after.divvy("cancel", job)
        wait_for("the end of the process", lambda: not os.path.exists(f"/proc/{leader.daemon()}"))
        leader.up()
    print(f"      {wishes.queued} queued jobs: from the lease to the first decision "
          f"{', '.join(str(mark) for mark in decided)} ms, to an answered submission "
          f"{', '.join(f'{mark:.2f}' for mark in marks)} s; CPU time {', '.join(f'{cpu:.2f}' for cpu in cpus)} s; load "
          f"{os.getloadavg()[0]:.0f}", flush=True)
    checks.check("no queued job is lost", json.loads(site.divvy("status", "--json").stdout)["jobs_queued"] >=
                 wishes.queued)
    site.divvy("cancel", *blockers)
    site.divvy("cancel", "--name", "many", check=False)


def cpu_of(pid):
    """Seconds of CPU time of a process."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def streams(checks, site, _):
    """Commands of users elsewhere that follow a job while its leader is killed."""
    lines = 200
    go = os.path.join(site.folder, "more")
    os.mkfifo(go, 0o644)
    job = site.divvy("submit", "--quiet", "--gpus", "1", "--", "sh", "-c",
                     f"i=1; while [ $i -le {lines} ]; do echo line $i; [ $i != {lines // 2} ] || read x <{go}; "
                     "i=$((i + 1)); done; exit 3").stdout.strip()
    wait_for("its start", lambda: site.job(int(job))["state"] == "running")
    with open(os.path.join(site.folder, "followed"), "w+", encoding="utf-8") as output:
        logs = site.begin("logs", "-f", job, stdout=output)
        wait = site.begin("wait", job)
        wait_for("the first half", lambda: os.path.getsize(output.name) > 0)
        leader = site.wait_for_leader()
        pid = leader.daemon()
        leader.kill()
        site.wait_for_leader(leader)
        wait_for("the end of the process", lambda: not os.path.exists(f"/proc/{pid}"))
        leader.up()
        with open(go, "w", encoding="utf-8"):
            pass
        checks.check("divvy wait goes over to the next leader", wait.wait(120) == 3, wait.returncode)
        checks.check("divvy logs -f ends with its job", logs.wait(120) == 0, logs.returncode)
        output.seek(0)
        seen = [line for line in output.read().split("\n") if line.startswith("line ")]
    checks.check("divvy logs -f goes over without a gap or a repeat",
                 seen == [f"line {i}" for i in range(1, lines + 1)], f"{len(seen)} lines")


def zombies(checks, site, wishes):
    clients = Clients(site, wishes.clients)
    taken, late = [], []
    for _ in range(wishes.zombies):
        zombie = site.wait_for_leader()
        epoch = site.epoch()
        pid = zombie.daemon()
        stopped = time.monotonic()
        os.kill(pid, signal.SIGSTOP)
        site.wait_for_leader(zombie)
        taken.append(time.monotonic() - stopped)
        new_epoch = site.epoch()
        wait_for("a submission to the new leader", lambda: clients.first_after(stopped))
        os.kill(pid, signal.SIGCONT)
        wait_for("the zombie as a standby", zombie.stands_by)
        if new_epoch <= epoch or site.epoch() != new_epoch or zombie.daemon() != pid:
            late.append((epoch, new_epoch, site.epoch()))
    clients.end()
    print(f"      {wishes.zombies} stopped leaders: another one leads after p50 {statistics.median(taken):.2f} s",
          flush=True)
    checks.check(f"{wishes.zombies} leaders that were stopped and woke up are standbys, and the epoch is theirs who lead",
                 not late, late)
    check_jobs(checks, site, clients, "zombies")


def cut(checks, site, wishes):
    clients = Clients(site, wishes.clients)
    leader = site.wait_for_leader()
    started = time.monotonic()
    leader.proxy.cut()
    site.wait_for_leader(leader)
    print(f"      database cut off from the leader: another one leads after {time.monotonic() - started:.2f} s",
          flush=True)
    wait_for("a submission to the new leader", lambda: clients.first_after(started))
    checks.check("the one that was cut off is not ready", leader.ask("/readyz")[0] == 503)
    leader.proxy.mend()
    wait_for("the one that was cut off as a standby", leader.stands_by)
    clients.end()
    check_jobs(checks, site, clients, "cut")


def database_away(checks, site, _):
    go = os.path.join(site.folder, "go-on")
    pid = os.path.join(site.folder, "pid")
    job = int(site.divvy("submit", "--quiet", "--gpus", "1", "--", "sh", "-c",
                         f"echo $$ >{pid}; while [ ! -e {go} ]; do sleep 0.05; done; exit 9").stdout)
    wait_for("its start", lambda: site.job(job)["state"] == "running" and os.path.exists(pid) and lives(pid))
    waiting = int(site.divvy("submit", "--quiet", "--hold", "--name", "waiting", "--", "true").stdout)
    leader = site.wait_for_leader()
    site.database.stop()
    wait_for("the end of the lease", lambda: not leader.leads())
    done = leader.divvy("queue", "--json")
    checks.check("a leader without its database still answers reads", str(job) in done.stdout, done.stdout)
    started = time.monotonic()
    done = leader.divvy("submit", "--quiet", "--", "true", check=False)
    took = time.monotonic() - started
    checks.check("a submission is refused after some seconds, with the reason",
                 done.returncode != 0 and "database" in done.stderr and took < 15, f"{took:.1f} s: {done.stderr}")
    held_back = {}

    def change(*words):
        begun = time.monotonic()
        said = leader.divvy(*words, check=False)
        held_back[" ".join(words[:2])] = (said.returncode, time.monotonic() - begun, said.stderr.strip())
    changes = (("cancel", str(waiting)), ("release", str(waiting)), ("update", str(waiting), "--name", "other"),
               ("reserve", "--gpus", "1", "--user", "root", "--duration", "1h"), ("teams", "add", "night"),
               ("token", "create", "--label", "night"), ("node", "cordon", "n1"), ("controllers", "step-down"),
               ("serve", "create", "web", "--port", "0", "--", "true"), ("submit", "--array", "1-3", "--", "true"))
    threads = [threading.Thread(target=change, args=words) for words in changes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wrong = {what: seen for what, seen in held_back.items()
             if seen[0] == 0 or "database" not in seen[2] or not 4 < seen[1] < 20}
    checks.check(f"all {len(changes)} kinds of changes are refused after some seconds, with the reason", not wrong, wrong)
    shown = json.loads(leader.divvy("show", str(waiting), "--json").stdout)
    shown = shown[0] if isinstance(shown, list) else shown
    checks.check("they changed nothing", (shown["state"], shown["name"]) == ("held", "waiting"), shown)
    done = site.divvy("show", str(waiting))
    checks.check("users elsewhere still read, and a note says how old it is",
                 "waiting" in done.stdout and " s old" in done.stderr, done)
    with open(go, "w", encoding="utf-8"):
        pass
    wait_for("its end on the node", lambda: not lives(pid))
    site.database.start()
    wait_for("a leader", site.leader)
    wait_for("its end", lambda: site.job(job)["state"] == "failed")
    checks.check("a job that ended meanwhile has its exit code", site.job(job)["exit_code"] == 9, site.job(job))
    done = site.divvy("submit", "--quiet", "--", "true")
    checks.check("new work is taken again", done.returncode == 0)
    checks.check("no refused change was made later", site.job(waiting)["state"] == "held" and
                 "night" not in site.divvy("teams").stdout + site.divvy("token", "list").stdout)
    site.divvy("cancel", str(waiting))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--kills", type=int)
    parser.add_argument("--zombies", type=int)
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--clients", type=int, default=3)
    parser.add_argument("--histories", type=int)
    parser.add_argument("--queued", type=int)
    parser.add_argument("--take-overs", type=int)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--most-seconds", type=float, default=4 * 3600)
    parser.add_argument("--only", default="", help="sections to run, such as kills,histories")
    parser.add_argument("--keep", action="store_true")
    wishes = parser.parse_args()
    wishes.kills = wishes.kills or (3 if wishes.short else 20)
    wishes.zombies = wishes.zombies or (2 if wishes.short else 100)
    wishes.histories = wishes.histories if wishes.histories is not None else (2 if wishes.short else 200)
    wishes.jobs = wishes.jobs or (20 if wishes.short else 200)
    wishes.queued = wishes.queued if wishes.queued is not None else (0 if wishes.short else 100_000)
    wishes.take_overs = wishes.take_overs or 5
    agents = 2 if wishes.short else 4
    def wanted(sections, in_full):
        return [one for one in sections if one.__name__ in only or (not only and in_full)]
    only = list(filter(None, wishes.only.split(",")))
    checks = Checks()
    started = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # Cleans up, too.
    for section in wanted((patroni, versions), not wishes.short):
        checks.section(section.__name__, lambda body=section: body(checks, wishes))
    sections = wanted((basics, standby_reads, wrong_use, keys, kills, streams, zombies, cut, database_away, histories,
                       take_over), True)
    if sections:
        site = Site()
        try:
            site.start(agents, f"{min(64, wishes.jobs // agents + 8)}xH100-80GB")
            for section in sections:
                checks.section(section.__name__.replace("_", " "), lambda body=section: body(checks, site, wishes))
            if checks.failed:
                print(site.log(), flush=True)
        finally:
            site.close(wishes.keep)
    print(f"test-ha: {checks.passed} passed, {len(checks.failed)} failed, {checks.skipped} sections skipped, "
          f"{time.monotonic() - started:.0f} s")
    if checks.skipped and not checks.passed and not checks.failed:
        return 77
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
