#!/usr/bin/env bash
# The answers of `divvy why` in each situation of nodes on demand (docs/providers.md lists them), `divvy update` of the
# options that limit the nodes of a job, and dry runs. The nodes of this test never join.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
command -v python3 >/dev/null || skip "python3 is not installed"

cat >stub <<'END'
#!/bin/sh
order=$(cat)
token=$(echo "$order" | grep -o '"token":"[0-9a-f]*"' | cut -d'"' -f4)
case $2 in
  list) echo '{"nodes": ['$(cat "$1" 2>/dev/null | sed '2,$s/^/,/')']}' ;;
  create)
    [ "${1##*/}" != down ] || { echo "no capacity" >&2; exit 1; }
    cluster=$(echo "$order" | grep -o '"cluster":"[^"]*"' | cut -d'"' -f4)
    grep -qs "$token" "$1" || echo "{\"cluster\":\"$cluster\",\"token\":\"$token\",\"instance\":\"i-$token\"}" >>"$1"
    echo "{\"instance\": \"i-$token\"}" ;;
  destroy) sed -i "/$token/d" "$1"; echo '{}' ;;
esac
END
chmod +x stub
provider() { # NAME KEYS [KEYS OF THE SHAPE]
  printf '[[providers]]\nname = "%s"\ncommand = ["%s/stub", "%s/%s"]\n%b\n' "$1" "$DIVVY_HOME" "$DIVVY_HOME" "$1" "$2"
  printf '[[providers.shapes]]\nname = "h100x8"\ngpu_model = "H100-80GB"\ngpus = 8\ncpus = 8\nmemory = "8G"\n'
  printf 'price = 24\nstartup = "10min"\n%b\n' "${3:-}"
}
{
  provider boots ''
  provider small '' | sed 's/^gpus = 8/gpus = 1/; s/h100x8/h100x1/'
  provider off 'enabled = false'
  provider nodes 'max_nodes = 1'
  provider gpus 'max_gpus = 8'
  provider hour 'max_per_hour = 10'
  provider month 'max_per_month = 5'
  provider spot '' 'spot = true'
  provider life '' 'max_lifetime = "30min"'
  provider theirs 'teams = ["other"]'
  provider down ''
  printf '[teams.vision]\nusers = ["*"]\nmax_per_hour = 3\n[teams.lab]\nusers = ["*"]\nmax_per_month = 100\n'
  printf '[teams.other]\nusers = ["*"]\n[teams.plain]\nusers = ["*"]\n[users.%s]\nteam = "plain"\n' "$(id -un)"
} >divvy.toml
up_listening

printf '#!/bin/sh\n#SBATCH --no-requeue\ntrue\n' >once.sh
submit() { divvy submit --quiet "$@" || fail "cannot submit: $*"; }
situations=0
says() { divvy why "$1" --json >answer && grep -qF -- "$2" answer; }
situation() { # WHAT JOB LINE: `divvy why` gets the line.
  situations=$((situations + 1))
  WAIT_S=60 wait_for "$1: $3 (job $2: $(divvy why "$2"))" says "$2" "$3"
}
gone=$(submit --provider boots --gpus 8 -- true)
situation "a node boots" "$gone" 'node boots-1 of provider boots (h100x8, 24.00/h) was requested '
situation "a node boots" "$gone" 'ago and is expected in '
job=$(submit --provider small --gpus 8 -- true)
situation "no shape fits" "$job" 'provider small: no shape is large enough or has the right GPUs; the largest has 1x H100-80GB, 8 CPUs'
for other in boots off nodes gpus hour month spot life theirs down; do
  situation "other providers" "$job" "provider $other: the job names other providers (--provider small)"
