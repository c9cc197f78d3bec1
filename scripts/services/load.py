#!/usr/bin/env python3
"""Sends requests to a service at a given rate and prints one line of JSON.

    load.py URL --rate R --seconds S [--connections N] [--trace FILE]

The rate does not depend on the answers: a slow service gets as many requests. Answers with a status from 500 on and
broken or refused connections count as failed; the JSON has the time from the first to the last failure. With --trace,
FILE has one line "SECONDS RATE" for each part of the load.
"""
import argparse
import asyncio
import json
import time
from urllib.parse import urlparse

options = argparse.ArgumentParser()
options.add_argument("url")
options.add_argument("--rate", type=float, default=200)
options.add_argument("--seconds", type=float, default=5)
options.add_argument("--connections", type=int, default=64)
options.add_argument("--trace")
wishes = options.parse_args()
url = urlparse(wishes.url)
idle, times, failures, bodies = [], [], [], {}


async def ask():
    """One request on a connection that is idle, or on a new one."""
    began = time.monotonic()
    writer = None
    try:
        # Like every client, it opens another connection if an idle one was closed meanwhile.
        while idle:
            reader, writer = idle.pop()
            if not reader.at_eof() and not writer.is_closing():
                break
            writer.close()
            writer = None
        if writer is None:
            reader, writer = await asyncio.open_connection(url.hostname, url.port)
        writer.write(f"GET {url.path or '/'} HTTP/1.1\r\nHost: {url.netloc}\r\n\r\n".encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        length = next(int(x.split(":")[1]) for x in head.lower().split("\r\n") if x.startswith("content-length"))
        body = (await reader.readexactly(length)).decode().split(" ")[0]
        status = int(head.split(" ")[1])
        if status >= 500:
            raise OSError(f"status {status}")
        bodies[body] = bodies.get(body, 0) + 1
        times.append((began, time.monotonic() - began))
        if "connection: close" in head.lower():
            writer.close()
        else:
            idle.append((reader, writer))
    except (OSError, asyncio.IncompleteReadError) as wrong:
        failures.append((time.monotonic(), repr(wrong)))
        if writer:
            writer.close()


def parts():
    if not wishes.trace:
        return [(wishes.seconds, wishes.rate)]
    with open(wishes.trace) as file:
        return [tuple(map(float, line.split())) for line in file if line.strip()]


async def main():
    running = set()
    start = due = time.monotonic()
    end = start
    for seconds, rate in parts():
        end += seconds
        while due < end and rate > 0:
            await asyncio.sleep(max(0, due - time.monotonic()))
            task = asyncio.create_task(ask())
            running.add(task)
            task.add_done_callback(running.discard)
            due += 1 / rate
        due = max(due, end) if rate == 0 else due
        if rate == 0:
            await asyncio.sleep(max(0, end - time.monotonic()))
    if running:
        await asyncio.wait(running, timeout=120)
    ordered = sorted(took for _, took in times)
    at = lambda share: round(ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1000, 1) if ordered else None
    print(json.dumps({
        "requests": len(times) + len(failures) + len(running), "failed": len(failures) + len(running),
        "failing_s": round(failures[-1][0] - failures[0][0], 3) if failures else 0,
        "p50_ms": at(0.5), "p99_ms": at(0.99), "max_ms": at(1), "bodies": bodies,
        "errors": sorted({text for _, text in failures})[:5]}))


asyncio.run(main())
