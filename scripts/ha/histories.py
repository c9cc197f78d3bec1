"""Random fault histories: controllers, their database and their connections fail while clients submit."""
import os
import random
import signal
import threading
import time

from site_parts import lives, wait_for


class Load:
    """Users who submit jobs with and without GPUs, each with an exit code of its own."""

    def __init__(self, site, seed, count):
        self.site = site
        self.ran = os.path.join(site.folder, "history-ran")
        self.owned_twice = os.path.join(site.folder, "history-owned-twice")
        self.owners = os.path.join(site.folder, "owners")
        os.mkdir(self.owners)
        for path in (self.ran, self.owned_twice):
            with open(path, "w", encoding="utf-8"):
                pass
        self.codes = {}  # Of acknowledged jobs.
        self.repeated = []
        self.errors = []
        self.acknowledged = []  # (started, ended)
        self.lock = threading.Lock()
        self.is_ending = False
        self.threads = [threading.Thread(target=self.submit, args=(random.Random(f"{seed}/{i}"),), daemon=True)
                        for i in range(count)]
        for thread in self.threads:
            thread.start()

    def submit(self, draws):
        while not self.is_ending:
            code = draws.randrange(1, 60)
            words = ["--gpus", "1"] if draws.random() < 0.5 else []
            pause = draws.choice((0, 0, 0.2, 1, 3)) if words else 0
            command = (f'echo "$DIVVY_JOB_ID" >>{self.ran}; own={self.owners}/$DIVVY_NODE-$DIVVY_GPUS; '
                       f'[ -z "$DIVVY_GPUS" ] || mkdir $own || echo "$DIVVY_JOB_ID" >>{self.owned_twice}; '
                       f'[ {pause} = 0 ] || sleep {pause}; [ -z "$DIVVY_GPUS" ] || rmdir $own; exit {code}')
            started = time.monotonic()
            done = self.site.divvy("submit", "--quiet", "--name", "history", *words, "--", "sh", "-c", command,
                                   check=False)
            with self.lock:
                if done.returncode != 0:
                    self.errors.append(done.stderr.strip())
                    continue
                job = int(done.stdout)
                if job in self.codes:
                    self.repeated.append(job)
                self.codes[job] = code
                self.acknowledged.append((started, time.monotonic()))
            time.sleep(draws.random() * 0.2)

    def first_after(self, moment):
        """When the first submission that began after this moment was acknowledged."""
        with self.lock:
            return min((ended for started, ended in self.acknowledged if started > moment), default=None)

    def end(self):
        self.is_ending = True
        for thread in self.threads:
            thread.join()


class RunningJobs:
    """Jobs that run until they may end, each with an exit code of its own."""

    def __init__(self, site, count):
        self.site, self.codes = site, {}
        self.pids = os.path.join(site.folder, "pids")
        os.mkdir(self.pids)
        self.go = os.path.join(site.folder, "go")
        os.mkfifo(self.go, 0o644)  # Hundreds of jobs that look for a file would be a load of their own.
        for i in range(count):
            command = f"echo $$ >{self.pids}/$DIVVY_JOB_ID; read x <{self.go}; exit {i % 50 + 1}"
            job = site.divvy("submit", "--quiet", "--gpus", "1", "--", "sh", "-c", command).stdout
            self.codes[int(job)] = str(i % 50 + 1)
        self.wait_for_state("running")
        wait_for("their first lines", lambda: len(os.listdir(self.pids)) == count)

    def wait_for_state(self, state):
        def all_have_it():
            known = self.site.jobs()
            return all(known[job][0] == state for job in self.codes)
        wait_for(f"jobs that are {state}", all_have_it, 120, 0.5)

    def end(self, checks):
        # A new leader knows which jobs run only after their agents have reported.
        self.wait_for_state("running")
        touched = [job for job in self.codes if not lives(os.path.join(self.pids, str(job)))]
        checks.check(f"{len(self.codes)} running jobs are untouched", not touched, touched)
        with open(self.go, "w", encoding="utf-8"):
            pass
        self.wait_for_state("failed")
        known = self.site.jobs()
        wrong = [(job, known[job]) for job, code in self.codes.items() if known[job] != ("failed", code)]
        checks.check("their exit codes are right", not wrong, wrong)


