#!/usr/bin/env bash
# A node whose agent is killed for good stops its jobs before they start elsewhere: a job never runs twice at the same
# time.
. "$(dirname "$0")/lib.sh"

port=
cat >divvy.toml <<'TOML'
[controller]
lost_after = "2s"
requeue_lost_after = "20s"
TOML
up_listening
with_machines

divvy token create --node --uses 2 >token 2>/dev/null
for name in n1 n2; do
  on $name agent --join-file "$DIVVY_HOME/token" --name $name --emulate 1xA100-40GB --detach --quiet ||
    fail "$name did not join"
done

# The job ignores SIGTERM, so that it runs as long as it is allowed to. It writes a line all the time.
lines=$machines/lines
cat >writer.sh <<EOF
trap '' TERM
while :; do
  echo "\$DIVVY_NODE \$\$ \$(date +%s%N)" >>$lines
  sleep 0.1
done
EOF
id=$(divvy submit --quiet --gpus 1 --gpu-type a100 -- sh "$DIVVY_HOME/writer.sh")
wait_for "its start" state_is "$id" running
wait_for "its first line" test -s "$lines"
first=$(field "$id" node)
second=$([ "$first" = n1 ] && echo n2 || echo n1)
pid=$(head -n 1 "$lines" | cut -d' ' -f2)
kill_agent "$first"
record=$machines/$first/agent/runs/$id
wait_for "its end by the lease" grep -q '^complete=1$' "$record"
grep -q '^failure=its node lost contact with the controller: stopped when the lease ended$' "$record" || fail "its record says: $(cat "$record")"
grep -q '^signal=9$' "$record" || fail "it was not killed: $(cat "$record")"
[ ! -e "/proc/$pid" ] || fail "it runs still"
! grep -q "^$second " "$lines" || fail "it ran on $second before it had ended on $first"
wait_for "its second start" grep -q "^$second " "$lines"
expect "$second" "$(field "$id" node)" "its second machine"
# Each node wrote one block of lines, with a pause between the blocks.
expect "$first
$second" "$(cut -d' ' -f1 "$lines" | uniq)" "who wrote, in turn"
last=$(grep "^$first " "$lines" | tail -n 1 | cut -d' ' -f3)
next=$(grep "^$second " "$lines" | head -n 1 | cut -d' ' -f3)
[ $(((next - last) / 1000000)) -gt 1000 ] || fail "only $(((next - last) / 1000000)) ms between the two"

# The first node returns, which does not affect the job.
on "$first" agent --detach --quiet || fail "$first did not connect again"
forgotten() { [ ! -e "$record" ]; }
wait_for "the end on $first to be forgotten" forgotten
expect "$second" "$(field "$id" node)" "its machine afterwards"
divvy cancel "$id" --grace 0 >/dev/null
wait_for "its end" state_is "$id" cancelled

# The lease stops the job, and its agent returns before the controller has reassigned it. It still runs again.
id=$(divvy submit --quiet --gpus 1 --gpu-type a100 -- sleep 1000)
wait_for "its start" state_is "$id" running
first=$(field "$id" node)
record=$machines/$first/agent/runs/$id
wait_for "its record" grep -q '^process=' "$record"
kill_agent "$first"
wait_for "its end by the lease" grep -q '^cut_off=1$' "$record"
wait_for "the word of its lease" sh -c "divvy queue --columns id,reason | grep -q 'its lease has expired: it is being stopped there'"
on "$first" agent --detach --quiet || fail "$first did not connect again"
again() { [ "$(field "$id" restarts)" = 1 ] && state_is "$id" running; }
wait_for "its second start" again

echo "lease: passed"
