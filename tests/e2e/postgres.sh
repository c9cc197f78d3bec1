#!/usr/bin/env bash
# A daemon whose store is in PostgreSQL: kill -9 of the daemon, and of the database server, while clients submit.
# Acknowledged jobs are known afterwards and end with their exit code. ROUNDS: 2; with DIVVY_LONG 20.
. "$(dirname "$0")/lib.sh"
rounds=${ROUNDS:-$([ -n "${DIVVY_LONG:-}" ] && echo 20 || echo 2)}
programs=
for place in "${DIVVY_POSTGRES:-}" "$(dirname "${BASH_SOURCE[0]}")/../../build/unpacked/usr/lib/postgresql/15/bin" /usr/lib/postgresql/15/bin; do
  if [ -z "$programs" ] && [ -x "$place/initdb" ]; then programs=$(cd "$place" && pwd); fi
done
[ -n "$programs" ] || skip "needs Debian's package postgresql-15; scripts/test unpacks it"

# PostgreSQL refuses to run as root.
server=$(mktemp -d)
chmod 755 "$server"
as_server=
if [ "$(id -u)" = 0 ]; then
  as_server="setpriv --reuid=65534 --regid=65534 --clear-groups"
  chown 65534:65534 "$server"
fi
server_pid=
stop_server() {
  [ -z "$server_pid" ] || kill -QUIT "$server_pid" 2>/dev/null || true
  [ -z "$server_pid" ] || wait "$server_pid" 2>/dev/null || true
  rm -rf "$server"
}
trap 'clean_up; stop_server' EXIT
server_answers() { [ -S "$server/.s.PGSQL.5432" ] && (cd / && $as_server "$programs/psql" -h "$server" -U divvy -d postgres -qc "SELECT 1"); }
start_server() {
  # The background processes of a killed server need a moment to end; until then a new one does not start.
  (cd / && exec $as_server "$programs/postgres" -D "$server/data" -h "" -k "$server" -F) >>"$server.log" 2>&1 &
  server_pid=$!
}
start_until_it_answers() {
  kill -0 "$server_pid" 2>/dev/null || start_server
  server_answers
}
(cd / && $as_server "$programs/initdb" --pgdata="$server/data" --username=divvy --auth=trust --encoding=UTF8 --locale=C --no-sync --no-instructions) >"$server.log" 2>&1 ||
  fail "initdb: $(cat "$server.log")"
start_server
wait_for "the database server" start_until_it_answers
sql() { (cd / && $as_server "$programs/psql" -h "$server" -U divvy -d "$1" -qAtc "$2"); }
sql postgres "CREATE DATABASE divvy" && sql postgres "CREATE DATABASE other"
url="postgresql://divvy@/divvy?host=$server"

# Refusals: a URL that is wrong, a secret that others can read. No message has the secret.
say_config() { printf '[store]\nurl = "%s"\n' "$1" >divvy.toml && chmod "${2:-600}" divvy.toml; }
refused() {
  if divvy up --quiet --emulate 8xH100-80GB >up.log 2>&1; then fail "started: $1"; fi
  ! grep -qs s3cret up.log daemon.log || fail "a message has the password: $1"
}
say_config "postgresql://divvy:s3cret@/none?host=$server"
refused "on a database that does not exist"
grep -q '"none" does not exist' up.log || fail "no reason: $(cat up.log)"
say_config "postgresql://divvy:s3cret@/divvy?host=$server" 644
refused "with a password that others can read"
grep -q "other users can read this file" up.log || fail "no reason: $(cat up.log)"
say_config "postgresql://divvy:s3cret@/divvy?host=/nonexistent"
refused "without a server"

say_config "$url"
divvy up --quiet --emulate 8xH100-80GB
[ ! -e divvy.db ] || fail "there is an SQLite file, too"
keeps=$(divvy submit --quiet --gpus 1 -- sh -c 'while [ ! -e go ]; do sleep 0.05; done; exit 9')
wait_for "the long job" state_is "$keeps" running
pid=$(field "$keeps" pid)
if divvy store check >check.log 2>&1; then fail "checked a store that a daemon has open"; fi
grep -q "in use by another divvy" check.log || fail "no reason: $(cat check.log)"

count_acknowledged() { cat ids.* 2>/dev/null | wc -l; }
some_more() { [ "$(count_acknowledged)" -gt "$before" ]; }
submit_some() {
  before=$(count_acknowledged)
  for client in 1 2 3; do
    (for _ in $(seq 20); do divvy submit --quiet --gpus 1 -- sh -c 'echo "$DIVVY_GPUS $DIVVY_JOB_ID" >>ran; exit 7' 2>/dev/null || true; done >>"ids.$client") &
    clients="${clients:-} $!"
  done
  wait_for "an acknowledged job" some_more
  sleep "0.$((RANDOM % 3 + 1))"
}
for round in $(seq "$rounds"); do
  submit_some
  kill -9 "$(daemon_pid)" 2>/dev/null || true
  wait $clients || true
  clients=
  divvy up --quiet --emulate 8xH100-80GB || fail "no restart in round $round"
  submit_some
  kill -9 "$server_pid"
  wait "$server_pid" 2>/dev/null || true
  wait_for "the restart of the database server" start_until_it_answers
  wait $clients || true
  clients=
  works_again() { divvy submit --quiet --gpus 1 -- sh -c 'exit 7' >>ids.4; }
  wait_for "new work after the restart in round $round" works_again
done
kill -0 "$pid" || fail "the running job did not outlive them"
touch go
wait_for "an empty queue" queue_is_empty
expect 9 "$(field "$keeps" exit_code)" "the exit code of the job that outlived them"
cat ids.* | grep -xE '[0-9]+' | sort -n >acknowledged
uniq -d acknowledged | grep -q . && fail "an id was given out twice"
divvy queue --all --csv --no-header -o id,exit --limit 0 | sort -n >known
while read -r id; do grep -qx "$id,7" known || fail "acknowledged job $id: $(grep "^$id," known || echo unknown)"; done <acknowledged
awk '{ print $2 }' ran | sort | uniq -d | grep -q . && fail "a job ran twice"

# The same jobs after a copy to SQLite and back to another database.
divvy down >/dev/null
mv divvy.toml postgres.toml
divvy store check "$url" >check.log || grep -q "fsync = off" check.log || fail "the check found: $(cat check.log)"
divvy store copy --from "$url" --to "$DIVVY_HOME/divvy.db" >/dev/null
divvy up --quiet --emulate 8xH100-80GB
divvy queue --all --csv --no-header -o id,exit --limit 0 | sort -n | diff known - || fail "the copy differs"
divvy down >/dev/null
divvy store copy --from "$DIVVY_HOME/divvy.db" --to "postgresql://divvy@/other?host=$server" >/dev/null
say_config "postgresql://divvy@/other?host=$server"
divvy up --quiet --emulate 8xH100-80GB
divvy queue --all --csv --no-header -o id,exit --limit 0 | sort -n | diff known - || fail "the copy of the copy differs"
divvy down >/dev/null

# Another cluster's daemon, by mistake.
mkdir second && printf '[store]\nurl = "%s"\n' "$url" >second/divvy.toml && chmod 600 second/divvy.toml
if DIVVY_HOME=$DIVVY_HOME/second divvy up --quiet --emulate 1xH100-80GB >up.log 2>&1; then fail "a second cluster used the database"; fi
grep -q "belongs to another cluster" up.log || fail "no reason: $(cat up.log)"
rm -f "$server.log"
echo "postgres: $rounds rounds, $(wc -l <acknowledged) acknowledged, none lost, none wrong"
