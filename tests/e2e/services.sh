#!/usr/bin/env bash
# Services behind HAProxy: requests under load, an update and its rollback, kills of HAProxy and of the daemon, scaling
# to zero and back, parking, mistakes, and what a deletion leaves. Skipped if HAProxy is missing and cannot be unpacked.
root=$(cd "$(dirname "$0")/../.." && pwd)
(. "$root/scripts/lib.sh" && unpack_haproxy) || { echo "skipped: HAProxy is not installed"; exit 77; }
. "$root/scripts/lib.sh"
unpack_haproxy
. "$root/tests/e2e/lib.sh"
# Options of curl: the front may open a port only two seconds after its last change.
patient="--retry 10 --retry-delay 1 --retry-connrefused"
replica="python3 $root/scripts/services/replica.py"
port=
up() { up_at "$port" --emulate 2xH100-80GB; }
with_machines
service_field() { divvy serve show "$1" --json | python3 -c "import json,sys; print(json.load(sys.stdin)['$2'])"; }
service_is() { [ "$(service_field "$1" "$2")" = "$3" ]; }
url_of() { service_field "$1" url; }
front_pids() { pgrep -f "haproxy.*-f $DIVVY_HOME/services/front-" || true; }
# load SECONDS RATE FILE: in the background
load() { python3 "$root/scripts/services/load.py" "$url" --seconds "$1" --rate "$2" >"$3" & load=$!; }
of() { python3 -c "import json; print(json.load(open('$1'))['$2'])"; }
end_services() {
  for name in $(divvy serve list --csv -o name 2>/dev/null | tail -n +2); do divvy serve delete "$name" >/dev/null 2>&1 || true; done
  for _ in $(seq 100); do
    [ "$(divvy serve list --json 2>/dev/null || echo '[]')" != "[]" ] || break
    sleep 0.1
  done
  for pid in $(front_pids); do kill "$pid" 2>/dev/null || true; done
}
trap 'end_services; clean_up; end_agents; rm -rf "$machines"' EXIT
refused() {
  local words=$1
  shift
  ! divvy serve "$@" >message 2>&1 || fail "took: $*"
  expect 1 "$(wc -l <message)" "lines about: $*"
  grep -qF -- "$words" message || fail "$* says: $(cat message)"
}
printf '[prices]\ndefault = 2\n[preemption]\npreempts = true\n' >"$DIVVY_HOME/divvy.toml"
up