done
job=$(submit --provider off --gpus 8 -- true)
situation "a disabled provider" "$job" 'provider off: it is disabled'
job=$(submit --provider nodes --nodes 2 --gpus 8 -- true)
situation "the limit of nodes" "$job" 'provider nodes: the job needs 2 nodes of shape h100x8, but its limit of 1 leaves 1'
job=$(submit --provider gpus --nodes 2 --gpus 8 -- true)
situation "the limit of GPUs" "$job" 'provider gpus: 2 nodes of shape h100x8 would add 16 GPUs, but its limit of 8 leaves 8'
job=$(submit --provider hour --gpus 8 -- true)
situation "the price per hour" "$job" 'provider hour: 1 node of shape h100x8 costs 24.00 per hour, but its limit of 10.00 per hour leaves 10.00'
job=$(submit --provider month --gpus 8 -- true)
situation "the money of the month" "$job" "provider month: 1 node of shape h100x8 would cost 24.00 in the next 1 h, but this month's limit of 5.00 leaves 5.00"
team=$(submit --provider spot --team vision --gpus 8 -- true)
situation "the money of a team" "$team" 'provider spot: 1 node of shape h100x8 costs 24.00 per hour, but the budget of team vision leaves 3.00'
priced=$(submit --provider spot --max-price 5 --gpus 8 -- true)
situation "--max-price" "$priced" 'provider spot: 1 node of shape h100x8 costs 24.00 per hour, but the job allows 5.00 (--max-price)'
kept=$(submit --no-grow --gpus 8 -- true)
situation "--no-grow" "$kept" 'the job waits for existing nodes only (--no-grow)'
job=$(submit --provider spot --gpus 8 once.sh)
situation "a spot node" "$job" 'provider spot: it may remove nodes of shape h100x8 at any time, and the job cannot be requeued'
job=$(submit --provider life --time 2h --gpus 8 once.sh)
situation "a short lifetime" "$job" 'provider life: nodes of shape h100x8 exist for 30 min, and the job has a longer time limit (2 h) and cannot be requeued'
job=$(submit --provider theirs --gpus 8 -- true)
situation "another team's provider" "$job" 'provider theirs: only jobs of these teams may use it: other'
job=$(submit --provider down --gpus 8 -- true)
situation "a provider that fails" "$job" 'provider down: it failed, and is tried again in '

# The options can be changed, and a change survives kill -9.
divvy update "$priced" --max-price 6 >/dev/null
situation "another price" "$priced" 'but the job allows 6.00 (--max-price)'
divvy update "$kept" --grow --provider off >/dev/null
situation "--grow" "$kept" 'provider off: it is disabled'
kill -9 "$(daemon_pid)"
up_at "$port" --emulate 2xH100-80GB
situation "another price after a restart" "$priced" 'but the job allows 6.00 (--max-price)'
situation "--grow after a restart" "$kept" 'provider off: it is disabled'
divvy update "$kept" --no-grow >/dev/null
situation "--no-grow again" "$kept" 'the job waits for existing nodes only (--no-grow)'
divvy update "$priced" --max-price "" --provider "" --no-grow >/dev/null
situation "no limits" "$priced" '1 job will fit on a node that is on its way'
! divvy update "$kept" --provider nowhere >out 2>&1 || fail "accepts an unknown provider: $(cat out)"
grep -q 'provider nowhere: there is no such provider; expected boots, small' out || fail "says: $(cat out)"
array=$(submit --no-grow --array 1-3 --gpus 8 -- true)
divvy update "$array" --grow --provider off >/dev/null
situation "an array" "$array" 'provider off: it is disabled'
! divvy update "${array}_2" --no-grow >out 2>&1 || fail "changes one element: $(cat out)"
grep -q "no-grow: the elements of an array share it; name the array, $array" out || fail "says: $(cat out)"

# A dry run considers what else keeps the job.
divvy submit --dry-run --hold --provider boots --gpus 8 -- true >out 2>&1
grep -q 'nodes on demand: none while something else keeps the job from starting: ' out || fail "says: $(cat out)"
divvy submit --dry-run --dependency "afterok:$kept" --provider boots --gpus 8 -- true >out 2>&1
grep -q 'nodes on demand: none while something else keeps the job from starting: ' out || fail "says: $(cat out)"
divvy submit --dry-run --provider boots --nodes 2 --gpus 8 -- true >out 2>&1
! grep -q 'none while' out || fail "says: $(cat out)"

# Money of teams: their views and metrics.
paid=$(submit --provider spot --team lab --gpus 8 -- true)
situation "a node of a team" "$paid" 'node spot-1 of provider spot'
divvy teams --json | grep -q '"max_per_month":1.0*E2,"nodes_per_hour":2.4E1\|"max_per_month":100,"nodes_per_hour":24' || fail "teams: $(divvy teams --json)"
divvy teams -o team,nodes | grep -q '24 h, .*/100 mo' || fail "teams: $(divvy teams)"
more=$(submit --provider boots --team lab --nodes 4 --gpus 8 -- true)
situation "the month of a team" "$more" 'provider boots: 4 nodes of shape h100x8 cost 96.00 per hour, but the budget of team lab leaves '
divvy cancel --all >/dev/null
divvy providers drain boots spot >/dev/null
echo "$situations answers of divvy why"
