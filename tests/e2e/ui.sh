#!/usr/bin/env bash
# The HTTP access to the web page as a browser uses it, with curl: a link works once, requests need cookie and secret,
# and other host names and other pages are refused. A session survives a kill -9 if a service manager holds the port
# meanwhile; otherwise it ends. No secret is in logs or in the store.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
command -v curl >/dev/null || skip "curl is not installed (apt-get install curl)"
command -v python3 >/dev/null || skip "python3 is not installed (apt-get install python3)"

manager=$(mktemp -d)
python3 "$here/service_manager.py" keep "$manager" >"$manager/said" &
manager_pid=$!
trap 'clean_up; kill $manager_pid; rm -rf "$manager"' EXIT
wait_for "the service manager" grep -q ready "$manager/said"
is_up() { divvy status; }
# up_managed: starts the daemon as a unit of the service manager.
up_managed() {
  python3 "$here/service_manager.py" start "$manager" divvy up --foreground --emulate 2xH100-80GB 2>>daemon.log
  wait_for "the daemon" is_up
}
end_daemon() {
  local pid
  pid=$(daemon_pid)
  kill -9 "$pid"
  wait_for "the daemon's end" sh -c "! kill -0 $pid"
}
up_managed
link=$(divvy ui --no-open 2>said)
grep -q 'good for one login' said || fail "divvy ui says: $(cat said)"
base=${link%%/#*} secret=${link##*=}
echo "$base" | grep -qE '^http://127\.0\.0\.1:[0-9]+$' || fail "the link is '$link'"
port=${base##*:}

# ask PATH [CURL ARGUMENTS...]: prints the status. The body is in `answer`, the headers are in `headers`.
ask() { curl -s -o answer -D headers -w '%{http_code}' "${@:2}" "$base$1"; }
login() { ask /ui/login -c "${2:-jar}" -H 'Divvy-Page: login' -H 'Content-Type: application/json' -d "$1"; }

expect 200 "$(ask /)" "the page"
grep -qi "content-security-policy: default-src 'none'" headers || fail "no policy: $(cat headers)"
grep -q '<script type="module"' answer || fail "it is no page: $(cat answer)"
for file in app.js app.css icon.svg; do expect 200 "$(ask /$file)" "$file"; done
expect 200 "$(ask /app.js --compressed -H 'Accept-Encoding: gzip')" "the script, packed"
[ "$(gzip -9c answer | wc -c)" -lt 250000 ] || fail "the script is larger than 250 kB"
expect 401 "$(ask /v1/status)" "the API without a login"
expect 403 "$(ask / -H 'Host: evil.example')" "another name"

expect 200 "$(login "{\"link\":\"$secret\"}")" "the login"
page=$(grep -o '"page":"[0-9a-f]*"' answer | cut -d'"' -f4)
grep -qi 'set-cookie:.*HttpOnly; SameSite=Strict' headers || fail "the cookie: $(cat headers)"
expect 401 "$(login "{\"link\":\"$secret\"}" /dev/null)" "the link once more"
in=(-b jar -H "Divvy-Page: $page")
expect 200 "$(ask /v1/status "${in[@]}")" "the API with a login"
expect 401 "$(ask /v1/status -b jar)" "with the cookie alone"
expect 403 "$(ask /v1/status "${in[@]}" -H 'Origin: http://evil.example')" "from another page"
expect 403 "$(ask /v1/jobs/cancel "${in[@]}" -H 'Sec-Fetch-Site: cross-site' -d '{}')" "a change from another page"
expect 200 "$(ask /v1/ui/me "${in[@]}")" "who it is"
grep -q "\"user\":\"$(id -un)\".*\"is_admin\":true" answer || fail "me: $(cat answer)"

# The same permissions as on the command line: submits a job as oneself, in the home directory, and cancels it.
expect 200 "$(ask /v1/jobs "${in[@]}" -d '{"spec":{"command":["sh","-c","echo from the page; sleep 1000"],"request":{"gpus":1},"name":"paged"}}')" "a submission"
job=$(grep -o '"id":[0-9]*' answer | head -n 1 | cut -d: -f2)
wait_for "its start" state_is "$job" running
wait_for "its log" sh -c "divvy logs $job | grep -q 'from the page'"
expect 200 "$(ask /v1/jobs/cancel "${in[@]}" -d "{\"select\":{\"ids\":[\"$job\"]},\"grace_s\":0}")" "its end"
wait_for "its end" state_is "$job" cancelled
grep -q '"from":"127.0.0.1","asked":"POST /v1/jobs/cancel"' audit.log || fail "the audit log has nothing of it"

# Killed and restarted: the page has the same port and the session is still valid. The log and the store contain no
# secret.
end_daemon
(exec 3<>"/dev/tcp/127.0.0.1/$port") || fail "the port was free while the daemon was away"
up_managed
expect 200 "$(ask /v1/status "${in[@]}")" "the session after a restart"
for word in "$secret" "$page" "$(grep -o 'divvy-[0-9]*.*' jar | cut -f2 | cut -d. -f2)"; do
  [ ${#word} = 64 ] || fail "no secret: '$word'"
  ! grep -q "$word" audit.log daemon.log || fail "a secret is in a log"
  ! grep -aq "$word" divvy.db divvy.db-wal || fail "a secret is in the store"
done
expect 200 "$(ask /ui/logout "${in[@]}" -d '{}')" "the logout"
expect 401 "$(ask /v1/status "${in[@]}")" "after the logout"

# Without a service manager, another process could have listened on the port while the daemon was away, and received the
# secrets.
link=$(divvy ui --no-open 2>said)
expect 200 "$(login "{\"link\":\"${link##*=}\"}")" "the next login"
in=(-b jar -H "Divvy-Page: $(grep -o '"page":"[0-9a-f]*"' answer | cut -d'"' -f4)")
expect 200 "$(ask /v1/status "${in[@]}")" "the API with the next login"
end_daemon
divvy up --quiet --emulate 2xH100-80GB
wait_for "the page" sh -c "divvy ui --no-open | grep -q ':'"
link=$(divvy ui --no-open 2>said)
base=${link%%/#*}
expect 401 "$(ask /v1/status "${in[@]}")" "the session after the port was free"
port=${base##*:}

# Settings in divvy.toml: a fixed port from the start, off, and TLS only if it is on.
! divvy ui --remote 2>said || fail "a link over TLS where there is none"
grep -q 'remote = true in \[ui\]' said || fail "says of TLS: $(cat said)"
divvy down >/dev/null
printf '[ui]\nlisten = "off"\n' >divvy.toml
divvy up --quiet --emulate 2xH100-80GB
! divvy ui 2>said || fail "a link where the page is off"
grep -q 'the page is off' said || fail "says of off: $(cat said)"
divvy down >/dev/null
printf '[ui]\nlisten = "0.0.0.0:%s"\n' "$port" >divvy.toml
! divvy up --quiet --emulate 2xH100-80GB 2>said || fail "the page is open to the network"
grep -q "divvy.toml:2: listen: .* is not a loopback address" said || fail "says of 0.0.0.0: $(cat said)"
printf '[ui]\nlisten = "127.0.0.1:%s"\n' "$port" >divvy.toml
divvy up --quiet --emulate 2xH100-80GB
expect 200 "$(ask /)" "the page where divvy.toml says"
