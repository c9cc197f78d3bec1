"""The checks of scripts/test-cluster."""
import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from histories import history  # noqa: E402
from hosts import DIVVY, Lab, Waited, kill, name_of, run, wait_for  # noqa: E402


class Checks:
    def __init__(self, lab):
        self.lab = lab
        self.passed, self.failed = 0, []

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
        except (Waited, RuntimeError, KeyError, ValueError, IndexError) as error:
            self.failed.append(name)
            print(f"FAIL  {name}: {error}", flush=True)
            traceback.print_exc(file=sys.stdout)
            for words in (("queue",), ("nodes",)):
                print(self.lab.controller.divvy(*words, check=False).stdout, flush=True)


class Cluster:
    """The commands of users and their output."""

    def __init__(self, lab):
        self.lab = lab
        self.shared = os.path.join(lab.folder, "shared")
        os.makedirs(self.shared)

    def submit(self, *words):
        return int(self.lab.controller.divvy("submit", "--quiet", *words).stdout)

    def show(self, job):
        return json.loads(self.lab.controller.divvy("show", str(job), "--json").stdout)

    def state(self, job):
        shown = self.show(job)
        return (shown[0] if isinstance(shown, list) else shown)["state"]

    def job(self, job):
        shown = self.show(job)
        return shown[0] if isinstance(shown, list) else shown

    def is_over(self, job):
        return self.state(job) in ("succeeded", "failed", "cancelled", "timed_out", "lost")

    def end(self, job, seconds=60):
        wait_for(f"the end of job {job}", lambda: self.is_over(job), seconds)
        return self.job(job)

    def log(self, job):
        return self.lab.agents[self.job(job)["node"]].log_of(job)


def basics(checks, lab, cluster):
    job = cluster.end(cluster.submit("--gpus", "2", "--gpu-type", "a100", "--", "sh", "-c",
                                     'echo "$DIVVY_NODE $CUDA_VISIBLE_DEVICES"; exit 7'))
    checks.check("a job runs on an agent's machine and its exit code is known", job["exit_code"] == 7, job)
    checks.check("it has two GPUs there", len(job["gpus"]) == 2 and job["node"] in lab.agents, job)
    log = lab.agents[job["node"]].log_of(job["id"]).split()
    checks.check("it finds its machine's name and its GPUs in its environment", log[:1] == [job["node"]], log)
    several = [cluster.submit("--gpus", "4", "--gpu-type", "a100", "--", "sleep", "1") for _ in range(8)]
    ends = [cluster.end(one) for one in several]
    checks.check("8 jobs of four GPUs all end well", all(end["state"] == "succeeded" for end in ends), ends[-1])
    checks.check("they ran on more than one machine", len({end["node"] for end in ends}) > 1 or len(lab.agents) == 1)


def gangs(checks, lab, cluster):
    count = len(lab.agents)
    script = 'echo "$RANK/$WORLD_SIZE $NODE_RANK/$NNODES $MASTER_ADDR"'
    job = cluster.end(cluster.submit("--nodes", str(count), "--gpus", "2", "--gpu-type", "a100", "--tasks",
                                     str(2 * count), "--gpus-per-task", "1", "--", "sh", "-c", script))
    lines = sorted(cluster.log(job["id"]).split("\n"))[1:]
    ranks = {line.split("/")[0] for line in lines}
    checks.check(f"a gang over {count} machines ends well", job["state"] == "succeeded", job["reason"])
    checks.check("each rank spoke once", ranks == {str(i) for i in range(2 * count)} and len(lines) == 2 * count,
                 lines)
    masters = {line.split()[-1] for line in lines}
    checks.check("all know the same master, by its address", len(masters) == 1 and
                 masters <= {host.address for host in lab.agents.values()}, masters)
    job = cluster.end(cluster.submit("--nodes", "2", "--gpus", "4", "--gpu-type", "a100", "--", "sh", "-c",
                                     '[ "$RANK" = 1 ] && exit 3; exec sleep 1000'))
    checks.check("the first failing task ends the others", job["exit_code"] == 3, job)
    job = cluster.end(cluster.submit("--nodes", "2", "--gpus", "4", "--gpu-type", "a100", "--", "/no/such/program"))
    checks.check("a program that is not there undoes the gang", job["state"] == "failed", job)
    job = cluster.submit("--nodes", "2", "--gpus", "4", "--gpu-type", "a100", "--", "sleep", "1000")
    wait_for("its start", lambda: cluster.state(job) == "running")
    nodes = [place["node"] for place in cluster.job(job)["allocations"]]
    checks.check("its machines are shown", len(nodes) == 2 and len(set(nodes)) == 2, nodes)
    lab.controller.divvy("cancel", str(job))
    checks.check("cancelling ends it on both", cluster.end(job)["state"] == "cancelled")
    for name in nodes:
        left = run("ip", "netns", "pids", lab.agents[name].space).stdout.split()
        sleepers = [pid for pid in left if "sleep" in name_of(pid)]
        checks.check(f"nothing of it is left on {name}", not sleepers, sleepers)