class Faults:
    """Each fault returns what ends it, and the time after which that is due."""

    def __init__(self, site):
        self.site = site
        self.counts = {}
        self.all = (self.kill, self.kill, self.stop, self.stop, self.cut_database, self.swallow_database,
                    self.cut_commit, self.cut_commit, self.cut_others, self.swallow_others, self.fail_over,
                    self.restart_database, self.step_down, self.kill_standby,
                    self.kill_in_commit, self.fill_disk)

    def draw(self, draws):
        fault = draws.choice(self.all)
        ended = fault(draws)
        if ended is not None:
            self.counts[fault.__name__] = self.counts.get(fault.__name__, 0) + 1
        return ended

    def leader(self):
        return self.site.leader()

    def kill_one(self, one):
        pid = one.daemon()
        one.kill()

        def start():
            wait_for("the end of the process", lambda: not os.path.exists(f"/proc/{pid}"))
            one.up()
        return start

    def kill(self, draws):
        leader = self.leader()
        return leader and (self.kill_one(leader), draws.uniform(0, 3))

    def kill_standby(self, draws):
        leader = self.leader()
        others = [one for one in self.site.controllers if one is not leader and one.stands_by()]
        return (self.kill_one(draws.choice(others)), draws.uniform(0, 2)) if others else None

    def stop(self, draws):
        leader = self.leader()
        if leader is None:
            return None
        pid = leader.daemon()
        os.kill(pid, signal.SIGSTOP)

        def go_on():
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass  # Another fault has killed it.
        return go_on, draws.choice((draws.uniform(0.1, 3), draws.uniform(3, 6)))

    def cut_database(self, draws):
        leader = self.leader()
        if leader is None:
            return None
        leader.proxy.cut()
        return leader.proxy.mend, draws.uniform(0.1, 5)

    def swallow_database(self, draws):
        leader = self.leader()
        if leader is None:
            return None
        leader.proxy.swallow(*draws.choice((("up",), ("down",), ("up", "down"))))
        return leader.proxy.mend, draws.uniform(0.5, 5)

    def cut_commit(self, draws):
        leader = self.leader()
        if leader is None:
            return None
        leader.proxy.cut_after = draws.randrange(0, 40)
        return (lambda: setattr(leader.proxy, "cut_after", None)), draws.uniform(0.5, 1.5)

    def kill_in_commit(self, draws):
        leader = self.leader()
        if leader is None:
            return None
        pid = leader.daemon()
        leader.proxy.on_cut = lambda: os.kill(pid, signal.SIGKILL)
        leader.proxy.cut_after = draws.randrange(0, 40)

        def start():
            was_killed = leader.proxy.cut_after is None
            leader.proxy.cut_after = leader.proxy.on_cut = None
            if was_killed:
                wait_for("the end of the process", lambda: not os.path.exists(f"/proc/{pid}"))
                leader.up()
        return start, draws.uniform(0.5, 2)

    def cut_others(self, draws):
        leader = self.leader()
        if leader is None:
            return None
        leader.front.cut()
        return leader.front.mend, draws.uniform(0.2, 4)

    def swallow_others(self, draws):
        leader = self.leader()
        if leader is None:
            return None
        leader.front.swallow(*draws.choice((("up",), ("down",), ("up", "down"))))
        return leader.front.mend, draws.uniform(0.5, 4)

    def step_down(self, _):
        leader = self.leader()
        if leader is None:
            return None
        leader.divvy("controllers", "step-down", check=False)
        return (lambda: None), 0

    def restart_database(self, draws):
        if self.site.database.process is None:
            return None
        self.site.database.stop()
        return self.site.database.start, draws.uniform(0, 3)

    def fill_disk(self, draws):
        database = self.site.database
        if not database.is_small or database.process is None:
            return None
        database.fill()

        def free():
            database.free()
            if database is self.site.database:
                database.start()  # It ends if it cannot write its log.
        return free, draws.uniform(1, 7)

    def fail_over(self, _):
        old, new = self.site.database, self.site.standby
        if new is None or old.process is None:
            return None
        self.site.standby = None
        old.stop(signal.SIGKILL)
        new.promote()
        self.site.use_database(new)
        old.remove()
        return (lambda: None), 0


