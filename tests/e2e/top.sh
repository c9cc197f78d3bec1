#!/usr/bin/env bash
# divvy top as users see it: on a terminal, with keys, in a window that changes its size. Its curves include the time
# before its start.
. "$(dirname "$0")/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
command -v python3 >/dev/null || skip "python3 is not installed (apt-get install python3)"
export LC_ALL=C.UTF-8
divvy up --quiet --emulate 16xH100-80GB
divvy submit --quiet --gpus 16 --name train -- sh -c 'echo begun; while [ ! -e go ]; do sleep 0.05; done' >/dev/null
wait_for "the start" running_are 1
divvy submit --quiet --gpus 16 --name later -- true >/dev/null
while [ ! -e more ] && [ ! -e over ]; do sleep 0.1; done && divvy submit --quiet --gpus 16 --name another -- true >/dev/null &
python3 "$here/top_keys.py" "$divvy_binary" || { touch over; fail "top on a terminal"; }
touch over
wait

# The first screen already shows the load before the start of divvy top.
divvy emulate utilisation 0 100 50 >/dev/null
has_curve() { divvy top --once | grep -qE '^ +0 [▁▂▃▄▅▆▇█ ]*█{3} 100% '; }
wait_for "the curve of three seconds" has_curve
expect 16 "$(divvy top --once | grep -cE '^ +[0-9]+ [▁█ ]+[0-9]+% ')" "the GPUs on paper"
touch go
wait_for "the end" queue_is_empty

# Without a terminal, waiting jobs also have their expected start.
divvy submit --quiet --gpus 16 --time 10m -- sleep 600 >/dev/null
wait_for "the start of one with a limit" running_are 1
divvy submit --quiet --gpus 16 --name then -- true >/dev/null
divvy top --once | grep -qE ' then .* in [0-9]+[ms]' || fail "the expected start on paper: $(divvy top --once)"
divvy cancel --all >/dev/null
wait_for "the end of all" queue_is_empty
echo "top: passed"
