"""Random histories: jobs and gangs run while hosts are cut off, lossy or slow, and either side is killed."""
import os
import random
import time

from hosts import kill, wait_for

# GPUs are numbered per node. RANK is set only for gangs.
MARK = """say() { echo "$1 $DIVVY_JOB_ID ${RANK:-0} $(date +%s.%N) $DIVVY_NODE $CUDA_VISIBLE_DEVICES" >> MARKS; }
say begin; sleep SECONDS; say end; exit CODE"""


class History:
    def __init__(self, lab, cluster, seed):
        self.lab, self.cluster = lab, cluster
        self.draw = random.Random(seed)
        self.marks = os.path.join(cluster.shared, f"marks{seed}")
        self.jobs = {}  # Job id to its exit code and number of nodes.
        self.cut, self.lossy, self.slow, self.dead = set(), set(), set(), set()

    def submit(self):
        draw = self.draw
        code = draw.randrange(100)
        script = MARK.replace("MARKS", self.marks).replace("SECONDS", f"{draw.uniform(0, 1):.2f}").replace("CODE", str(code))
        nodes = draw.choice([1, 1, 1, 2, 3])
        words = ["--gpus", str(draw.choice([1, 2])), "--gpu-type", "a100"]
        if nodes > 1:
            words += ["--nodes", str(nodes), "--no-kill"]
        self.jobs[self.cluster.submit(*words, "--", "sh", "-c", script)] = (code, nodes)

    def step(self):
        draw = self.draw
        what = draw.randrange(9)
        host = draw.choice(list(self.lab.agents.values()))
        if what < 4:
            self.submit()
        elif what == 4:
            (host.join if host in self.cut else host.cut)()
            self.cut ^= {host}
        elif what == 5:
            host.lose(0 if host in self.lossy else draw.choice([5, 20]))
            self.lossy ^= {host}
        elif what == 6:
            host.slow(0 if host in self.slow else draw.choice([5, 50]))
            self.slow ^= {host}
        elif what == 7:
            if host in self.dead:
                host.start_agent()
            else:
                host.kill_agent()
            self.dead ^= {host}
        else:
            kill(self.lab.daemon_pid())
            self.lab.up()
        time.sleep(draw.uniform(0, 0.3))

    def mend(self):
        for host in self.cut:
            host.join()
        for host in self.lossy:
            host.lose(0)
        for host in self.slow:
            host.slow(0)
        for host in self.dead:
            host.start_agent()
        wait_for("all machines", self.lab.all_up, 120)

    def lines(self):
        """Returns what the jobs' processes wrote, in order: (begin or end, job, rank, time, node, GPUs)."""
        if not os.path.exists(self.marks):
            return []
        words = [line.split() for line in open(self.marks).read().split("\n")[:-1]]
        return [(w[0], int(w[1]), int(w[2]), float(w[3]), w[4], w[5].split(",")) for w in words]

    def problems(self):
        ends = {job: self.cluster.end(job, 120) for job in self.jobs}
        lines = self.lines()
        problems = owners(lines, ends)
        for job, (code, nodes) in self.jobs.items():
            begins = [line for line in lines if line[0] == "begin" and line[1] == job]
            problems += self.problems_of(job, code, nodes, ends[job], begins)
        return problems

    def problems_of(self, job, code, nodes, end, begins):
        problems = []
        how = f"{end['state']} {end['exit_code']} ({end['reason']})"
        if end["state"] in ("succeeded", "failed") and end["restarts"] == 0 and len(begins) > nodes:
            problems.append(f"job {job} began {len(begins)} times on {nodes} machines: {begins}")
        if nodes == 1:
            return problems + ([] if end["exit_code"] == code else [f"job {job} ended {how}, not {code}"])
        # A step fails with a message when its nodes cannot reach each other any more.
        has_said = end["exit_code"] == 1 and "divvy: error" in self.cluster.log(job)
        was_lost = has_said or end["state"] == "lost" or "node" in end["reason"] or "machine" in end["reason"]
        if was_lost:
            return problems
        if end["exit_code"] != code:
            problems.append(f"gang {job} ended {how}, not {code}")
        ranks = sorted(line[2] for line in begins)
        if end["restarts"] == 0 and ranks != list(range(nodes)):
            problems.append(f"gang {job} ended {how} with the parts {ranks} of {nodes}")
        if len({line[4] for line in begins}) != len(set(ranks)):
            problems.append(f"gang {job} had two parts on one machine: {begins}")
        return problems


def owners(lines, ends):
    """Finds GPUs that two jobs held at once. A killed process writes no end line; then the job's end counts."""
    problems = []
    held = {}  # (node, GPU) to the job and rank that began there last.
    for what, job, rank, when, machine, gpus in lines:
        for gpu in gpus:
            place = (machine, gpu)
            if what == "end":
                if held.get(place) == (job, rank):
                    del held[place]
                continue
            other = held.get(place)
            if other is not None and other[0] != job and (ends[other[0]].get("end_time") or when) >= when:
                problems.append(f"GPU {gpu} of {machine} was job {other[0]}'s when job {job} began there")
            held[place] = (job, rank)
    return problems


def history(checks, lab, cluster, seed):
    one = History(lab, cluster, seed)
    for _ in range(26):
        one.step()
    one.mend()
    problems = one.problems()
    checks.check(f"history {seed}: {len(one.jobs)} jobs, each once, one owner of each GPU, no exit code lost, gangs whole",
                 not problems, problems[:4])