def one_history(site, faults, load, draws):
    due = []
    for _ in range(draws.randrange(1, 4)):
        time.sleep(draws.uniform(0, 1))
        drawn = faults.draw(draws)
        if drawn:
            ended, after = drawn
            due.append((time.monotonic() + after, ended))
    end = time.monotonic() + 120
    while due:
        due.sort(key=lambda one: one[0])
        at, ended = due.pop(0)
        time.sleep(max(0, at - time.monotonic()))
        try:
            ended()
        except RuntimeError:
            # A controller does not start while its database cannot be reached. Try again, as a service manager would.
            if time.monotonic() > end:
                raise
            due.append((time.monotonic() + 0.5, ended))
    healed = time.monotonic()
    site.wait_for_leader(seconds=120)
    wait_for("a submission after the faults", lambda: load.first_after(healed), 120)
    if site.standby is None:
        site.standby = site.database.add_standby()


def count_all(site, load):
    """Counts what must not happen among the submissions so far."""
    with load.lock:
        codes = dict(load.codes)
        repeated = list(load.repeated)
    known = {}

    def all_over():
        nonlocal known
        known = site.jobs("--name", "history")
        return all(known.get(job, ("", ""))[0] in ("failed", "") for job in codes)
    wait_for("the ends of all jobs", all_over, 180, 1)
    with open(load.ran, encoding="utf-8") as file:
        ran = file.read().split()
    with open(load.owned_twice, encoding="utf-8") as file:
        owned_twice = file.read().split()
    return {
        "lost acknowledged submissions": [job for job in codes if job not in known],
        "ids given out twice": repeated,
        "jobs started twice": sorted({job for job in ran if ran.count(job) > 1}) if len(ran) != len(set(ran)) else [],
        "jobs that did not run": [job for job in codes if str(job) not in set(ran)],
        "GPUs with two owners": owned_twice,
        "wrong exit codes": [(job, known[job], code) for job, code in codes.items()
                             if job in known and known[job] != ("failed", str(code))],
    }


def histories(checks, site, wishes):
    if wishes.histories == 0:
        return
    site.standby = site.database.add_standby()
    load = Load(site, wishes.seed, wishes.clients)
    faults = Faults(site)
    done, began = 0, time.monotonic()
    wrong = {}
    while done < wishes.histories and time.monotonic() - began < wishes.most_seconds:
        one_history(site, faults, load, random.Random(f"{wishes.seed}/history/{done}"))
        done += 1
        if done % 20 == 0 or done == wishes.histories:
            wrong = count_all(site, load)
            print(f"      {done} histories, {len(load.codes)} acknowledged submissions, {time.monotonic() - began:.0f} "
                  "s: " + ", ".join(f"{len(jobs)} {what}" for what, jobs in wrong.items()), flush=True)
            if any(wrong.values()):
                break
    load.end()
    wrong = count_all(site, load)
    known = site.jobs("--name", "history")
    wrong["submissions made twice"] = sorted(known)[:5] if len(known) > len(load.codes) + len(load.errors) else []
    cuts = sum(one.proxy.cuts for one in site.controllers)
    print(f"      {done} random fault histories (seed {wishes.seed}), {time.monotonic() - began:.0f} s, epoch "
          f"{site.epoch()}: {len(load.codes)} acknowledged submissions, {len(load.errors)} without an answer; " +
          ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in sorted(faults.counts.items())) +
          f"; {cuts} connections cut within a commit", flush=True)
    for what, jobs in wrong.items():
        checks.check(f"{done} histories: 0 {what}", not jobs, jobs[:5])
