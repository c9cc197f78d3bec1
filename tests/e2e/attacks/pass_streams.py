"""Sends a request to the daemon with file descriptors of the caller's choice.

pass_streams.py attach JOB OUT [RELAY]   joins the terminal of the job, with OUT as its output
pass_streams.py run OUT COMMAND...       a foreground job with OUT as standard output and a terminal

OUT, RELAY: dgram:@ADDRESS, dgram:PATH or stream:PATH, a socket connected to that address; otherwise a file that is
opened for writing. RELAY is passed as the relay of the input. Prints the first line and the body of the answer.
"""

import json
import os
import socket
import sys


def stream(text):
    kind, _, address = text.partition(":")
    if not address:
        return os.open(text, os.O_WRONLY)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM if kind == "dgram" else socket.SOCK_STREAM)
    made.connect("\0" + address[1:] if address.startswith("@") else address)
    return made.detach()


def ask(method, path, body, fds):
    daemon = socket.socket(socket.AF_UNIX)
    daemon.settimeout(10)
    daemon.connect("/run/divvy/divvy.sock")
    head = f"{method} {path} HTTP/1.1\r\nHost: divvy\r\nContent-Length: {len(body)}\r\n\r\n"
    socket.send_fds(daemon, [(head + body).encode()], fds)
    try:
        print(daemon.recv(65536).decode())
    except TimeoutError:
        print("no answer: it was taken")


quiet, held = os.pipe()
if sys.argv[1] == "attach":
    fds = [quiet, stream(sys.argv[3])]
    if len(sys.argv) > 4:
        near = [socket.socketpair() for _ in range(2)]
        fds += [os.open("/dev/null", os.O_WRONLY), stream(sys.argv[4])] + [pair[0].fileno() for pair in near]
    ask("POST", f"/v1/jobs/{sys.argv[2]}/attach", "{}", fds)
else:
    null = os.open("/dev/null", os.O_WRONLY)
    spec = {"command": sys.argv[3:], "is_foreground": True, "wants_pty": True, "directory": os.getcwd()}
    ask("POST", "/v1/jobs", json.dumps({"spec": spec}), [quiet, stream(sys.argv[2]), null])
