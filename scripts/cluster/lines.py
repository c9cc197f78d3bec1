"""Delay lines between a host and the bridge. Each frame gets its own random delay, so that later frames can overtake
earlier ones. This replaces netem, which some kernels lack. Each line has two TAP devices between the host's device and
the bridge."""
import errno
import fcntl
import heapq
import itertools
import os
import random
import select
import struct
import subprocess
import threading
import time

TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI = 0x0002, 0x1000


def open_tap(name):
    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TAP | IFF_NO_PI))
    return tap


class Line:
    """The delay line of one host: frames that enter at one end leave at the other."""

    def __init__(self, tag, bridge, wire):
        self.ends = [f"ta{tag}", f"tb{tag}"]
        self.taps = [open_tap(end) for end in self.ends]
        self.small = f"lb{tag}"
        self.wire, self.bridge = wire, bridge
        self.delay_ms = 0
        for words in (("add", self.small, "type", "bridge"), ("set", self.small, "up"),
                      ("set", self.ends[0], "master", self.small, "up"), ("set", self.ends[1], "master", bridge, "up"),
                      ("set", wire, "nomaster"), ("set", wire, "master", self.small)):
            subprocess.run(["ip", "link", *words], check=True)

    def remove(self):
        subprocess.run(["ip", "link", "set", self.wire, "master", self.bridge], check=False, capture_output=True)
        for tap in self.taps:
            os.close(tap)
        subprocess.run(["ip", "link", "del", self.small], check=False, capture_output=True)


class Lines(threading.Thread):
    """Carries the frames of all lines. `carried`, `delayed` and `overtaken` count them."""

    def __init__(self, seed):
        super().__init__(daemon=True)
        self.draw = random.Random(seed)
        self.lines = []
        self.is_closed = False
        self.carried = self.delayed = self.overtaken = 0

    def run(self):
        waiting, order, newest = [], itertools.count(), {}
        ways = {line.taps[i]: (line, line.taps[1 - i]) for line in self.lines for i in (0, 1)}
        while not self.is_closed:
            pause = max(0.0, min(waiting[0][0] - time.monotonic(), 0.2)) if waiting else 0.2
            for tap in select.select(list(ways), [], [], pause)[0]:
                self.take(tap, *ways[tap], waiting, order)
            while waiting and waiting[0][0] <= time.monotonic():
                _, number, way, frame = heapq.heappop(waiting)
                self.overtaken += number < newest.get(way, 0)
                newest[way] = max(number, newest.get(way, 0))
                send(way, frame)

    def take(self, tap, line, way, waiting, order):
        for _ in range(64):  # A limit, so that the other lines get their turn.
            try:
                frame = os.read(tap, 65536)
            except OSError as error:
                if error.errno in (errno.EAGAIN, errno.EIO):
                    return
                raise
            self.carried += 1
            delay = self.draw.uniform(0, 2 * line.delay_ms) / 1000 if line.delay_ms else 0
            self.delayed += delay > 0
            heapq.heappush(waiting, (time.monotonic() + delay, next(order), way, frame))

    def close(self):
        self.is_closed = True
        if self.ident is not None:
            self.join()
        for line in self.lines:
            line.remove()


def send(tap, frame):
    try:
        os.write(tap, frame)
    except OSError:
        pass  # The other end is down or full: the frame is lost, as on a real line.
