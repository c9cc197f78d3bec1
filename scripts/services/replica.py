#!/usr/bin/env python3
"""A replica for tests of services: an HTTP server on $PORT that may hold memory of a GPU and uses it for each request.

    replica.py [--delay S] [--load S] [--vram BYTES] [--version TEXT] [--flap] [--crash S] [--leak]

GET /healthz answers at once; any other path after --delay seconds and a use of the GPU. With --leak, each of these keeps
20 MB. /headers answers with the request, /stream in chunks, and /ws answers a WebSocket handshake and echoes what comes.
/drop closes the connection without an answer while the file `drop` exists, which it removes. Each request to it is a line
on standard output.
"""
import argparse
import asyncio
import base64
import ctypes
import hashlib
import os
import sys
import time

options = argparse.ArgumentParser()
options.add_argument("--delay", type=float, default=0.01)
options.add_argument("--load", type=float, default=0)
options.add_argument("--vram", type=int, default=0)
options.add_argument("--version", default="1")
options.add_argument("--flap", action="store_true")
options.add_argument("--crash", type=float, default=0)
options.add_argument("--leak", action="store_true")
wishes = options.parse_args()


class Gpu:
    """Memory of a GPU, written once, so that a copy of it is a real copy."""

    def __init__(self, size):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.context, self.at = ctypes.c_void_p(), ctypes.c_uint64()
        for status in (
            self.cuda.cuInit(0),
            self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(self.context), 0),
            self.cuda.cuCtxSetCurrent(self.context),
            self.cuda.cuMemAlloc_v2(ctypes.byref(self.at), ctypes.c_size_t(size)),
            self.cuda.cuMemsetD8_v2(self.at, ctypes.c_ubyte(7), ctypes.c_size_t(size)),
        ):
            if status:
                sys.exit(f"CUDA error {status}")

    def use(self):
        """Reads a byte of it: waits until the memory is on the GPU."""
        self.cuda.cuCtxSetCurrent(self.context)  # A context belongs to a thread.
        byte = ctypes.c_ubyte()
        status = self.cuda.cuMemcpyDtoH_v2(ctypes.byref(byte), self.at, ctypes.c_size_t(1))
        return status == 0 and byte.value == 7


time.sleep(wishes.load)
gpu = Gpu(wishes.vram) if wishes.vram else None
checks = 0
leaked = []


def answer(status, body, extra=""):
    return (f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n{extra}\r\n").encode() + body


async def echo(reader, writer, key):
    digest = hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()
    writer.write(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "
        + base64.b64encode(digest) + b"\r\n\r\n")
    while data := await reader.read(4096):
        writer.write(data)
        await writer.drain()


async def serve(reader, writer):
    global checks
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            lines = head.split("\r\n")
            path = lines[0].split(" ")[1]
            headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines[1:]) if k}
            await reader.readexactly(int(headers.get("content-length", 0)))
            if path == "/healthz":
                checks += 1
                bad = wishes.flap and checks > 3
                writer.write(answer("500 Flapping" if bad else "200 OK", b"ok\n"))
            elif path == "/drop":
                print(lines[0], flush=True)
                if os.path.exists("drop"):
                    os.remove("drop")
                    return
                writer.write(answer("200 OK", b"ok\n"))
            elif path == "/headers":
                writer.write(answer("200 OK", head.encode("latin-1")))
            elif path == "/ws":
                return await echo(reader, writer, headers["sec-websocket-key"])
            elif path == "/stream":
                writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                for part in (b"one", b"two", b"three"):
                    writer.write(b"%x\r\n%s\r\n" % (len(part), part))
                    await writer.drain()
                    await asyncio.sleep(0.05)
                writer.write(b"0\r\n\r\n")
            else:
                if wishes.leak:
                    leaked.append(bytearray(20_000_000))
                await asyncio.sleep(wishes.delay)
                good = gpu is None or await asyncio.get_running_loop().run_in_executor(None, gpu.use)
                body = f"{wishes.version} {os.environ.get('DIVVY_SERVICE_REPLICA', '')}\n".encode()
                writer.write(answer("200 OK" if good else "500 GPU", body))
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main():
    server = await asyncio.start_server(serve, os.environ.get("HOST", "127.0.0.1"), int(os.environ["PORT"]))
    if wishes.crash:
        await asyncio.sleep(wishes.crash)
        sys.exit(9)
    await server.serve_forever()


asyncio.run(main())
