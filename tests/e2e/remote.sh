#!/usr/bin/env bash
# A command line on another machine: it connects over TLS with a token, may do what its user may, and reads logs. A
# client without a valid token, or of the wrong controller, is told so and gets nothing else. Also over a kill -9 of the
# daemon.
. "$(dirname "$0")/lib.sh"

port=
up_listening
divvy status | grep -q "listens *127.0.0.1:$port (TLS" || fail "status does not say where it listens"

umask 077
divvy token create --label laptop >user.token 2>said
grep -q 'for .*, role user' said || fail "says of the token: $(cat said)"
expect 1 "$(wc -l <user.token)" "lines of the token"
divvy token create --role viewer >viewer.token 2>/dev/null
divvy token create --expires 1h >short.token 2>/dev/null
expect 3 "$(divvy token list --json | grep -o '"has_expired"' | wc -l)" "tokens in the list"
# In machine-readable output times are in UTC, whatever the caller's time zone is.
utc='[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z'
expect 3 "$(TZ=Asia/Tokyo divvy token list --csv | grep -cE ",$utc,$utc,")" "tokens with UTC moments"
expect "$(TZ=Asia/Tokyo divvy token list --csv)" "$(TZ=UTC divvy token list --csv)" "the list in two time zones"
id_of() { sed 's/.*#\([0-9a-f]*\)\..*/\1/' "$1"; }

# The other machine has another home and no socket.
home=$DIVVY_HOME
other=$(mktemp -d)
trap 'rm -rf "$other"; clean_up' EXIT
as() { env -u DIVVY_HOME -u XDG_CONFIG_HOME HOME="$other" DIVVY_CONTROLLER="$home/$1.token" "$divvy_binary" "${@:2}"; }
refused() { # WHAT TOKEN WORDS...
  ! as "${@:2}" >out 2>err || fail "took: ${*:2}"
  grep -q "$1" err || fail "${*:2} says: $(cat err)"
  expect 1 "$(wc -l <err)" "lines of the refusal"
}

SECRET=hunter2 as user submit --quiet --chdir "$home" --gpus 1 -- \
  sh -c 'echo "at home in $HOME, secret $SECRET"; echo of no use >&2; until [ -e go ]; do sleep 0.05; done; echo done' >id
job=$(cat id)
wait_for "the job's start" state_is "$job" running
as user queue | grep -q running || fail "the queue does not show it"
as user logs -f "$job" >followed &
follower=$!
wait_for "its first line over there" grep -q 'at home' followed
account=$(getent passwd "$(id -u)" | cut -d: -f6)
grep -qx "at home in $account, secret " followed || fail "the other machine's environment came along: $(cat followed)"

# The daemon is killed and restarted: the follower continues, and the tokens are still valid.
pid=$(daemon_pid)
kill -9 "$pid"
wait_for "the daemon's end" sh -c "! kill -0 $pid"
up_listening "$port"
touch go
wait_for "the job's end" state_is "$job" succeeded
wait "$follower" || fail "logs -f did not end well"
expect 3 "$(wc -l <followed)" "lines that were followed"
expect "$(divvy logs "$job")" "$(as user logs "$job")" "the log from there"
as user wait "$job" || fail "wait says it did not succeed"
as user why "$job" | grep -q succeeded || fail "why does not know it"
as user submit --quiet --chdir "$home" --array 1-3 -- sh -c 'echo element $DIVVY_ARRAY_INDEX' >id
as user wait "$(cat id)" || fail "the array did not succeed"
expect 3 "$(as user logs "$(cat id)" | grep -c '^element')" "lines of the array's logs"

as viewer queue >/dev/null || fail "a viewer may not look"
refused 'is read-only' viewer submit -- true
refused 'is read-only' viewer cancel 1
refused 'use divvy submit' user run -- true
refused 'takes an administrator' user down
refused 'are created on the' user token create
refused 'is not a token line' said queue

# A wrong secret, a wrong certificate, and no token.
sed 's/\(#........\.\)./\1x/; s/\.x/.0/' user.token >wrong.token
cmp -s wrong.token user.token && sed 's/\(#........\.\)./\1x/; s/\.x/.1/' user.token >wrong.token
refused 'is unknown to this' wrong queue
last=$(tail -c 2 user.token | head -c 1)
sed "s/$last\$/$(printf '%x' $(((0x$last + 1) % 16)))/" user.token >stranger.token
refused 'certificate is not the one of the token' stranger queue
chmod 644 user.token
refused 'other users can read the token' user queue
chmod 600 user.token
divvy token remove "$(id_of short.token)" >/dev/null
refused 'is unknown to this controller or was removed' short queue

# A login is kept until a logout.
env -u DIVVY_HOME -u XDG_CONFIG_HOME HOME="$other" "$divvy_binary" login <user.token >said || fail "no login"
grep -q "^logged in at 127.0.0.1:$port as $(id -un) (user), until " said || fail "login says: $(cat said)"
expect 600 "$(stat -c %a "$other/.config/divvy/controller")" "the mode of what login keeps"
if ! [ -S /run/divvy/divvy.sock ] && [ -z "${XDG_RUNTIME_DIR:-}" ]; then
  env -u DIVVY_HOME -u XDG_CONFIG_HOME HOME="$other" "$divvy_binary" status | grep -q "listens" || fail "the login is not used"
fi
env -u DIVVY_HOME -u XDG_CONFIG_HOME HOME="$other" "$divvy_binary" logout >/dev/null
[ ! -e "$other/.config/divvy/controller" ] || fail "logout keeps the token"

# The audit log records who did what, and contains no secret.
grep -q '"from":"127.0.0.1","asked":"POST /v1/jobs","status":200' audit.log || fail "the submission is not in the audit log"
grep -q '"status":401' audit.log || fail "the refusals are not in the audit log"
for file in user viewer short; do
  secret=$(sed 's/.*#........\.\([0-9a-f]*\)\..*/\1/' "$file.token")
  ! grep -q "$secret" audit.log daemon.log || fail "a token's secret is in a log"
  ! grep -aq "$secret" divvy.db divvy.db-wal || fail "a token's secret is in the store"
done
