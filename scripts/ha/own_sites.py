"""Checks that need a site of their own."""
import json
import os
import time

from histories import Load, RunningJobs, count_all
from patroni_cluster import PatroniCluster, missing
from site_parts import DIVVY, Controller, Site, wait_for

OLD = os.environ.get("DIVVY_OLD", "")


def patroni(checks, wishes):
    """Patroni and etcd keep the database. Its primary fails in several ways, and comes back as the standby."""
    why = missing()
    if why:
        checks.skip("patroni", why)
        return
    site = Site(PatroniCluster)
    try:
        site.start(4, "16xH100-80GB")
        fail_overs(checks, site, wishes)
        if checks.failed:
            print(site.database.log() + site.log(), flush=True)
    except BaseException:
        print(site.database.log() + site.log(), flush=True)
        raise
    finally:
        site.close(wishes.keep)


def fail_overs(checks, site, wishes):
    cluster = site.database

    def begin_again(machine):
        machine.start()
        machine.start_etcd()
        machine.start_patroni()
    faults = (
        ("kill -9 of Patroni and PostgreSQL", lambda one: one.kill_services(), lambda one: one.start_patroni()),
        ("the primary's machine is off", lambda one: one.kill(), begin_again),
    )
    running = RunningJobs(site, 20)
    load = Load(site, wishes.seed, wishes.clients)
    wait_for("the first submissions", lambda: len(load.codes) > wishes.clients)
    for what, fault, mend in faults:
        old, refused = cluster.primary(), len(load.errors)
        began = time.monotonic()
        fault(old)
        new = wait_for("the next primary", lambda: cluster.primary(but=old), 180)
        promoted = time.monotonic() - began
        after = wait_for("the next acknowledged submission", lambda: load.first_after(began), 120)
        print(f"      {what}: another primary after {promoted:.1f} s, next acknowledged submission after "
              f"{after - began:.1f} s, {len(load.errors) - refused} refused", flush=True)
        mend(old)
        cluster.wait_for_standby()
        checks.check(f"{what}: it is a standby of the new primary",
                     (old.role(), new.role()) == ("sync_standby", "primary"), (old.role(), new.role()))
    load.end()
    print("      refusals: " + "; ".join(sorted(set(load.errors))), flush=True)
    site.divvy("controllers", "step-down")  # The next leader knows only what is in the database.
    check_end(checks, site, running, load)


def check_end(checks, site, running, load):
    site.wait_for_leader()
    running.end(checks)
    for name, jobs in count_all(site, load).items():
        checks.check(f"{len(load.codes)} acknowledged submissions: 0 {name}", not jobs, jobs[:5])


def versions(checks, wishes):
    """Controllers of DIVVY_OLD are replaced by the program to test, one after the other, while jobs are submitted."""
    if not OLD:
        checks.skip("versions", "DIVVY_OLD names the divvy of another release; scripts/test-versions builds one")
        return
    site = Site(program=OLD)
    try:
        site.start(2, "16xH100-80GB")
        rolling_upgrade(checks, site, wishes)
        refuses_newer_schema(checks, site)
        if checks.failed:
            print(site.log(), flush=True)
    finally:
        site.close(wishes.keep)


def upgrade(checks, one):
    before = os.readlink(f"/proc/{one.daemon()}/exe")
    one.divvy("down")
    one.program = DIVVY
    one.up()
    wait_for("it as a standby", one.stands_by)
    after = os.readlink(f"/proc/{one.daemon()}/exe")
    checks.check(f"controller {one.name_of_folder} ran the old program, and runs the new one", before != after and
                 (before, after) == (os.path.realpath(OLD), os.path.realpath(DIVVY)), (before, after))


def check_reads(checks, standby, job, what):
    """A standby answers a read with its age, or refuses it with a reason."""
    def answer():
        status, headers, body = standby.ask_locally(f"/v1/jobs/{job}")
        return (status, headers, body) if status != 404 else None  # It has not followed so far.
    status, headers, body = wait_for("the job at the standby", answer)
    answers = status == 200 and "Divvy-Age" in headers and json.loads(body)["id"] == job
    if not answers:
        print(f"      {what} refuses reads: {status} {body.strip()[:300]}", flush=True)
    checks.check(f"{what} answers reads, or says why it does not", answers or (status >= 400 and "version" in body),
                 (status, headers, body[:300]))


def rolling_upgrade(checks, site, wishes):
    schema = site.schema()
    running = RunningJobs(site, 20)
    load = Load(site, wishes.seed, wishes.clients)
    wait_for("the first submissions", lambda: len(load.codes) > wishes.clients)
    leader = site.wait_for_leader()
    job = next(iter(running.codes))
    for one in site.controllers:
        if one is not leader:
            upgrade(checks, one)
            check_reads(checks, one, job, f"new standby {one.name_of_folder} of an old leader")
    began = time.monotonic()
    leader.divvy("controllers", "step-down")
    handed = time.monotonic()
    new = site.wait_for_leader(but=leader)
    after = wait_for("the next acknowledged submission", lambda: load.first_after(handed))
    print(f"      step-down of the old leader: next acknowledged submission after {after - began:.1f} s; schema "
          f"version {schema}, now {site.schema()}", flush=True)
    checks.check("a new version leads", new.program == DIVVY, new.program)
    check_reads(checks, leader, job, f"old standby {leader.name_of_folder} of a new leader")
    upgrade(checks, leader)
    load.end()
    checks.check("no submission was refused", not load.errors, load.errors[:3])
    site.divvy("controllers", "step-down")  # The next leader knows only what is in the database.
    check_end(checks, site, running, load)


def refuses_newer_schema(checks, site):
    """As the schemas of two releases may be the same, the database says here that it has a newer one."""
    version = site.schema()
    older = Controller(site, "older")
    older.join(site.controllers[0])
    newer = 99
    site.database.sql(f"UPDATE divvy.meta SET value = {newer} WHERE key = 'schema_version'")
    done = older.divvy("up", "--quiet", check=False)
    site.database.sql(f"UPDATE divvy.meta SET value = {version} WHERE key = 'schema_version'")
    reason = f"written by a newer divvy (schema version {newer}, this divvy supports up to"
    checks.check("an old controller refuses a newer schema, and names both versions",
                 done.returncode != 0 and reason in done.stderr, done.stderr)
