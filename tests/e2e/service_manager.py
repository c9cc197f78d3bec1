#!/usr/bin/env python3
"""The part of a service manager that keeps file descriptors for a daemon while it restarts (sd_notify's FDSTORE).

  service_manager.py keep DIRECTORY            keeps descriptors until it is killed; prints "ready" when it listens
  service_manager.py start DIRECTORY COMMAND   starts the command with the kept descriptors, detached from this process
"""
import os
import select
import socket
import sys


def keep(directory):
    notices = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notices.bind(os.path.join(directory, "notify"))
    starts = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    starts.bind(os.path.join(directory, "start"))
    starts.listen()
    kept = {}
    print("ready", flush=True)
    while True:
        ready, _, _ = select.select([notices, starts], [], [])
        if notices in ready:
            text, descriptors, _, _ = socket.recv_fds(notices, 4096, 8)
            fields = dict(line.split("=", 1) for line in text.decode().splitlines())
            if "FDSTOREREMOVE" in fields and fields["FDNAME"] in kept:
                os.close(kept.pop(fields["FDNAME"]))
            if "FDSTORE" in fields:
                kept[fields["FDNAME"]] = descriptors[0]
        elif starts in ready:
            connection, _ = starts.accept()
            socket.send_fds(connection, [":".join(kept).encode() + b"\n"], list(kept.values()))
            connection.close()


def start(directory, command):
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(os.path.join(directory, "start"))
    names, descriptors, _, _ = socket.recv_fds(connection, 4096, 8)
    connection.close()
    for number, descriptor in enumerate(descriptors, start=3):
        os.dup2(descriptor, number, inheritable=True)
        if descriptor != number:
            os.close(descriptor)
    if os.fork() > 0:
        os._exit(0)
    os.setsid()
    os.environ["NOTIFY_SOCKET"] = os.path.join(directory, "notify")
    if descriptors:
        os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(descriptors)), LISTEN_FDNAMES=names.decode().strip())
    os.execvp(command[0], command)


if sys.argv[1] == "keep":
    keep(sys.argv[2])
start(sys.argv[2], sys.argv[3:])
