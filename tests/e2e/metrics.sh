#!/usr/bin/env bash
# The metrics page for scrapers: both text formats, as requested; with the names of NVIDIA's exporter if configured;
# without series of ended jobs. It is checked by promtool and scraped by a real Prometheus over TLS, if they are
# installed.
tests=$(cd "$(dirname "$0")" && pwd)
. "$(dirname "$0")/lib.sh"

printf '[metrics]\ndcgm = true\n[teams.own]\nquota = 3\nusers = ["%s"]\n' "$(id -un)" >divvy.toml
up_listening
page() { curl -s "$@" --unix-socket "$DIVVY_HOME/divvy.sock" http://divvy/metrics; }
has() { page | grep -qE "$1"; }

job=$(divvy submit --quiet --gpus 1 --name 'odd"name\' -- sh -c 'while [ ! -e go ]; do sleep 0.02; done')
waiting=$(divvy submit --quiet --gpus 2 -- true)
held=$(divvy submit --quiet --hold -- true)
wait_for "the job's use" has '^divvy_job_gpu_utilization_ratio\{id="'"$job"'",.*name="odd\\"name\\\\"'
wait_for "the GPUs" has '^divvy_gpu_power_watts\{node="[^"]+",gpu="1"\} 70$'
# From its second sample on, the driver reports some energy.
wait_for "the energy" has '^divvy_gpu_energy_joules_total\{node="[^"]+",gpu="1"\} [1-9]'
for line in '^divvy_gpus 2$' '^divvy_gpus_free 1$' '^divvy_jobs\{state="running"\} 1$' '^divvy_jobs\{state="held"\} 1$' \
  '^divvy_jobs_waiting\{for="gpus"\} 1$' '^divvy_jobs_waiting\{for="release"\} 1$' '^divvy_jobs_submitted_total 3$' \
  '^divvy_gpu_allocated_ratio\{node="[^"]+",gpu="0"\} 1$' '^divvy_gpu_info\{.*model="NVIDIA H100 80GB HBM3"' \
  '^divvy_scheduler_decision_seconds_count [1-9]' '^divvy_store_commit_seconds_bucket\{le="\+Inf"\} [1-9]' \
  '^divvy_job_queue_wait_seconds_count 1$' '^divvy_nodes\{state="up"\} 1$' '^divvy_node_memory_total_bytes\{node="[^"]+"\} [1-9]' \
  '^divvy_team_quota_gpus\{team="own"\} 3$' '^divvy_team_gpu_seconds_total\{team="own"\} [0-9]' '^DCGM_FI_DEV_GPU_TEMP\{gpu="0",UUID="GPU-[^"]+",.*Hostname="[^"]+"\} 32$' \
  '^divvy_gpu_xid_errors_total\{node="[^"]+",gpu="1"\} 0$' '^divvy_gpus_wasted\{kind="idle"\} 0$' \
  '^DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION\{gpu="1",.*\} [1-9][0-9]+$' '^DCGM_FI_DEV_FB_FREE\{gpu="1",.*\} [1-9][0-9]+$'; do
  has "$line" || fail "no $line in: $(page)"
done
divvy metrics --prometheus | grep -q '^divvy_gpus 2$' || fail "divvy metrics --prometheus"
page -i | grep -qi '^content-type: text/plain; version=0.0.4' || fail "as: $(page -i | head -n 8)"
page -i -H 'Accept: application/openmetrics-text' >open
grep -qi '^content-type: application/openmetrics-text; version=1.0.0' open || fail "as: $(head -n 8 open)"
page -i -H 'Accept: application/openmetrics-text;q=0.1, text/plain;q=0.9' | grep -qi '^content-type: text/plain' || fail "weights do not count"
expect '# EOF' "$(tail -n 1 open)" "the last line"

# Every name in the dashboard in contrib/ must be on the page, because an unknown name only leaves a panel empty.
strangers() { # strangers FILE: prints the names in it that the page lacks.
  page | sed -n 's/^# TYPE \(divvy_[a-z0-9_]*\) \(.*\)/\1 \2/p' | awk '{ print $1 } $2 == "histogram" { print $1 "_bucket"; print $1 "_sum"; print $1 "_count" }' | sort -u >named
  grep -oE '\bdivvy_[a-z0-9_]+' "$1" | sort -u | comm -23 - named
}
dashboard=$tests/../../contrib/grafana/divvy.json
expect 0 "$(grep -q divvy_gpu_power_watts "$dashboard"; echo $?)" "the dashboard"
# Some names appear only when there is something to count.
divvy cancel "$held" >/dev/null
has_all() { [ -z "$(strangers "$dashboard")" ]; }
WAIT_S=15 wait_for "names that the dashboard has and the page has not: $(strangers "$dashboard" | xargs)" has_all
sed 's/divvy_gpu_power_watts/divvy_gpu_watts/' "$dashboard" >renamed.json
expect divvy_gpu_watts "$(strangers renamed.json)" "a name that the page has no more"

promtool=${PROMTOOL:-promtool}
if command -v "$promtool" >/dev/null; then
  page >page
  "$promtool" check metrics <page >said 2>&1 || true
  # promtool complains about NVIDIA's names, but must not complain about ours.
  grep -v '^DCGM_' said >ours || true
  [ ! -s ours ] || fail "promtool: $(cat ours)"
else
  echo "promtool is not installed: the metrics page was not checked with it"
fi

prometheus=${PROMETHEUS:-prometheus}
if command -v "$prometheus" >/dev/null; then
  divvy token create --role viewer >viewer.token 2>/dev/null
  cat >prometheus.yml <<EOF
global: {scrape_interval: 1s}
scrape_configs:
  - job_name: divvy
    scheme: https
    tls_config: {insecure_skip_verify: true}
    authorization: {credentials: BEARER}
    static_configs: [{targets: ["127.0.0.1:$port"]}]
EOF
  sed -i "s|BEARER|$(sed 's/.*#\([^.]*\)\.\([^.]*\)\..*/\1.\2/' viewer.token)|" prometheus.yml
  at=$((10000 + (RANDOM + $$) % 9000))
  "$prometheus" --config.file=prometheus.yml --storage.tsdb.path=tsdb --web.listen-address="127.0.0.1:$at" >prometheus.log 2>&1 &
  scraper=$!
  trap 'kill $scraper 2>/dev/null || true; clean_up' EXIT
  asked() { curl -s "http://127.0.0.1:$at/api/v1/query?query=$1"; }
  scraped() { asked 'divvy_gpus' | grep -q '"job":"divvy"},"value":\[[0-9.]*,"2"\]'; }
  wait_for "Prometheus' first scrape" scraped
  counts() { asked 'divvy_scheduler_decision_seconds_count' | grep -q '"value"'; }
  wait_for "a histogram" counts
  kill "$scraper"
  wait "$scraper" 2>/dev/null || true
else
  echo "prometheus is not installed: the metrics page was not scraped"
fi

# After jobs have ended, only their count is left.
touch go
wait_for "the second job's end" state_is "$waiting" succeeded
gone() { ! has '^divvy_job_[a-z_]*\{id='; }
wait_for "the jobs' series to go" gone
has '^divvy_job_run_seconds_count 2$' || fail "runs: $(page | grep job_run)"
has '^divvy_jobs_ended_total\{state="succeeded"\} 2$' || fail "ended: $(page | grep ended)"
has '^divvy_jobs_ended_total\{state="cancelled"\} 1$' || fail "ended: $(page | grep ended)"
echo ok
