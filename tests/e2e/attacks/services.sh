#!/usr/bin/env bash
# bob runs a service with a certificate and tokens. alice may use it with a token. She cannot change, stop or read it, and
# cannot answer its requests.
. "$(dirname "$0")/lib.sh"
[ -x /usr/sbin/haproxy ] || skip "HAProxy is not installed (apt-get install haproxy)"
python=/usr/bin/python3
$python -c 'import socket' 2>/dev/null || skip "python3 is not installed (apt-get install python3)"
serve '[services]' 'address = "127.0.0.1"'

# Answers with its user. After /close it does not listen any more, and lives.
install -m 644 /dev/stdin /var/lib/bin/answer.py <<'P'
import http.server, os, socket, sys, time
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = f"{sys.argv[2]} {self.headers.get('Authorization')}\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.server.is_open = self.path != "/close"
    def log_message(self, *words):
        print("asked for", self.path, flush=True)
server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Answer)
server.is_open = True
while server.is_open:
    server.handle_request()
server.server_close()
time.sleep(10000)
P
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=chat -addext subjectAltName=IP:127.0.0.1 \
  -keyout key.pem -out cert.pem 2>/dev/null || skip "openssl is not installed (apt-get install openssl)"
cat cert.pem key.pem >/var/lib/home/bob/both.pem
echo bobs-token-123456789-abc >/var/lib/home/bob/tokens
chown bob:bob /var/lib/home/bob/both.pem /var/lib/home/bob/tokens
chmod 600 /var/lib/home/bob/both.pem /var/lib/home/bob/tokens
as bob divvy serve create chat --gpus 0 --replicas 1 --wait 2s --ready-within 1h --tls-cert both.pem --token-file tokens --new-token -- \
  $python /var/lib/bin/answer.py '{port}' bob-secret-argument >created || fail "bob cannot create a service"
