#!/usr/bin/env bash
# Nodes on demand from Kubernetes, with a stand-in for its API server and kubelet: pods run the agents. A burst of jobs
# runs, pods and their secrets are removed when idle, and calls survive refusals, lost answers and expired lists.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
command -v openssl >/dev/null || skip "openssl is not installed (apt-get install openssl)"
python3 -c 'import ssl' 2>/dev/null || skip "python3 is not installed (apt-get install python3)"

with_machines
state=$machines/k
mkdir "$state"
token=token-$RANDOM$RANDOM$RANDOM
end_server() { [ -z "${server:-}" ] || { kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; }; }
trap 'clean_up; end_server; end_agents; rm -rf "$machines"' EXIT
certificate() { # NAME SUBJECT...
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -keyout "$1.key" -out "$1.crt" "${@:2}" 2>/dev/null ||
    fail "no certificate was made"
}
certificate api -subj /CN=kube-apiserver -addext subjectAltName=IP:127.0.0.1
certificate other -subj /CN=kube-apiserver -addext subjectAltName=IP:127.0.0.1
cp other.crt "$state/clients.crt"
"${here%/*}/providers/kubernetes_api.py" "$state" "$PWD/api.crt" "$PWD/api.key" lab "$token" &
server=$!
wait_for "the API server" [ -s "$state/port" ]
api=127.0.0.1:$(cat "$state/port")

kubeconfig() { # TOKEN CA
  cat <<EOF
apiVersion: v1
kind: Config
current-context: test
contexts: [{name: test, context: {cluster: test, user: test, namespace: lab}}]
clusters: [{name: test, cluster: {server: "https://$api", certificate-authority-data: $(base64 -w0 "$2")}}]
users: [{name: test, user: {token: $1}}]
EOF
}
umask 077
kubeconfig "$token" api.crt >kubeconfig
umask 022
join=10.0.0.1:7433#0123abcd.$(printf 'e%.0s' $(seq 64))
order() { # TOKEN-DIGIT [MEMBERS]: an order whose pod sleeps instead of running an agent
  printf '{"version":1,"cluster":"%s","provider":"k8s","token":"%032d","name":"k8s-%d","join":"%s",
    "options":["--image=divvy","--divvy-path=%s"],"shape":{"name":"s","gpu_model":"H100-80GB","gpus":8,"cpus":2,
    "memory_bytes":1073741824}%s}' "${cluster:-clustera}" "$1" "$1" "$join" "$PWD/sleeper" "${2:-}"
}
printf '#!/bin/sh\nexec sleep 1000\n' >sleeper
chmod +x sleeper
call() { KUBECONFIG=${kubeconfig:-$PWD/kubeconfig} DIVVY_TIMEOUT_S=${timeout:-20} "$divvy_binary" provider kubernetes "$@" 2>err; }
pods() { ls "$state/pods" 2>/dev/null | wc -l; }
instances() { order 1 | call list | grep -o '"instance":"[^"]*"' | cut -d'"' -f4 | sort | tr '\n' ' '; }
faults() { printf '%s' "$1" >"$state/faults.given"; mv "$state/faults.given" "$state/faults"; }
pod_1=divvy-$(printf %032d 1) pod_2=divvy-$(printf %032d 2) pod_3=divvy-$(printf %032d 3)

# The calls, without a daemon. A token creates one pod, however often it is called, and also if an answer is lost.
expect "{\"instance\":\"$pod_1\"}" "$(order 1 | call create)" "the answer to create ($(cat err))"
expect "{\"instance\":\"$pod_1\"}" "$(order 1 | call create)" "the answer to another create ($(cat err))"
faults '{"429": 1, "500": 2, "lost": 2}'
expect "{\"instance\":\"$pod_2\"}" "$(order 2 | call create)" "the answer to create with faults ($(cat err))"
expect 2 "$(pods)" "the number of pods"
! grep -rqF "$join" "$state/pods" || fail "the join line is in a pod: $(cat "$state"/pods/*)"
grep -qF "$(printf %s "$join" | base64 -w0)" "$state/secrets/$pod_1.json" || fail "the join line is in no secret"
grep -q '"nvidia.com/gpu": "8"' "$state/pods/$pod_1.json" || fail "requests no GPUs: $(cat "$state/pods/$pod_1.json")"

