#!/usr/bin/env bash
# Samples of GPUs and jobs each second, here and on other nodes, on the command line and in the API. JSON objects that a
# job prints are its metrics, for its owner. The history of a job outlives its end and the daemon.
. "$(dirname "$0")/lib.sh"

up_listening
home=$DIVVY_HOME
with_machines
api() { curl -s --unix-socket "$home/divvy.sock" "http://divvy$1"; }
# latest EXPRESSION: evaluates a Python expression in which `a` is the answer of /v1/latest.
latest() { api /v1/latest | python3 -c "import json,sys; a=json.load(sys.stdin); print($1)"; }

# A job that uses its GPU and reports its progress.
job=$(divvy submit --quiet --gpus 1 -- sh -c '
  divvy-burn --gpu-seconds 300 --vram 4G & burn=$!
  i=0; while [ ! -e go ]; do i=$((i+1)); echo "{\"step\": $i, \"loss\": 0.25}"; echo words; sleep 0.1; done; kill $burn; wait; exit 0')
uses_its_gpu() { [ "$(latest "any(g['values']['gpu_utilization'] > 0.8 and g['values']['gpu_memory_used_bytes'] > 4e9 and g['values']['gpu_power_watts'] > 400 for g in a['gpus'])")" = True ]; }
wait_for "the GPU's use" uses_its_gpu
job_uses() { [ "$(latest "[j['values']['gpu_utilization'] > 0.8 and j['own'].get('loss') for j in a['jobs'] if j['id'] == $job]")" = '[0.25]' ]; }
wait_for "the job's use and its own words" job_uses
has_process() { [ "$(latest "any(p['id'] == $job and p['utilization'] > 0.5 for g in a['gpus'] for p in g['processes'])")" = True ]; }
wait_for "its process" has_process
expect "1 2" "$(latest "'%d %d' % (a['cluster']['gpus_allocated'], a['cluster']['gpus_total'])")" "the cluster"

# As a stream: one sample event per second, in addition to the events of jobs.
curl -sN --max-time 20 --unix-socket "$home/divvy.sock" 'http://divvy/v1/events?samples=1' >events &
events=$!
two_samples() { [ "$(grep -c '^event: samples' events)" -ge 2 ]; }
wait_for "two seconds of events" two_samples
kill "$events" 2>/dev/null || true

export LC_ALL=C.UTF-8
divvy metrics "$job" >curves || fail "no curves: $(cat curves)"
for name in gpu_utilization gpu_memory_used_bytes cpu_cores memory_used_bytes own.loss own.step; do
  grep -q "^$name  " curves || fail "$name is missing: $(cat curves)"
done
grep -q '█' curves || fail "nothing is drawn: $(cat curves)"
LC_ALL=C divvy metrics "$job" >plain
if grep -q '[^ -~]' plain; then fail "a locale with ASCII alone gets more: $(cat plain)"; fi
grep -q '^own.loss  0.25 now, mean' curves || grep -q '^own.loss  0.25 throughout' curves || fail "what it said last: $(cat curves)"
divvy metrics "$job" -m own.loss --csv | grep -q ',own.loss,,0.25,0.25,0.25,' || fail "CSV: $(divvy metrics "$job" -m own.loss --csv)"
expect "gpu_utilization own.loss" "$(divvy metrics "$job" -m own.loss,gpu_utilization | grep -oE '^[a-z_.]+  ' | sort | xargs)" "the curves that were asked for"
expect own.loss "$(divvy metrics "$job" -m own.loss --csv | tail -n +2 | cut -d, -f5 | sort -u)" "the metric that was asked for"
divvy metrics "$((job - 1))-$((job + 1))" | grep -q '^own.loss  ' || fail "of a range: $(divvy metrics "$((job - 1))-$((job + 1))")"
code=0; divvy metrics "$job" --json --csv 2>err || code=$?
expect 2 $code "two formats"
grep -q "^divvy: --json and --csv cannot be combined; give only one format" err || fail "two formats: $(cat err)"
divvy metrics --gpu 0 --since 5m --json | grep -q '"metric":"gpu_temperature_celsius","unit":"celsius"' || fail "no series of GPU 0"
divvy metrics --cluster | grep -q '^gpus_used  ' || fail "cluster: $(divvy metrics --cluster)"
# A job that ends before the first sample: its output is read once more.
short=$(divvy submit --quiet -- sh -c 'echo "{\"loss\": 0.3}"')
short_gpu=$(divvy submit --quiet --gpus 1 -- sh -c 'echo "{\"loss\": 0.4}"')
says() { divvy metrics "$1" -m own.loss | grep -q "^own.loss  $2 throughout$"; }
wait_for "the words of a short job" says "$short" 0.3
wait_for "the words of a short job on a GPU" says "$short_gpu" 0.4

# Values that are not numbers become gaps, and names beyond the limit are reported.
many=$(divvy submit --quiet -- sh -c 'i=0; while [ ! -e go ]; do i=$((i+1)); echo "{\"step\": $i, \"loss\": NaN, \"acc\": 0.5}"; [ $i = 3 ] && python3 -c "import json; print(json.dumps({chr(97 + i % 26) + str(i): i for i in range(40)}))"; sleep 0.1; done')
names_left() { divvy metrics "$many" | grep -q '^Up to 10 of the job.s metric names were dropped: only the first 32 are kept.$'; }
wait_for "the names that are not kept" names_left
divvy metrics "$many" | grep -q '^own.acc  0.5' || fail "beside NaN: $(divvy metrics "$many")"
divvy metrics "$many" | grep -q '^own.loss' && fail "NaN became a number: $(divvy metrics "$many")"

code=0; divvy metrics "$job" -m gpu_utilisation 2>err || code=$?
expect 2 $code "a metric that there is not"
grep -q "did you mean 'gpu_utilization'?" err || fail "says: $(cat err)"
code=0; divvy metrics "$job" -m '' 2>err || code=$?
expect 2 $code "no metric"
grep -q "names no metric" err || fail "says: $(cat err)"
array=$(divvy submit --quiet --hold --array 0-1 -- true)
expect "Job $array is an array, but none of its elements has started." "$(divvy metrics "$array" -m gpu_utilization)" "one metric of an array"
divvy cancel "$array" >/dev/null
code=0; divvy metrics 4711 2>err || code=$?
expect 3 $code "a job that there is not"

# A foreground job: its output is read only if it was requested, and passes unchanged.
wants() { [ "$(latest "[j['own'].get('$2') == $3 for j in a['jobs'] if j['id'] == $1]")" = '[True]' ]; }
talk='printf "{\"fg\": 1}\nwords"; while [ ! -e gone ]; do sleep 0.1; done; printf "\n{\"fg\": 2}\nlast"; [ ! -t 1 ]'
divvy run --metrics --name fg -- sh -c "$talk" >printed 2>err &
fg=$!
fg_says() { fg_id=$(divvy queue fg --json | grep -oE '"id":[0-9]+' | head -n 1 | cut -d: -f2) && wants "$fg_id" fg 1.0; }
wait_for "the numbers of a job in the foreground" fg_says
divvy metrics --add 'a b=7' step=3 "$fg_id" || fail "numbers past the output"
wait_for "numbers past the output" wants "$fg_id" "a b" 7.0
touch gone
wait "$fg" || fail "its code: $? $(cat err)"
expect '{"fg": 1} words {"fg": 2} last' "$(xargs -d '\n' <printed)" "what it printed"
last_words() { divvy metrics "$fg_id" -m own.fg --csv | grep -q ',own.fg,,[0-9.]*,1,2,\|,own.fg,,2,2,2,'; }
wait_for "its last words" last_words
divvy show "$job" | grep -q '^process  *pid [0-9]* .*on GPU [01]: [0-9]*%, 4' || fail "its processes: $(divvy show "$job")"
divvy metrics "$job" --processes --csv | grep -qE '^,[01],[0-9]+,[^,]*,[0-9]+,4[0-9]{9},' || fail "its processes: $(divvy metrics "$job" --processes --csv)"
columns=$(divvy metrics "$job" --processes --csv)
grep -q '^node,gpu,pid,user,use_percent,memory_bytes,cpu_cores,host_memory_bytes,read_bytes_per_second,written_bytes_per_second,command$' <<<"$columns" || fail "its columns: $columns"
grep -qE '^,[01],[0-9]+,[^,]*,[0-9]+,4[0-9]{9},[0-9.]+,[1-9][0-9]+,[0-9]+,[0-9]+,divvy-burn' <<<"$columns" || fail "of its processes on their machine: $columns"
divvy metrics "$job" --processes --json | grep -q '"processes":\[{"pid":' || fail "its processes: $(divvy metrics "$job" --processes --json)"
code=0; divvy metrics --add loss=much "$job" 2>err || code=$?
expect 2 $code "no number"
inside=$(divvy submit --quiet -- sh -c 'divvy metrics --add in=5; while [ ! -e gone2 ]; do sleep 0.1; done')
wait_for "numbers from inside" wants "$inside" in 5.0
touch gone2

# The job ends, and the daemon is stopped right after it.
touch go
wait_for "its end" state_is "$job" succeeded
divvy down >/dev/null
divvy up --quiet --emulate 2xH100-80GB --listen "127.0.0.1:$port"
divvy metrics "$job" --json | grep -q '"metric":"own.loss"' || fail "its metrics went with the daemon: $(divvy metrics "$job")"

# Another node: its GPUs and its job are visible here.
divvy token create --node >n1.token 2>/dev/null
on n1 agent --join-file "$home/n1.token" --name n1 --emulate 3xA100-40GB --detach --quiet || fail "n1 did not join"
wait_for "n1" node_is n1 up
three_gpus() { [ "$(latest "len([g for g in a['gpus'] if g['node'] == 'n1'])")" = 3 ]; }
wait_for "n1's GPUs" three_gpus
far=$(divvy submit --quiet --gpus 3 -- sh -c 'echo "{\"acc\": 0.5}"; while :; do echo "{\"acc\": 0.75}"; sleep 0.1; done')
far_is_seen() { [ "$(latest "[j['own'].get('acc') for j in a['jobs'] if j['id'] == $far]")" = '[0.75]' ]; }
wait_for "n1's job" far_is_seen
expect '"node":"n1"' "$(divvy metrics --node n1 --json | grep -o '"node":"n1"' | head -n 1)" "n1's own series"
divvy cancel "$far" --grace 0 >/dev/null

# Samples can be switched off.
divvy down >/dev/null
printf '[samples]\non = false\n' >divvy.toml
divvy up --quiet --emulate 2xH100-80GB
expect False "$(latest "a['is_on']")" "is_on"
code=0; divvy metrics --gpu 0 2>err || code=$?
grep -qF 'set on = true in [samples] of divvy.toml' err || fail "off says: $(cat err)"
echo ok