made=$(sed -n 's/^its new token, which is not shown again: //p' created)
field() { divvy serve show chat --json | $python -c "import json,sys; print(json.load(sys.stdin)$1)"; }
is_hot() { [ "$(field '["hot"]')" = 1 ]; }
WAIT_S=60 wait_for "bob's replica" is_hot
front=$(field '["settings"]["port"]') job=$(field '["replicas"][0]["job"]') address=$(field '["replicas"][0]["address"]')
port=${address#*:}
ask() { curl -s -m 30 -o answer -w '%{http_code}' --cacert cert.pem "$@" || true; }
expect 401 "$(ask "https://127.0.0.1:$front/")" "a request without a token"
answers() { [ "$(ask -H "Authorization: Bearer $made" "https://127.0.0.1:$front/")" = 200 ]; }
wait_for "an answer" answers
expect "bob-secret-argument None" "$(cat answer)" "the answer of bob's replica, which sees no token"

# alice cannot change it.
denied() {
  local words=$1
  shift
  ! as alice "$@" >message 2>&1 || fail "alice may: $*"
  grep -qF -- "$words" message || fail "$* says: $(cat message)"
}
owner="belongs to bob; only its owner and administrators may"
denied "$owner" divvy serve update chat -- true
denied "$owner" divvy serve scale chat 0..5
denied "$owner" divvy serve rollback chat
denied "$owner" divvy serve promote chat
denied "$owner" divvy serve delete chat
denied "there is a service chat of bob" divvy serve create chat -- true
denied "is that of service chat" divvy serve create other --port "$front" -- true
denied "" divvy cancel "$job"
printf 'services:\n  - {name: chat, command: "true", no-tokens: true, no-tls: true}\n' >/var/lib/home/alice/services.yaml
denied "$owner" divvy serve apply services.yaml
api() { as alice curl -sS --unix-socket /run/divvy/divvy.sock "$@"; }
api http://divvy/v1/services/chat/definition | grep -qF "$owner" || fail "alice reads the definition"
api -X POST -d '{"settings":{"name":"chat"},"spec":{"command":["true"]},"secrets":{"removes_tokens":true,"makes_token":true}}' \
  http://divvy/v1/services/chat | grep -qF "$owner" || fail "alice changes tokens by the API"
expect 401 "$(ask "https://127.0.0.1:$front/")" "a request without a token, after all that"

# alice cannot read it: its output, its command, its key, its tokens or their hashes.
denied "" divvy serve logs chat
! log_by_api alice "$job" | grep -q "asked for" || fail "alice reads the output of bob's replica"
hash=$(printf %s "$made" | sha256sum | cut -d' ' -f1)
{ as alice divvy serve show chat; as alice divvy serve show chat --json; as alice divvy serve list --json; api http://divvy/metrics; } >seen
for text in secret-argument bobs-token "$made" "$hash" "${hash^^}" "PRIVATE KEY"; do
  ! grep -qF -- "$text" seen || fail "alice sees $text"
done
secrets=$(ls /var/lib/divvy/services/cert-* /var/lib/divvy/services/tokens-* /var/lib/divvy/services/requests /var/lib/divvy/services/front-*.sock)
[ "$(wc -l <<<"$secrets")" = 4 ] || fail "the files of the front are: $secrets"
for file in $secrets; do
  ! as alice cat "$file" >/dev/null 2>&1 || fail "alice reads $file"
  ! as alice sh -c ": >>'$file'" 2>/dev/null || fail "alice writes $file"
  expect "divvy 600" "$(stat -c '%U %a' "$file")" "owner and mode of $file"
done
! as alice $python -c "import socket; socket.socket(socket.AF_UNIX).connect('$(grep sock <<<"$secrets")')" 2>/dev/null ||
  fail "alice commands HAProxy"
fronts=$(pgrep haproxy) || fail "no HAProxy runs"
for pid in $fronts; do
  ! tr '\0' '\n' <"/proc/$pid/cmdline" | grep -qF -e "$made" -e bobs-token || fail "a token is an argument of HAProxy"
  ! as alice cat "/proc/$pid/environ" >/dev/null 2>&1 || fail "alice reads the environment of HAProxy"
  expect divvy "$(stat -c %U "/proc/$pid")" "the user of HAProxy"
done
! grep -rlF -e "$made" -e bobs-token /var/lib/divvy || fail "a token is in the daemon's files"

# alice cannot answer its requests: neither at the front's port, nor at that of a replica that has closed it.
! as alice $python - "$front" 2>/dev/null <<'P' || fail "alice shares the front's port"
import socket, sys
end = socket.socket()
end.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
end.bind(("127.0.0.1", int(sys.argv[1])))
P
! timeout 5 setpriv --reuid=alice --regid=alice --clear-groups $python /var/lib/bin/answer.py "$port" alice 2>/dev/null ||
  fail "alice shares the replica's port"
expect 200 "$(ask -H "Authorization: Bearer $made" "https://127.0.0.1:$front/close")" "the last request to bob's replica"
setpriv --reuid=alice --regid=alice --clear-groups $python /var/lib/bin/answer.py "$port" alice >/dev/null 2>&1 &
taken() { divvy serve show chat | grep -q "no process of its owner listens at its port; it gets no requests"; }
wait_for "divvy to see who listens" taken
no_more() { expect 503 "$(ask -H "Authorization: Bearer $made" "https://127.0.0.1:$front/")" "a request without bob's replica"; }
no_more
no_more
! grep -q alice answer || fail "alice answers: $(cat answer)"
kill %1 2>/dev/null || true
as bob divvy serve delete chat >/dev/null
gone() { [ "$(divvy serve list --json)" = "[]" ] && [ -z "$(ls /var/lib/divvy/services/cert-* /var/lib/divvy/services/tokens-* 2>/dev/null)" ]; }
WAIT_S=60 wait_for "the end of the service and its files" gone
wait_for "the end of HAProxy" sh -c '! pgrep haproxy >/dev/null'
echo "services: alice has changed nothing, read nothing and answered nothing of bob's"