# A list is complete, in several pages, also if one of them expires.
echo 1 >"$state/page"
faults '{"410": 1}'
expect "$pod_1 $pod_2 " "$(instances)" "the nodes in pages"
expect "" "$(cluster=clusterb instances)" "the nodes of another cluster"
rm "$state/page"
# A pod that waits for a place is pending. One that has ended is no node, and is removed.
touch "$state/full"
order 3 | call create >/dev/null || fail "create: $(cat err)"
order 1 | call list | grep -q "\"instance\":\"$pod_3\",\"ends_at\":null,\"state\":\"pending\"" || fail "lists: $(order 1 | call list)"
rm "$state/full"
is_running() { grep -q '"phase": "Running"' "$state/pods/$1.json"; }
wait_for "the first pod" is_running "$pod_1"
uid_of() { grep -o '"uid": "[0-9a-f]*"' "$1" | head -n 1 | cut -d'"' -f4; }
kill $(grep -lsF "$state/running/$(uid_of "$state/pods/$pod_1.json")" /proc/[0-9]*/environ | cut -d/ -f3)
has_ended() { grep -q '"phase": "Failed"' "$state/pods/$pod_1.json"; }
wait_for "the end of the pod" has_ended
expect "$pod_2 $pod_3 " "$(instances)" "the nodes without the one that has ended"
is_gone() { [ ! -e "$state/pods/$1.json" ] && [ ! -e "$state/secrets/$1.json" ]; }
wait_for "the removal of the pod that has ended" is_gone "$pod_1"

# Destroy: by instance, by token, and what does not exist. A node of another cluster stays.
faults '{"500": 1, "lost": 1}'
cluster=clusterb order 2 ",\"instance\":\"$pod_2\"" | call destroy >/dev/null || fail "destroy: $(cat err)"
grep -q deletionTimestamp "$state/pods/$pod_2.json" && fail "a node of another cluster was destroyed"
expect "{}" "$(order 2 ",\"instance\":\"$pod_2\"" | call destroy)" "the answer to destroy ($(cat err))"
expect "{}" "$(order 3 | call destroy)" "the answer to destroy by token ($(cat err))"
expect "{}" "$(order 4 | call destroy)" "the answer to destroy without a node ($(cat err))"
wait_for "the end of both pods" sh -c "[ -z \"\$(ls '$state/pods' '$state/secrets' | grep json)\" ]"

# The secret of an earlier pod of the same name is replaced.
touch "$state/no_gc"
order 6 | call create >/dev/null || fail "create: $(cat err)"
order 6 | call destroy >/dev/null || fail "destroy: $(cat err)"
pod_6=divvy-$(printf %032d 6)
wait_for "the end of the pod" sh -c "[ ! -e '$state/pods/$pod_6.json' ]"
rm "$state/no_gc"
[ -e "$state/secrets/$pod_6.json" ] || fail "the secret went with the pod"
order 6 | call create >/dev/null || fail "create: $(cat err)"
expect "$(uid_of "$state/pods/$pod_6.json")" "$(uid_of "$state/secrets/$pod_6.json")" "the owner of the secret"
order 6 | call destroy >/dev/null || fail "destroy: $(cat err)"
wait_for "the end of the pod and its secret" is_gone "$pod_6"

# Errors are clear and show no secret. The server is verified before anything is sent to it.
says() { # WHAT TEXT
  ! grep -qF -e "$token" -e "$join" err || fail "$1 shows a secret: $(cat err)"
  grep -q "$2" err || fail "$1 says: $(cat err)"
}
refuses() { # WHAT TEXT [OPTIONS]
  ! order 5 "${3:-}" | call create >/dev/null || fail "$1 is accepted"
  says "$1" "$2"
}
kubeconfig wrong api.crt >wrong
kubeconfig=wrong refuses "a wrong token" 'HTTP status 401: Unauthorized; the credentials are wrong or have expired'
kubeconfig "$token" other.crt >wrong
kubeconfig=wrong refuses "an unknown authority" 'has no trusted certificate'
kubeconfig "$token" api.crt | sed 's/namespace: lab/namespace: prod/' >wrong
kubeconfig=wrong refuses "another namespace" 'HTTP status 403: pods is forbidden.*packaging/kubernetes/provider.yaml'
kubeconfig=/nowhere refuses "a missing kubeconfig" 'cannot read /nowhere: No such file'
faults '{"500": 1000}'
timeout=2 refuses "a broken server" 'HTTP status 500: Internal error occurred'
faults '{}'
printf 'spec: {hostPID: true}\n' >template.yaml
sed 's/"--image=divvy"/"--image=divvy","--template=TEMPLATE"/' <<<"$(order 5)" | sed "s|TEMPLATE|$PWD/template.yaml|" >with_template
! call create <with_template || fail "a template that asks for privileges is accepted"
says "the template" 'template.yaml: the template asks for privileges: spec.hostPID; remove it'
with_template() { # SPEC
  printf 'spec: {%s}\n' "$1" >template.yaml
  ! call create <with_template >/dev/null || fail "spec: {$1} is accepted"
}
with_template "schedulerNam: x"
says "a misspelled field" 'HTTP status 400: .*unknown field "spec.schedulerNam"'
# A refusal that is no missing right does not point to the manifest.
with_template "priorityClassName: nowhere"
says "an unknown priority class" 'HTTP status 403: .*no PriorityClass with name nowhere was found$'
expect 0 "$(pods)" "pods after errors"

