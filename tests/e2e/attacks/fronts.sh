#!/usr/bin/env bash
# alice disturbs bob's service through what both share: the front's connections, its processes, and the ports.
. "$(dirname "$0")/lib.sh"
[ -x /usr/sbin/haproxy ] || skip "HAProxy is not installed (apt-get install haproxy)"
python=/usr/bin/python3
$python -c 'import socket' 2>/dev/null || skip "python3 is not installed (apt-get install python3)"
ulimit -n 1024 # So the front has 262 connections.
serve '[services]' 'address = "127.0.0.1"'
# Answers at /, streams at /stream, and never answers at /mute.
install -m 644 /dev/stdin /var/lib/bin/answer.py <<'P'
import http.server, sys, time
class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        if self.path == "/mute":
            time.sleep(10000)
        self.send_response(200)
        if self.path != "/stream":
            self.send_header("Content-Length", "0")
            return self.end_headers()
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while True:
            self.wfile.write(b"2\r\nx\n\r\n")
            time.sleep(0.2)
    def log_message(self, *words): pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Answer).serve_forever()
P
# take.py PORT COUNT: opens connections with one request each until one is refused, and keeps them.
install -m 644 /dev/stdin /var/lib/bin/take.py <<'P'
import socket, sys, time
keep = []
for _ in range(int(sys.argv[2])):
    end = socket.socket()
    end.settimeout(5)
    try:
        end.connect(("127.0.0.1", int(sys.argv[1])))
        end.sendall(b"GET /mute HTTP/1.1\r\nHost: x\r\n\r\n")
    except OSError:
        break
    keep.append(end)
print("done", flush=True)
time.sleep(10000)
P
of() { divvy serve show "$1" --json | $python -c "import json,sys; print(json.load(sys.stdin)$2)"; }
is_hot() { [ "$(of "$1" '["hot"]')" = 1 ]; }
ask() { curl -s -m 20 -o /dev/null -w '%{http_code}' "http://127.0.0.1:$(of chat '["settings"]["port"]')/" || true; }

# She has all ports that replicas get first.
as alice $python - >bound <<'P' &
import os, socket, time
keep = []
for part in range(16):
    if os.fork() == 0:
        for port in range(20000 + part * 750, 20000 + (part + 1) * 750):
            end = socket.socket()
            try:
                end.bind(("127.0.0.1", port))
                keep.append(end)
            except OSError:
                pass  # Another test has it.
        os.write(1, b"bound\n")
        time.sleep(10000)
time.sleep(10000)
P
all_bound() { [ "$(grep -c bound bound)" = 16 ]; }
wait_for "alice's ports" all_bound
as bob divvy serve create chat --gpus 0 --replicas 1 --concurrency 8 -- $python /var/lib/bin/answer.py '{port}' >/dev/null
WAIT_S=60 wait_for "bob's replica" is_hot chat
for pid in $(pgrep -u alice); do kill "$pid"; done # In a PID namespace of the test.
answers() { [ "$(ask)" = 200 ]; }
wait_for "an answer of bob's service" answers

# She cannot listen at its port on IPv6, where a client may connect first.
if [ -e /proc/net/if_inet6 ]; then
  for host in :: ::1; do
    ! as alice $python - "$host" "$(of chat '["settings"]["port"]')" 2>/dev/null <<'P' || fail "alice listens at bob's port at $host"
import socket, sys
end = socket.socket(socket.AF_INET6)
end.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
end.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
end.bind((sys.argv[1], int(sys.argv[2])))
P
  done
fi

for i in 1 2 3 4 5; do
  as alice divvy serve create "e$i" --gpus 0 --replicas 1 --concurrency 1000 --answer-within 1h -- $python /var/lib/bin/answer.py '{port}' >/dev/null
done
for i in 1 2 3 4 5; do WAIT_S=60 wait_for "alice's replica" is_hot "e$i"; done

# She changes her service again and again, with a request in each process that this replaces.
curl -sN "http://127.0.0.1:$(of chat '["settings"]["port"]')/stream" >stream &
stream=$!
wait_for "bob's stream" test -s stream
mine=$(of e1 '["settings"]["port"]')
processes() { pgrep haproxy | sort || true; }
for n in $(seq 20); do
  as alice curl -sN --retry 10 --retry-delay 1 --retry-connrefused "http://127.0.0.1:$mine/stream" >"hers$n" 2>/dev/null &
  wait_for "alice's stream" test -s "hers$n"
  before=$(processes)
  as alice divvy serve update e1 --wait "$((n + 1))s" >answer 2>&1 || break
  more() { processes | grep -qvxF "$before"; } # An earlier one may end meanwhile.
  wait_for "another process" more
done
grep -q "after your last 10 changes of services, requests that began before still run" answer || fail "alice may change it $n times: $(cat answer)"
size=$(stat -c %s stream)
grows() { [ "$(stat -c %s stream)" -gt "$size" ]; }
wait_for "more of bob's stream" grows
kill -0 $stream || fail "bob's stream has ended"
as bob divvy serve update chat --wait 30s >/dev/null || fail "bob cannot change his service"

# She opens as many connections to five services as she can.
for i in 1 2 3 4 5; do
  as alice $python /var/lib/bin/take.py "$(of "e$i" '["settings"]["port"]')" 100 >"took$i" 2>&1 &
done
for i in 1 2 3 4 5; do WAIT_S=60 wait_for "alice's connections" grep -q done "took$i"; done
for _ in 1 2 3; do expect 200 "$(ask)" "bob's request beside alice's connections"; done

for service in chat e1 e2 e3 e4 e5; do divvy serve delete $service >/dev/null; done
kill $stream
echo "fronts: bob's service has answered, and his stream has lasted through $n changes of alice's"