def slurm(checks, lab, cluster):
    path = os.path.join(lab.controller.folder, "two.sh")
    with open(path, "w") as script:
        script.write("#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=2 --gpus-per-node=2\n"
                     "echo batch $SLURM_NNODES $SLURM_NTASKS\nsrun sh -c 'echo task $SLURM_PROCID $SLURM_NODEID'\n")
    job = cluster.end(cluster.submit(path))
    out = os.path.join(lab.controller.folder, f"slurm-{job['id']}.out")
    lines = open(out).read().split("\n")
    checks.check("a Slurm script's batch runs once", lines[0] == "batch 2 4", lines)
    checks.check("its srun starts tasks on both machines", sorted(lines[1:5]) == [
        "task 0 0", "task 1 0", "task 2 1", "task 3 1"], lines)


def mpi(checks, lab, cluster):
    path = os.path.join(lab.controller.folder, "mpi.sh")
    with open(path, "w") as script:
        script.write("#!/bin/bash\n#DIVVY --nodes 2 --tasks 4 --gpus 2 --gpu-type a100\n"
                     "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1\n"
                     "mpirun --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0 "
                     "sh -c 'echo mpi $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE on $DIVVY_NODE'\n")
    job = cluster.end(cluster.submit(path), 90)
    log = cluster.log(job["id"])
    lines = sorted(line for line in log.split("\n") if line.startswith("mpi"))
    checks.check("mpirun inside a job starts its ranks on both machines by divvy", job["state"] == "succeeded" and
                 len(lines) == 4 and len({line.split()[-1] for line in lines}) == 2, (job["reason"], log))
    ring = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mpi_ring.py")
    with open(path, "w") as script:
        script.write("#!/bin/bash\n#DIVVY --nodes 2 --tasks 4 --gpus 2 --gpu-type a100\n"
                     "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1\n"
                     "mpirun --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0 --mca btl tcp,self "
                     f"{sys.executable} {ring}\n")
    job = cluster.end(cluster.submit(path), 90)
    log = cluster.log(job["id"])
    # mpirun may print the end of a line after the next line.
    lines = sorted(re.findall(r"ring (\d) of 4 got (\d) sum 6 on (n\d)", log))
    checks.check("a program of MPI passes messages between its ranks on both machines", job["state"] == "succeeded" and
                 [line[:2] for line in lines] == [(str(i), str((i - 1) % 4)) for i in range(4)] and
                 len({line[2] for line in lines}) == 2, (job["reason"], log))


def absences(checks, lab, cluster, short, seconds):
    name = next(iter(lab.agents))
    host = lab.agents[name]
    flag = os.path.join(cluster.shared, "go")
    wait = f"until [ -e {flag} ]; do sleep 0.05; done; exit 9"
    job = cluster.submit("--gpus", "1", "--nodelist", name, "--", "sh", "-c", wait)
    wait_for("its start", lambda: cluster.state(job) == "running")
    host.kill_agent()
    open(flag, "w").close()
    host.start_agent()
    checks.check("an exit code outlives the agent's kill -9", cluster.end(job)["exit_code"] == 9)
    os.unlink(flag)
    job = cluster.submit("--gpus", "1", "--nodelist", name, "--", "sh", "-c", wait)
    wait_for("its start", lambda: cluster.state(job) == "running")
    host.cut()
    open(flag, "w").close()
    wait_for("the cut to be seen", lambda: lab.nodes().get(name) in ("away", "lost"), 90)
    host.join()
    checks.check("an exit code outlives a partition", cluster.end(job, 120)["exit_code"] == 9)
    os.unlink(flag)
    # 200 jobs run from before the controller's absence: as many as there are GPUs with one GPU each, the others
    # without.
    count = 40 if short else 200
    jobs = {}
    slots = sum(lab.gpus for _ in lab.agents)
    for number in range(count):
        has_gpu = number < slots
        where = ("--gpus", "1", "--gpu-type", "a100") if has_gpu else ("--nodelist", list(lab.agents)[number % len(lab.agents)])
        jobs[cluster.submit(*where, "--", "sh", "-c", f"until [ -e {flag} ]; do sleep 1; done; "
                            f"sleep {random.uniform(0, seconds):.2f}; exit {number % 100}")] = number % 100
    wait_for("their start", lambda: all(cluster.state(one) == "running" for one in jobs), 120)
    open(flag, "w").close()
    kill(lab.daemon_pid())
    time.sleep(seconds)
    lab.up()
    wrong = [(one, cluster.end(one, 120)["exit_code"], code) for one, code in jobs.items()
             if cluster.end(one, 120)["exit_code"] != code]
    checks.check(f"{len(jobs)} running jobs on {len(lab.agents)} machines end correctly while the controller is "
                 f"dead for {seconds} s", not wrong, wrong[:5])
    wait_for("all machines", lab.all_up, 60)


