"""Acts as the user of a compromised daemon or agent towards its launcher. Attack scripts are appended to this file.

The first argument is an authorization (right) in hexadecimal digits. The numbers match those in
platform/supervisor/root_errand.cc and platform/supervisor/launch_message.h.
"""

import array, os, socket, struct, sys

BOBS = bytes.fromhex(sys.argv[1])
NONE = bytes(64)
RIGHT, SIGNAL, START, RIGHT_BY_NAME, READ_LOG = 2, 6, 7, 13, 14


def errand(kind, uid=-1, gid=-1, right=NONE, job=0, signal=0, choice=0, text=b"", fd=None):
    """Sends a request. Returns the answer: (refused, errno, value, text, descriptor, right)."""
    link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    link.connect("/run/divvy-launcher/errands")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    header = struct.pack("=IIqq64sQQiIII", 0xD1FE0001, kind, uid, gid, right, job, 0, signal, choice, len(text), 0)
    fds = array.array("i", [theirs.fileno()] + ([fd] if fd is not None else []))
    link.sendmsg([header + text], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
    theirs.close()
    ours.settimeout(20)
    data, control, _, _ = ours.recvmsg(1 << 18, socket.CMSG_SPACE(8))
    if not data:
        return None
    error, refusal, value, given_right, size, _ = struct.unpack("=iIq64sII", data[:88])
    opened = None
    for level, what, given in control:
        opened = array.array("i", given[:4])[0]
    return refusal == 1, error, value, data[88 : 88 + size].decode(errors="replace"), opened, given_right


def read_file(uid, gid, right, path):
    """Asks for the start of a file. Returns (refused, whether it was read)."""
    refused, error, *_ = errand(READ_LOG, uid, gid, right, text=struct.pack("=qqQQ", 0, -1, 4096, 0) + path)
    return refused, not refused and error == 0


def launch(uid, gid, right):
    """Returns true if the launcher refuses the launch."""
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    link.settimeout(20)
    link.connect("/run/divvy-launcher/launches")
    assert link.recv(1) == b"\0"
    pid = link.recv(8, socket.MSG_WAITALL)
    assert len(pid) == 8, pid
    link.send(struct.pack("=IIQqqII64sIIQ", 0xD1FF0003, 0, 7, uid, gid, 0, 0, right, 0, 0, 0))
    (sequence,) = struct.unpack("=Q", link.recv(8, socket.MSG_WAITALL))
    return sequence == 7 | 1 << 63


def check(what, good):
    if not good:
        sys.exit("not so: " + what)