# A client certificate, in files beside the kubeconfig, instead of a token.
kubeconfig "$token" api.crt | sed 's/user: {token.*/user: {client-certificate: other.crt, client-key: other.key}}]/' >certified
expect '{"nodes":[]}' "$(order 1 | kubeconfig=certified call list)" "the nodes for a certificate ($(cat err))"

# Inside a pod, the service account is used.
if [ "$(id -u)" = 0 ] && unshare --mount true 2>/dev/null; then
  order 1 >list.order
  unshare --mount sh -ec '
    mkdir -p /var/run/secrets 2>/dev/null || true
    mount -t tmpfs secrets /var/run
    mkdir -p /var/run/secrets/kubernetes.io/serviceaccount
    cd /var/run/secrets/kubernetes.io/serviceaccount
    cp "$1/api.crt" ca.crt; printf "%s\n" "$2" >token; printf lab >namespace
    cd "$1"
    KUBERNETES_SERVICE_HOST=127.0.0.1 KUBERNETES_SERVICE_PORT="$3" "$4" provider kubernetes list <list.order' \
    sh "$PWD" "$token" "${api#*:}" "$divvy_binary" >out 2>err || fail "in a pod: $(cat err)"
  expect '{"nodes":[]}' "$(cat out)" "the nodes, listed in a pod"
fi

# The controller: a burst of 20 jobs runs on at most two pods, which are removed when idle.
cat >template.yaml <<EOF
metadata: {labels: {team: vision}}
spec:
  priorityClassName: low
EOF
cat >divvy.toml <<EOF
[[providers]]
name = "k8s"
kind = "kubernetes"
credentials = "$PWD/kubeconfig"
options = ["--image=divvy:test", "--divvy-path=$divvy_binary", "--divvy-emulate=8xH100-80GB", "--template=$PWD/template.yaml", "--node-selector=gpu=h100"]
max_nodes = 2
timeout = "20s"
poll = "1s"
idle = "2s"
min_lifetime = "1s"

[[providers.shapes]]
name = "h100x8"
gpu_model = "H100-80GB"
gpus = 8
cpus = 2
memory = "1G"
price = 24
startup = "5s"
EOF
up_at ""
faults '{"429": 1, "500": 1, "lost": 1}'
for _ in $(seq 20); do divvy submit --gpus 1 -- sleep 0.2 >/dev/null; done
divvy submit --gpus 1 -- sh -c 'exit 7' >/dev/null
wait_for "a pod" sh -c "cat '$state'/pods/*.json >pod"
grep -q '"priorityClassName": "low"' pod || fail "the template is not used: $(cat pod)"
grep -q '"nodeSelector": {"gpu": "h100"}' pod || fail "the node selector is not used"
WAIT_S=60 wait_for "the burst" queue_is_empty
expect 20 "$(divvy queue --all --json --state succeeded | grep -o '"display_id"' | wc -l)" "jobs that succeeded"
expect 7 "$(field 21 exit_code)" "the exit code of job 21"
nothing_left() { [ -z "$(ls "$state/pods" "$state/secrets" | grep json)" ] && [ "$(divvy providers nodes --csv | wc -l)" -le 1 ]; }
WAIT_S=60 wait_for "the return of idle pods" nothing_left
! grep -qF -e "$token" daemon.log || fail "the credentials are in the log"
! grep -qE '#[0-9a-f]{8}\.[0-9a-f]{64}' daemon.log || fail "a join token is in the log"

# The role in packaging/ allows the calls that were made, and no others.
used=$(sort -u "$state/calls" | grep -v '^list secrets')
allowed=$(awk '/resources:/ { gsub(/[^a-z]/, " "); $1 = ""; resource = $2 }
  /verbs:/ { gsub(/[^a-z]/, " "); $1 = ""; for (i = 2; i <= NF; ++i) print $i, resource }' "${here%/*/*}/packaging/kubernetes/provider.yaml" | sort -u)
expect "$allowed" "$used" "the rights that the provider uses"
echo "$(grep -c event=node_requested daemon.log) nodes for 21 jobs"