def speed(checks, lab, cluster):
    times = []
    for _ in range(5):
        job = cluster.end(cluster.submit("--nodes", str(len(lab.agents)), "--gpus", "1", "--gpu-type", "a100", "--",
                                         "true"))
        times.append(job["start_time"] - job["submit_time"])
    print(f"      a gang over {len(lab.agents)} machines: submit to start {statistics.median(times) * 1000:.0f} ms "
          f"(median of 5)")
    began = time.monotonic()
    array = cluster.submit("--gpus", "1", "--gpu-type", "a100", "--array", "0-499", "--", "true")
    cluster.end(array, 120)
    print(f"      500 jobs of one GPU on {len(lab.agents)} x {lab.gpus} GPUs: "
          f"{500 / (time.monotonic() - began):.0f} jobs/s")


def delayed(checks, lab, cluster):
    """Runs over a connection with 200 ms of delay in both directions (a proxy; the kernel may lack netem)."""
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hosts.py")
    wire = subprocess.Popen(lab.controller.words(sys.executable, here, lab.controller.address, "7448", "7447", "100"))
    try:
        name, host = next(iter(lab.agents.items()))
        host.kill_agent()
        state = os.path.join(host.folder, "agent/agent.state")
        text = open(state).read()
        with open(state, "w") as file:
            file.write(text.replace(":7447", ":7448"))
        host.start_agent()
        wait_for(name, lambda: lab.nodes().get(name) == "up")
        ends = [cluster.end(cluster.submit("--gpus", "1", "--nodelist", name, "--", "sh", "-c", f"exit {code}"))
                for code in range(5)]
        checks.check("over a line of 100 ms each way jobs end with their codes", [
            end["exit_code"] for end in ends] == list(range(5)), ends[-1])
        host.kill_agent()
        text = open(state).read()
        with open(state, "w") as file:
            file.write(text.replace(":7448", ":7447"))
        host.start_agent()
        wait_for(name, lambda: lab.nodes().get(name) == "up")
    finally:
        wire.kill()
        wire.wait()


def once(checks, lab, cluster, short, absence):
    checks.section("jobs", lambda: basics(checks, lab, cluster))
    checks.section("gangs", lambda: gangs(checks, lab, cluster))
    checks.section("Slurm", lambda: slurm(checks, lab, cluster))
    checks.section("MPI", lambda: mpi(checks, lab, cluster))
    checks.section("delay", lambda: delayed(checks, lab, cluster))
    checks.section("absences", lambda: absences(checks, lab, cluster, short, absence))
    checks.section("speed", lambda: speed(checks, lab, cluster))


def repeat(checks, lab, cluster, seed, histories):
    if histories < 1:
        return
    has_lines = lab.lengthen(seed)
    if not has_lines:
        print("      there is no /dev/net/tun: in these histories lines are cut and lose packets, and none is slow", flush=True)
    for number in range(seed, seed + histories):
        checks.section(f"history {number}", lambda number=number: history(checks, lab, cluster, number))
    if not has_lines:
        return
    lines = lab.lines
    print(f"      {lines.carried} frames between agents and controller, {lines.delayed} delayed, {lines.overtaken} overtaken "
          "by a later one", flush=True)
    checks.check("lines were slow, and frames overtook each other", histories < 6 or lines.overtaken > 0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--histories", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--agents", type=int, help="machines (8; 4 with --short)")
    parser.add_argument("--gpus", type=int, help="of each (16; 8 with --short)")
    parser.add_argument("--absence", type=int, help="seconds for which the controller is dead (300; 10 with --short)")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--only", action="store_true", help="the histories alone")
    asked = parser.parse_args()
    histories = asked.histories if asked.histories is not None else (6 if asked.short else 100)
    agents = asked.agents or (4 if asked.short else 8)
    gpus = asked.gpus or (8 if asked.short else 16)
    absence = asked.absence or (10 if asked.short else 300)
    lab = Lab(agents, gpus, asked.keep)
    checks = Checks(lab)
    print(f"{DIVVY}: a controller and {agents} machines with {gpus} GPUs each, in {lab.folder}", flush=True)
    try:
        lab.up()
        lab.join_all()
        cluster = Cluster(lab)
        checks.section("join", lambda: wait_for("all machines", lab.all_up))
        if not asked.only:
            once(checks, lab, cluster, asked.short, absence)
        repeat(checks, lab, cluster, asked.seed, histories)
    finally:
        lab.close()
    print(f"{checks.passed} passed, {len(checks.failed)} failed")
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
