#!/usr/bin/env python3
"""divvy top on its own terminal: keys, other window sizes, and its end.

    top_keys.py DIVVY     for a daemon with 16 GPUs, a running job "train" and a waiting one "later"; when the file
                          "more" exists, the daemon gets another job, "another"

Only changes are sent. The whole screen is sent when the help closes, so the checks look for it then.
"""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time

MOST_SECONDS = 30


class Terminal:
    def __init__(self, command, rows, columns):
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            # The first screen already has the right size.
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            os.environ["TERM"] = "xterm"
            os.environ.pop("LINES", None)
            os.environ.pop("COLUMNS", None)
            os.execv(command[0], command)
        self.text = ""

    def read(self, seconds):
        if not select.select([self.master], [], [], seconds)[0]:
            return True
        try:
            more = os.read(self.master, 65536)
        except OSError:  # The program has ended.
            return False
        self.text += more.decode("utf-8", "replace")
        return bool(more)

    def shows(self, *pieces):
        """Waits until all patterns have appeared since the last key, in any order."""
        end = time.monotonic() + MOST_SECONDS
        while not all(re.search(piece, re.sub(r"\x1b\[[0-9;]*m", "", self.text)) for piece in pieces):
            if time.monotonic() > end or not self.read(0.2):
                sys.exit(f"FAILED: waited in vain for {pieces} in {self.text!r}")

    def types(self, keys):
        self.text = ""
        os.write(self.master, keys.encode())

    def whole_screen(self):
        self.types("?")
        self.shows("Usage: divvy top", "any key: back")
        self.types(" ")

    def resize(self, rows, columns):
        self.text = ""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.shows(r"\x1b\[2J")

    def lowest_row(self):
        return max((int(row) for row in re.findall(r"\x1b\[(\d+)(?:;\d+)?[Hd]", self.text)), default=0)

    def code(self):
        end = time.monotonic() + MOST_SECONDS
        while self.read(0.1):
            if time.monotonic() > end:
                os.kill(self.pid, signal.SIGKILL)
                sys.exit(f"FAILED: it did not end: {self.text!r}")
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


top = Terminal([sys.argv[1], "top"], 24, 80)
top.shows("and 6 more GPUs: ", "train", "later", " q quit ")
top.whole_screen()
top.shows("16 of 16 GPUs taken", "and 6 more GPUs: ", " q quit ")
top.types("s")
top.shows("sorted by GPUs")
top.resize(20, 60)
top.whole_screen()
top.shows("sorted by GPUs", "and 8 more GPUs: ", "train", "later", " q quit ")
if top.lowest_row() > 20:
    sys.exit(f"FAILED: drew line {top.lowest_row()} of 20: {top.text!r}")
top.resize(24, 80)
top.whole_screen()
top.shows("sorted by GPUs", "and 6 more GPUs: ", " q quit ")
if top.lowest_row() != 24:
    sys.exit(f"FAILED: drew {top.lowest_row()} lines of 24: {top.text!r}")
# A question stays below the screen, which continues to update, in a window of any size. One key answers it.
top.types("\x1bOH")  # Home: the first job.
top.types("c")
top.shows(r"Cancel 1 \(train\)\?", "y yes")
top.types("n")
top.types("\x1bOF")  # End: the waiting job.
top.types("c")
top.shows(r"Cancel 2 \(later\)\?", "y yes")
top.types("hzq")
top.resize(20, 60)
top.shows("train", "later", "sorted by GPUs", r"Cancel 2 \(later\)\?", "y yes  n no")
if top.lowest_row() != 20:
    sys.exit(f"FAILED: drew line {top.lowest_row()} of 20 below a question: {top.text!r}")
top.text = ""
open("more", "w").close()
top.shows("another")
top.types("n")
top.shows(" q quit ")
top.resize(24, 80)
top.types("a")
top.whole_screen()
top.shows("sorted by GPUs", " q quit ")
if "more GPUs" in top.text:
    sys.exit(f"FAILED: 'a' does not show all GPUs: {top.text!r}")
# Escape removes everything that was selected.
top.types("t")
top.shows("1 job, 16 GPUs")
top.types("\x1b")
top.shows("more GPUs")
top.whole_screen()
top.shows("and 6 more GPUs: ", " q quit ")
if "sorted by" in top.text or "1 job, 16 GPUs" in top.text:
    sys.exit(f"FAILED: Escape leaves an order or a tree: {top.text!r}")
# A log starts on its own lines, below the earlier content of the terminal.
top.types("\x1bOH")
top.types("l")
top.shows(r"(\r\n){24}\x1b\[Hbegun")
top.types("\x03")
top.shows(" q quit ")
top.types("x")
top.shows("no key 'x'")
top.types("q")
code = top.code()
if code != 0:
    sys.exit(f"FAILED: ended with {code}: {top.text!r}")
if "\x1b[?1049l" not in top.text:
    sys.exit(f"FAILED: does not give the terminal back: {top.text!r}")
print("top: keys, sizes and end are right")
