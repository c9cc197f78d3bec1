"""Leaves a receiver with the last copy of a descriptor whose close(2) blocks for a day.

lingering.py stream|seqpacket|dgram ADDRESS SECONDS

Connects to ADDRESS ("@NAME": abstract), sends the descriptor with bytes that are not a request, and closes it and the
connection. Prints "sent", or the error, and keeps the other end of the socket open for SECONDS.
"""

import os
import socket
import struct
import sys
import time

kind, address, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
listener.bind(("127.0.0.1", 0))
listener.listen(1)
# In a child, because the sockets of a process that ends do not linger.
if os.fork() == 0:
    ours = socket.create_connection(listener.getsockname())
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 86400))
    ours.setblocking(False)
    try:
        while True:
            ours.send(b"x" * 65536)
    except BlockingIOError:
        pass
    link = socket.socket(socket.AF_UNIX, getattr(socket, "SOCK_" + kind.upper()))
    said = "sent"
    try:
        link.connect("\0" + address[1:] if address.startswith("@") else address)
        socket.send_fds(link, [b"GARBAGE\r\n\r\n"], [ours.fileno()])
    except OSError as error:
        said = error.strerror
    print(said, flush=True)
    os._exit(0)
theirs, _ = listener.accept()
os.wait()
time.sleep(seconds)