# A service answers, streams, and carries WebSockets. Each replica has its own port.
divvy serve create chat --replicas 2 --concurrency 16 --health /healthz --idle 1h --gpus 0.1 -- $replica >created
grep -q "http://127.0.0.1:" created || fail "create says: $(cat created)"
WAIT_S=60 wait_for "two ready replicas" service_is chat hot 2
url=$(url_of chat)
expect 200 "$(curl $patient -s -o answer -w '%{http_code}' "$url")" "the first request"
expect onetwothree "$(curl $patient -s "${url}stream")" "a stream"
python3 - "$url" <<'P' || fail "no WebSocket"
import socket, sys
from urllib.parse import urlparse
url = urlparse(sys.argv[1])
end = socket.create_connection((url.hostname, url.port))
end.sendall(b"GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
end.settimeout(10)
assert b" 101 " in end.recv(4096)
end.sendall(b"frames")
assert end.recv(4096) == b"frames"
P

# 200 requests a second while a new revision is rolled out: none fails.
load 10 200 rolled
divvy serve update chat -- $replica --version 2 >/dev/null
WAIT_S=60 wait_for "the second revision" service_is chat state hot
wait $load
expect 0 "$(of rolled failed)" "failed requests during an update ($(cat rolled))"
[ "$(of rolled requests)" -ge 1500 ] || fail "too few requests: $(cat rolled)"
expect 2 "$(curl $patient -s "$url" | cut -d' ' -f1)" "the version"
# Latency is counted for each request, and the cost is that of the replicas' time.
all_counted() { [ "$(service_field chat recent_requests)" -ge "$(of rolled requests)" ]; }
wait_for "the times of all requests" all_counted
python3 - "$(divvy serve show chat --json)" "$(of rolled requests)" <<'P' || fail "show says: $(divvy serve show chat)"
import json, sys
view, requests = json.loads(sys.argv[1]), int(sys.argv[2])
assert requests <= view["recent_requests"] <= requests + 20, view["recent_requests"]
assert 0.009 <= view["latency_p50_s"] <= view["latency_p95_s"] <= view["latency_p99_s"] < 60
assert 0.009 <= view["first_byte_p50_s"] <= view["latency_p99_s"] + 0.1
assert view["gpus"] > 0 and view["cost_per_hour"] > 0 and view["cost_per_1000_requests"] > 0
P
divvy serve show chat | grep -qE "latency p50 [0-9]+ ms, p95 .*, p99" || fail "show says: $(divvy serve show chat)"
metrics=$(curl $patient -s --unix-socket "$DIVVY_HOME/divvy.sock" http://divvy/metrics)
grep -qE 'divvy_service_request_seconds_count\{service="chat"\} [0-9]{4}' <<<"$metrics" || fail "no histogram of chat"
grep -q 'divvy_service_latency_quantile_seconds{service="chat",quantile="0.99"}' <<<"$metrics" || fail "no quantile of chat"

# A revision that never becomes ready is rolled back by itself, and one that was healthy by command.
divvy serve update chat -- false >/dev/null
rolled_back() { divvy serve show chat | grep -q "revision 3 was rolled back to 2: replica .* exited with code 1 before it was ready"; }
WAIT_S=60 wait_for "the rollback" rolled_back
expect 200 "$(curl $patient -s -o answer -w '%{http_code}' "$url")" "a request after the rollback"
divvy serve rollback chat 1 >/dev/null
is_version() { [ "$(curl $patient -s "$url" | cut -d' ' -f1)" = "$1" ] && service_is chat state hot; }
WAIT_S=60 wait_for "the first revision" is_version 1

# A canary gets its share of the requests until it is promoted, and none fails.
divvy serve update chat --canary 30% -- $replica --version 3 >message
grep -q "30% of the requests go to revision" message || fail "update says: $(cat message)"
has_canary() { divvy serve show chat --json | python3 -c 'import json,sys; c=json.load(sys.stdin)["canary"]; sys.exit(not (c and c["hot"]))'; }
WAIT_S=60 wait_for "a ready canary" has_canary
share_of() { python3 -c "import json; b=json.load(open('$1'))['bodies']; print(round(100 * b.get('$2', 0) / sum(b.values())))"; }
canary_answers() { [ "$(for _ in 1 2 3 4 5 6 7 8 9 10; do curl -s "$url"; done | grep -c '^3 ')" -gt 0 ]; }
wait_for "an answer of the canary" canary_answers
load 5 200 canary
wait $load
expect 0 "$(of canary failed)" "failed requests with a canary ($(cat canary))"
share=$(share_of canary 3)
[ "$share" -ge 22 ] && [ "$share" -le 38 ] || fail "a canary of 30% gets $share%: $(cat canary)"
divvy serve show chat | grep -qE "canary: revision [0-9]+ gets 30% of the requests; 1 hot" || fail "show says: $(divvy serve show chat)"
divvy serve update chat --canary 50% | grep -q "gets 50% of the requests" || fail "no other share"
wait_for "the other share" sh -c 'divvy serve show chat | grep -q "gets 50% of the requests; 1 hot"'
load 8 200 promoted
divvy serve promote chat >/dev/null
WAIT_S=60 wait_for "the promoted revision" is_version 3
wait $load
expect 0 "$(of promoted failed)" "failed requests while a canary is promoted ($(cat promoted))"
refused "has no canary" promote chat
refused "has no canary whose share could change" update chat --canary 10%
refused "is not a share: expected 1% to 99%" update chat --canary 100% -- true
# One that never becomes ready ends by itself, and one is taken back by command.
divvy serve update chat --canary 10% -- false >/dev/null
canary_failed() { divvy serve show chat | grep -q "a canary, was rolled back to"; }
WAIT_S=60 wait_for "the end of a bad canary" canary_failed
divvy serve update chat --canary 10% -- $replica --version 4 >/dev/null
WAIT_S=60 wait_for "another canary" has_canary
divvy serve rollback chat | grep -q "rolled back the canary" || fail "no rollback"
divvy serve show chat | grep -q ", withdrawn: .*(canary: it was rolled back)" || fail "it is shown as: $(divvy serve show chat)"
WAIT_S=60 wait_for "two replicas" service_is chat state hot
# A canary of 10% would answer at least one of them with a probability of 88%.
all_version_3() { for _ in $(seq 20); do [ "$(curl $patient -s "$url" | cut -d' ' -f1)" = 3 ] || return 1; done; }
WAIT_S=60 wait_for "20 answers in a row of version 3" all_version_3

# kill -9 of HAProxy: it is replaced within a second. kill -9 of the daemon: no request fails, and HAProxy is adopted.
# A change is applied 2 s after the one before.
front_settled() { [ "$(front_pids | wc -l)" = 1 ] && ! grep -q "backend c_" "$DIVVY_HOME"/services/front-*.cfg; }
wait_for "the end of the process with the canary" front_settled
pid=$(front_pids)
load 6 100 killed_front
sleep 2
kill -9 "$pid"
replaced() { [ -n "$(front_pids)" ] && ! [ "$(front_pids)" = "$pid" ]; }
wait_for "another HAProxy" replaced
wait $load
python3 -c "assert $(of killed_front failing_s) <= 1, '''$(cat killed_front)'''" || fail "HAProxy was away too long"
pid=$(front_pids)
load 6 200 killed_daemon
kill -9 "$(daemon_pid)"
up
wait $load
expect 0 "$(of killed_daemon failed)" "failed requests while the daemon was killed ($(cat killed_daemon))"
expect "$pid" "$(front_pids)" "the pid of HAProxy after a restart of the daemon"
expect 2 "$(service_field chat hot)" "replicas after a restart of the daemon"

# A request to which a replica gives no answer is repeated, but only if that cannot do something twice.
touch drop
expect 200 "$(curl $patient -s -o answer -w '%{http_code}' "${url}drop")" "a GET that is repeated"
touch drop
expect 502 "$(curl -s -o answer -w '%{http_code}' -d text "${url}drop")" "a POST that is not"
lines_of() { divvy serve logs chat "$1" | grep -c "$2" || true; }
posts=0 gets=0
for number in $(divvy serve show chat --json | python3 -c 'import json,sys; print(*[r["number"] for r in json.load(sys.stdin)["replicas"]])'); do
  gets=$((gets + $(lines_of "$number" "GET /drop"))) posts=$((posts + $(lines_of "$number" "POST /drop")))
done
expect "2 1" "$gets $posts" "requests that reached replicas"

# To zero and back: the first request waits for a replica.
divvy serve create cold --replicas 0..2 --idle 1s --down-delay 1s --no-park -- $replica >/dev/null
expect cold "$(service_field cold state)" "a service without requests"
url=$(url_of cold)
expect 200 "$(curl $patient -s -m 60 -o answer -w '%{http_code}' "$url")" "the first request to a cold service"
WAIT_S=60 wait_for "no replica" service_is cold state cold
divvy serve show cold | grep -q "0 -> 1: load" || fail "no reason: $(divvy serve show cold)"
explained() { divvy why "$1" --json | grep -qF -- "$2"; }
explained cold "Service cold is cold: it has no replica, and the next request starts one." || fail "why says: $(divvy why cold)"

# The number of replicas follows a metric that they print. A service whose metric never comes says so.
echo 5 >depth
divvy serve create metric --replicas 1..3 --target-metric depth --target 10 -- \
  sh -c "while sleep 0.2; do echo \"{\\\"depth\\\": \$(cat $PWD/depth)}\"; done & exec $replica" >/dev/null
WAIT_S=60 wait_for "the metric of its replica" service_is metric metric 5
expect 1 "$(service_field metric hot)" "replicas for a small metric"
echo 25 >depth.new && mv depth.new depth
WAIT_S=60 wait_for "replicas for a large metric" service_is metric hot 3
wait_for "the sum of their values" service_is metric metric 75
divvy serve show metric | grep -q "depth: 75, target 10 per replica" || fail "show says: $(divvy serve show metric)"
divvy serve update metric --target-metric other >/dev/null
wait_for "a note about the metric" service_is metric note \
  "no replica reports a number from 0 on as 'other' (NaN does not count); until one does, the number of replicas stays"
explained metric "Service metric is hot: 3 replicas are ready. The problem: no replica reports a number from 0 on as 'other'" ||
  fail "why says: $(divvy why metric)"
divvy serve delete metric >/dev/null

# A replica with GPU memory is parked when it is idle, and the first request wakes it. The other services answer.
divvy serve create parks --replicas 0..1 --idle 2s --down-delay 1s --gpus 0.5 --wake-within 30s -- $replica --vram 200000000 >/dev/null
url=$(url_of parks)
expect 200 "$(curl $patient -s -m 60 -o answer -w '%{http_code}' "$url")" "the first request to a service with a GPU"
WAIT_S=60 wait_for "a parked replica" service_is parks state parked
job=$(divvy serve show parks --json | python3 -c 'import json,sys; print(json.load(sys.stdin)["replicas"][0]["job"])')
divvy why "$job" | grep -q "parked" || fail "why says: $(divvy why "$job")"
explained parks "Service parks is parked: its GPU memory is on the host, and the next request wakes it." ||
  fail "why says: $(divvy why parks)"
expect 200 "$(curl $patient -s -m 60 -o answer -w '%{http_code}' "$url")" "a request to a parked replica"
woken() { divvy serve show parks | grep -q "is awake after"; }
wait_for "the time that it needed" woken

# Mistakes: one clear sentence each.
refused "--replicas 3..1 is not allowed: expected MIN..MAX with 0 <= MIN <= MAX" create bad --replicas 3..1 -- true
refused "--port 80 is not allowed: expected 1024 to 65535" create bad --port 80 -- true
refused "service name 'Bad_Name' is not allowed" create Bad_Name -- true
refused "there is a service chat of" create chat -- true
refused "is not a path: expected '/'" create bad --health $'/a\n  server evil 1.2.3.4:1' -- true
refused "is not a number" create bad --target nan -- true
refused "is that of service chat" create bad --port "$(url_of chat | grep -oE '[0-9]+/' | tr -d /)" -- true
refused "there is no service 'nothing'" show nothing
refused "has no revision 99" rollback chat 99
refused "nothing to run" create bad
# Another daemon of the same user does not share a port.
taken=$(url_of chat | grep -oE '[0-9]+/' | tr -d /)
other=$(mktemp -d)
DIVVY_HOME=$other divvy up --quiet --emulate 1xH100-80GB
! DIVVY_HOME=$other divvy serve create other --port "$taken" -- true 2>message || fail "two daemons share port $taken"
grep -q "port $taken cannot be used on this machine" message || fail "says: $(cat message)"
DIVVY_HOME=$other divvy down >/dev/null
rm -rf "$other"
divvy serve create never --ready-within 2s --replicas 1 -- sleep 1000 >/dev/null
says() { divvy serve show "$1" | grep -q -- "$2"; }
wait_for "the reason of never" says never "did not answer on port [0-9]* within 2 s; it must listen on the port in \$PORT"
explained never "The problem: replica 1 (job " || fail "why says: $(divvy why never)"
job=$(divvy serve show never --json | grep -oE 'replica 1 is job [0-9]+' | grep -oE '[0-9]+$')
wait_for "the end of that replica" explained "$job" "stopped by service never: it did not answer on port"
divvy serve create flap --health /healthz --replicas 1 -- $replica --flap >/dev/null
WAIT_S=60 wait_for "the reason of flap" says flap "its health check fails; it gets no requests until it succeeds"
explained flap "The problem: replica 1: its health check fails" || fail "why says: $(divvy why flap)"
# Its memory grows with each request until it is killed. The reason stays while the next replica runs.
divvy serve create leak --replicas 1 --memory 100M -- $replica --leak >/dev/null
WAIT_S=60 wait_for "a ready replica of leak" service_is leak hot 1
for _ in 1 2 3 4 5 6; do curl $patient -s -m 60 -o answer "$(url_of leak)" || true; done
WAIT_S=60 wait_for "the reason of leak" explained leak "was killed because it exceeded its memory; see divvy logs"
WAIT_S=60 wait_for "another replica of leak" service_is leak hot 1
explained leak "was killed because it exceeded its memory; see divvy logs" || fail "why says: $(divvy why leak)"
divvy serve delete leak >/dev/null
divvy serve create small --max-body 10 --replicas 1 -- $replica >/dev/null
WAIT_S=60 wait_for "a ready replica" service_is small hot 1
expect 413 "$(curl $patient -s -o answer -w '%{http_code}' -d 'more than ten bytes' "$(url_of small)")" "a large body"
wait_for "the reason of 413" explained small "1 request in the last 5 min got 413, because the body is larger than --max-body 10 bytes"

# Tokens and TLS: without a token the answer is 401, with one the replica does not see it, and no file has it.
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1 \
  -keyout key.pem -out cert.pem 2>/dev/null
cat cert.pem key.pem >both.pem
echo a-token-of-mine-1234567 >tokens
divvy serve create safe --tls-cert both.pem --token-file tokens --new-token --replicas 1 -- $replica >created
grep -q "https://127.0.0.1:" created || fail "create says: $(cat created)"
token=$(sed -n 's/^its new token, which is not shown again: //p' created)
expect 64 "${#token}" "characters of a new token"
WAIT_S=60 wait_for "a ready replica of safe" service_is safe hot 1
url=$(url_of safe)
status() { curl -s $patient -o answer -w '%{http_code}' --cacert cert.pem "$@"; }
expect 401 "$(status "$url")" "a request without a token"
expect 401 "$(status -H "Authorization: Bearer a-token-of-mine-123456" "$url")" "a request with another token"
expect 401 "$(status -H "Authorization: Basic a-token-of-mine-1234567" "$url")" "a request with another scheme"
expect 200 "$(status -H "Authorization: Bearer a-token-of-mine-1234567" "$url")" "a request with a token"
expect 200 "$(status -H "Authorization: bearer $token" "${url}headers")" "a request with the new token"
! grep -qi authorization answer || fail "the replica sees the token: $(cat answer)"
grep -qi "^host:" answer || fail "the replica sees no headers: $(cat answer)"
expect 000 "$(status "http:${url#https:}" || true)" "a request without TLS"
! grep -rqF -e "$token" -e a-token-of-mine "$DIVVY_HOME" --include='*' --exclude=tokens --exclude=created --exclude-dir=emulate ||
  fail "a token is in $(grep -rlF -e "$token" -e a-token-of-mine "$DIVVY_HOME")"
expect "" "$(find "$DIVVY_HOME/services" -type f -perm /077)" "files that others can read"
refused "the private key belongs to another certificate" update safe --tls-cert <(openssl ecparam -genkey -name prime256v1 -noout; cat cert.pem)
refused "expected 20 to 200 letters" update safe --token-file <(echo short)
divvy serve update safe --no-tls --no-tokens >/dev/null
url=$(url_of safe)
opened() { [ "$(curl $patient -s -o answer -w '%{http_code}' "$url")" = 200 ]; }
wait_for "the service without tokens" opened
wait_for "no file of secrets" sh -c '[ -z "$(find "$DIVVY_HOME/services" -name "cert-*" -o -name "tokens-*")" ]'
divvy serve delete safe >/dev/null

# Services from a file. Applying it again changes nothing.
cat >services.yaml <<Y
services:
  - name: filed
    command: $replica
    replicas: 1..2
    health: /healthz
Y
divvy serve apply services.yaml >/dev/null
WAIT_S=60 wait_for "a ready replica of filed" service_is filed hot 1
expect "service filed: unchanged" "$(divvy serve apply services.yaml)" "the second apply"
divvy serve scale filed 2 >/dev/null
WAIT_S=60 wait_for "two replicas of filed" service_is filed hot 2
printf 'services:\n  - name: filed\n    command: x\n    replica: 3\n' >wrong.yaml
refused "wrong.yaml:2: service 'filed': unknown option '--replica'; did you mean --replicas?" apply wrong.yaml
printf 'services:\n  - {name: filed, command: x, new-token: true}\n' >wrong.yaml
refused "wrong.yaml:2: service 'filed': the key new-token is not for a file" apply wrong.yaml
printf 'services:\n  - {name: filed, command: x, canary: 10%%}\n' >wrong.yaml
refused "wrong.yaml:2: service 'filed': the key canary is not for a file" apply wrong.yaml

# A service goes before batch jobs that agreed to that: its first request preempts one, which runs again later.
for name in chat parks; do divvy serve delete "$name" >/dev/null; done
batch=$(divvy submit --quiet --gpus 2 --preemptible requeue -- sleep 1000)
divvy serve create urgent --replicas 0..1 --gpus 1 --priority 5 --idle 1s --down-delay 1s --no-park -- $replica >/dev/null
WAIT_S=60 wait_for "the batch job" state_is "$batch" running
expect 200 "$(curl $patient -s -m 60 -o answer -w '%{http_code}' "$(url_of urgent)")" "a request that preempts a batch job"
[ "$(field "$batch" restarts)" = 1 ] || fail "it was not preempted: $(divvy show "$batch")"
WAIT_S=60 wait_for "the batch job again" state_is "$batch" running
divvy cancel "$batch" --grace 0 >/dev/null

# Replicas on another node answer at the same port.
(umask 077 && divvy token create --node >node.token 2>/dev/null)
on n1 agent --join-file "$PWD/node.token" --name n1 --emulate 2xA100-40GB --detach --quiet
wait_for "the other node" sh -c 'divvy nodes | grep -q "^n1 *up"'
divvy serve create far --replicas 2 --gpus 1 --nodelist n1 --health /healthz -- $replica >/dev/null
WAIT_S=60 wait_for "two replicas on another node" service_is far hot 2
expect n1 "$(divvy show far --json | grep -oE '"node":"[^"]*"' | head -1 | cut -d'"' -f4)" "the node of a replica"
expect 200 "$(curl $patient -s -o answer -w '%{http_code}' "$(url_of far)")" "a request to another node"
divvy serve delete far >/dev/null
wait_for "the end of far" sh -c '! divvy serve list | grep -q far'

# Deletion leaves nothing: no replica, no HAProxy, no row, no free port taken.
for name in cold never flap small filed urgent; do divvy serve delete "$name" >/dev/null; done
WAIT_S=60 wait_for "no service" sh -c '[ "$(divvy serve list --json)" = "[]" ]'
wait_for "no replica" queue_is_empty
no_front() { [ -z "$(front_pids)" ]; }
wait_for "no HAProxy" no_front
expect "" "$(find "$DIVVY_HOME/services" -name 'front-*.cfg' -o -name '*.sock')" "files of HAProxy"
echo "services: 0 failed of $(of rolled requests) requests in an update, 0 of $(of killed_daemon requests) at a kill of the daemon; HAProxy was away for $(of killed_front failing_s) s"
