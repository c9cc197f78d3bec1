"""One user requests more than the daemon can serve: crowding.py SOCKET PORT TLS_PORT.

Opens 4,100 idle connections, 100 unfinished bodies of 32 MiB, and 1,024 TCP connections from many loopback addresses to
each port, and submits as fast as the daemon accepts, up to 1,000 jobs a second. Prints "ready" once it holds all of
that, and exits when its input ends."""
import resource
import select
import socket
import sys
import threading
import time

path, ports = sys.argv[1], [int(port) for port in sys.argv[2:]]
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
held = []


def local():
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(2)
    connection.connect(path)
    return connection


def flood_submissions():
    body = b'{"spec": {"command": ["true"], "directory": "/", "is_held": true}}'
    request = b"POST /v1/jobs HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    connection, begun, sent = local(), time.monotonic(), 0
    connection.setblocking(False)
    while True:
        due = int((time.monotonic() - begun) * 1000) - sent
        readable, _, _ = select.select([connection], [], [], 0.01)
        try:
            if readable and not connection.recv(1 << 20):
                return
            for _ in range(min(due, 100)):
                if connection.send(request) < len(request):
                    return
                sent += 1
        except BlockingIOError:
            pass
        except OSError:
            return


def keep_flooding():
    while True:
        try:
            flood_submissions()
        except OSError:
            time.sleep(0.01)


# Started first, so that its connection is among those that are served.
threading.Thread(target=keep_flooding, daemon=True).start()
for _ in range(100):
    try:
        connection = local()
        held.append(connection)
        connection.sendall(b"POST /v1/jobs HTTP/1.1\r\nContent-Length: 33554432\r\n\r\n")
        for _ in range(64):
            connection.sendall(b" " * 65536)
    except OSError:
        pass
for _ in range(4100):
    try:
        held.append(local())
    except OSError:
        pass
for port in ports:
    for i in range(1024):
        try:
            connection = socket.socket()
            connection.settimeout(2)
            connection.bind(("127.0.0.%d" % (2 + i % 200), 0))
            connection.connect(("127.0.0.1", port))
            held.append(connection)
        except OSError:
            pass
print("ready", flush=True)
sys.stdin.read()
