"""journal.py: accepts lines over stream sockets at /run/journal, one connection at a time. Prints the uid of each
writer, as the journal would see it."""

import os
import socket
import struct

door = socket.socket(socket.AF_UNIX)
door.bind("/run/journal")
os.chmod("/run/journal", 0o666)
door.listen()
while True:
    line, _ = door.accept()
    line.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    line.settimeout(5)
    try:
        while True:
            text, extra, _, _ = line.recvmsg(4096, 256)
            if not text:
                break
            for _, kind, data in extra:
                if kind == socket.SCM_CREDENTIALS:
                    print(struct.unpack("iii", data[:12])[1], text, flush=True)
    except TimeoutError:
        pass
