"""latency.py SOCKET COUNT: prints the median and the worst time of GET /v1/status over new connections, in ms. Fails if
one is refused."""
import socket
import sys
import time

times = []
for _ in range(int(sys.argv[2])):
    begun = time.monotonic()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        connection.connect(sys.argv[1])
        connection.sendall(b"GET /v1/status HTTP/1.1\r\nConnection: close\r\n\r\n")
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
    if not answer.startswith(b"HTTP/1.1 200"):
        sys.exit("refused: %r" % answer[:300])
    times.append((time.monotonic() - begun) * 1000)
times.sort()
print("median %.2f ms, worst %.2f ms" % (times[len(times) // 2], times[-1]))
