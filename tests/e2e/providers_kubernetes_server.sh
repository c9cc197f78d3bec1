#!/usr/bin/env bash
# Nodes on demand from Kubernetes, with the real API server that KUBECONFIG names (an administrator's kubeconfig). The
# pods are bound and run as processes of this machine by tests/providers/kubelet.py, so the cluster needs no nodes, and
# its own ones get none of them. Everything is in two new namespaces, which are removed at the end, as is one object of
# kind Node.
here=$(cd "$(dirname "$0")" && pwd)
[ -n "${KUBECONFIG:-}" ] || { echo "skipped: KUBECONFIG names no kubeconfig"; exit 77; }
admin=$KUBECONFIG
unset KUBECONFIG
. "$here/lib.sh"
command -v kubectl >/dev/null || skip "kubectl is not installed"
kube() { KUBECONFIG=$admin kubectl "$@"; }
kube get --raw /readyz >/dev/null || fail "the API server that KUBECONFIG names is not ready"
packaging=${here%/*/*}/packaging/kubernetes

with_machines
state=$machines/k
mkdir -p "$state"
space=divvy-test-$$-$RANDOM
worker=$space
proxy='' kubelet=''
end_cluster() {
  local pid
  for pid in $kubelet $proxy; do
    kill "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  done
  kube -n "$space-nodes" delete pods --all --force --grace-period 0 >/dev/null 2>&1 || true
  kube delete namespace "$space" "$space-nodes" --wait=false >/dev/null 2>&1 || true
  kube delete node "$worker" >/dev/null 2>&1 || true
}
trap 'clean_up; end_cluster; end_agents; rm -rf "$machines"' EXIT
kube create namespace "$space" >/dev/null
kube create namespace "$space-nodes" >/dev/null
kube create -f - >/dev/null <<YAML
apiVersion: v1
kind: Node
metadata: {name: $worker}
spec: {taints: [{key: divvy-test, effect: NoSchedule}]}
YAML

# The manifests are accepted without warnings; those of the controller and of the agents need an image, so nothing of
# them is kept. provider.yaml is applied, and applied again it changes nothing.
manifest() { sed "s/namespace: divvy\b/namespace: $space/" "$packaging/$1.yaml"; }
for file in provider controller agents; do
  for way in "" --server-side; do
    manifest $file | kube apply $way --dry-run=server -f - >applied 2>&1 || fail "$file.yaml $way: $(cat applied)"
    ! grep -qi warning applied || fail "$file.yaml $way: $(cat applied)"
  done
done
for change in created unchanged; do
  manifest provider | kube apply -f - >applied 2>&1 || fail "provider.yaml: $(cat applied)"
  expect 3 "$(grep -c " $change\$" applied)" "objects of provider.yaml that are $change ($(cat applied))"
done

# The account of the manifest has these rights in the namespace of the nodes, and none elsewhere.
account=system:serviceaccount:$space:divvy-provider
may() { kube auth can-i --as "$account" "$@" 2>/dev/null || true; }
for right in "create pods" "delete pods" "get pods" "list pods" "create secrets" "delete secrets" "get secrets"; do
  expect yes "$(may $right -n "$space-nodes")" "the right to $right"
  expect no "$(may $right -n "$space")" "the right to $right in the controller's namespace"
done
for right in "list secrets" "watch secrets" "update pods" "create pods --subresource=exec" "create configmaps" "create serviceaccounts --subresource=token"; do
  expect no "$(may $right -n "$space-nodes")" "the right to $right"
done

# Without kube-controller-manager there is no account for pods.
has_account() { kube -n "$space-nodes" get serviceaccount default; }
WAIT_S=3
(wait_for "the account of pods" has_account) >/dev/null 2>&1 || kube -n "$space-nodes" create serviceaccount default >/dev/null
unset WAIT_S
KUBECONFIG=$admin kubectl proxy --unix-socket="$state/proxy" >"$state/proxy.log" 2>&1 &
proxy=$!
wait_for "kubectl proxy" [ -S "$state/proxy" ]
"${here%/*}/providers/kubelet.py" "$state" "$state/proxy" "$space-nodes" "$worker" >"$state/kubelet.log" 2>&1 &
kubelet=$!

token=$(kube -n "$space" create token divvy-provider --duration 1h)
value() { kube config view --raw --minify -o "jsonpath={.clusters[0].cluster.$1}"; }
authority=$(value certificate-authority-data)
[ -n "$authority" ] || authority=$(base64 -w0 "$(value certificate-authority)")
kubeconfig() { # TOKEN NAMESPACE
  cat <<YAML
apiVersion: v1
kind: Config
current-context: test
contexts: [{name: test, context: {cluster: test, user: test, namespace: $2}}]
clusters: [{name: test, cluster: {server: "$(value server)", certificate-authority-data: $authority}}]
users: [{name: test, user: {token: $1}}]
YAML
}
umask 077
kubeconfig "$token" "$space-nodes" >kubeconfig
umask 022
join=10.0.0.1:7433#0123abcd.$(printf 'e%.0s' $(seq 64))
printf 'spec: {schedulerName: %s}\n' "$worker" >template.yaml
printf '#!/bin/sh\nexec sleep 1000\n' >sleeper
chmod +x sleeper
order() { # TOKEN-DIGIT [MEMBERS]: an order whose pod sleeps instead of running an agent
  printf '{"version":1,"cluster":"%s","provider":"k8s","token":"%032d","name":"k8s-%d","join":"%s",
    "options":["--image=divvy","--divvy-path=%s","--template=%s"],"shape":{"name":"s","gpu_model":"H100-80GB","gpus":8,
    "cpus":2,"memory_bytes":1073741824}%s}' "${cluster:-clustera}" "$1" "$1" "$join" "$PWD/sleeper" \
    "${template:-$PWD/template.yaml}" "${2:-}"
}
call() { KUBECONFIG=${kubeconfig:-$PWD/kubeconfig} DIVVY_TIMEOUT_S=20 "$divvy_binary" provider kubernetes "$@" 2>err; }
instances() { order 1 | call list | grep -o '"instance":"[^"]*"' | cut -d'"' -f4 | sort | tr '\n' ' '; }
pod_of() { printf 'divvy-%032d' "$1"; }
of_pod() { kube -n "$space-nodes" get pod "$(pod_of "$1")" -o "jsonpath={$2}" 2>/dev/null; } # DIGIT PATH
has_phase() { [ "$(of_pod "$1" .status.phase)" = "$2" ]; }
is_gone() { [ -z "$(kube -n "$space-nodes" get pods,secrets -o name | grep "$(pod_of "$1")")" ]; }

# A token creates one pod. It has what the order says, and the join line is only in its secret.
for _ in 1 2; do
  expect "{\"instance\":\"$(pod_of 1)\"}" "$(order 1 | call create)" "the answer to create ($(cat err))"
done
expect "$(pod_of 1) " "$(instances)" "the nodes ($(cat err))"
wait_for "the pod" has_phase 1 Running
expect "8 2 1073741824" "$(of_pod 1 '.spec.containers[0].resources.limits.nvidia\.com/gpu') $(of_pod 1 '.spec.containers[0].resources.limits.cpu') $(of_pod 1 '.spec.containers[0].resources.limits.memory' | sed 's/^1Gi$/1073741824/')" "the limits"
! kube -n "$space-nodes" get pod "$(pod_of 1)" -o json | grep -qF "$join" || fail "the join line is in the pod"
expect "$join" "$(kube -n "$space-nodes" get secret "$(pod_of 1)" -o 'jsonpath={.data.join}' | base64 -d)" "the secret"
expect '{"nodes":[]}' "$(cluster=clusterb order 1 | call list)" "the nodes of another cluster"
# A pod without a place is pending. One that is deleted before it has one goes at once.
touch "$state/full"
order 2 | call create >/dev/null || fail "create: $(cat err)"
order 1 | call list | grep -q "\"instance\":\"$(pod_of 2)\",\"ends_at\":null,\"state\":\"pending\"" || fail "lists: $(order 1 | call list)"
expect "{}" "$(order 2 | call destroy)" "the answer to destroy by token ($(cat err))"
wait_for "the end of the pod without a place" is_gone 2
rm "$state/full"
# A pod that has ended is no node, and is removed.
order 3 | call create >/dev/null || fail "create: $(cat err)"
wait_for "the third pod" has_phase 3 Running
kill $(grep -lsF "$state/running/$(of_pod 3 .metadata.uid)" /proc/[0-9]*/environ | cut -d/ -f3)
wait_for "the end of its process" has_phase 3 Failed
expect "$(pod_of 1) " "$(instances)" "the nodes without the one that has ended"
wait_for "the removal of the pod that has ended" is_gone 3
# Destroy. A node of another cluster stays.
expect "{}" "$(cluster=clusterb order 1 ",\"instance\":\"$(pod_of 1)\"" | call destroy)" "the answer to destroy ($(cat err))"
expect "" "$(of_pod 1 .metadata.deletionTimestamp)" "the time at which another cluster deleted the node"
expect "{}" "$(order 1 ",\"instance\":\"$(pod_of 1)\"" | call destroy)" "the answer to destroy ($(cat err))"
wait_for "the end of the pod" is_gone 1
expect "{}" "$(order 1 | call destroy)" "the answer to destroy without a node ($(cat err))"
# The secret that an earlier pod left is replaced.
kube -n "$space-nodes" create secret generic "$(pod_of 4)" --from-literal=join=old >/dev/null
kube -n "$space-nodes" label secret "$(pod_of 4)" "divvy.dev/token=$(printf %032d 4)" >/dev/null
order 4 | call create >/dev/null || fail "create: $(cat err)"
expect "$(of_pod 4 .metadata.uid)" "$(kube -n "$space-nodes" get secret "$(pod_of 4)" -o 'jsonpath={.metadata.ownerReferences[0].uid}')" "the owner of the secret"
order 4 | call destroy >/dev/null || fail "destroy: $(cat err)"
wait_for "the end of the fourth pod" is_gone 4

# Errors of the server are clear and show no secret.
refuses() { # WHAT TEXT
  ! order 5 | call create >/dev/null || fail "$1 is accepted"
  ! grep -qF -e "$token" -e "$join" err || fail "$1 shows a secret: $(cat err)"
  grep -q "$2" err || fail "$1 says: $(cat err)"
}
kubeconfig wrong "$space-nodes" >wrong
kubeconfig=wrong refuses "a wrong token" 'HTTP status 401: Unauthorized; the credentials are wrong or have expired'
kubeconfig "$token" "$space" >wrong
kubeconfig=wrong refuses "another namespace" 'HTTP status 403: pods is forbidden.*packaging/kubernetes/provider.yaml'
printf 'spec: {schedulerNam: x}\n' >misspelled.yaml
template=$PWD/misspelled.yaml refuses "a misspelled field" 'HTTP status 400: .*unknown field "spec.schedulerNam"'
printf 'spec: {priorityClassName: divvy-test-nowhere}\n' >no_class.yaml
template=$PWD/no_class.yaml refuses "an unknown priority class" 'HTTP status 403: .*no PriorityClass with name divvy-test-nowhere was found$'
is_gone 5 || fail "something is left after errors"

# The controller: a burst of 20 jobs on at most two nodes, while the controller is killed as soon as a pod is requested,
# when a node has joined, and when the provider is drained.
cat >divvy.toml <<TOML
[[providers]]
name = "k8s"
kind = "kubernetes"
credentials = "$PWD/kubeconfig"
options = ["--image=divvy:test", "--divvy-path=$divvy_binary", "--divvy-emulate=8xH100-80GB", "--template=$PWD/template.yaml"]
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
TOML
kill_controller() {
  kill -9 "$(daemon_pid)"
  up_at "$port"
}
up_at ""
for _ in $(seq 20); do divvy submit --gpus 1 -- sleep 2 >/dev/null; done
divvy submit --gpus 1 -- sh -c 'exit 7' >/dev/null
has_pod() { kube -n "$space-nodes" get pods -o name | grep pod/divvy-; }
wait_for "a pod" has_pod
kill_controller
WAIT_S=60 wait_for "jobs that run" sh -c '[ "$(divvy queue --json --state running | grep -c display_id)" -gt 0 ]'
kill_controller
WAIT_S=120 wait_for "the burst" queue_is_empty
expect 20 "$(divvy queue --all --json --state succeeded | grep -o '"display_id"' | wc -l)" "jobs that succeeded"
expect 7 "$(field 21 exit_code)" "the exit code of job 21"
# A drained provider removes its nodes at once. Their jobs wait, and run on a new node when it is enabled again.
divvy submit --gpus 8 -- sleep 2 >/dev/null
WAIT_S=60 wait_for "a node for the last job" state_is 22 running
nothing_left() { ! kube -n "$space-nodes" get pods,secrets -o name | grep divvy- && [ "$(divvy providers nodes --csv | wc -l)" -le 1 ]; }
divvy providers drain k8s >/dev/null
kill_controller
WAIT_S=60 wait_for "the removal of the drained nodes" nothing_left
wait_for "the last job in the queue" state_is 22 queued
divvy providers enable k8s >/dev/null
WAIT_S=90 wait_for "the end of the last job" queue_is_empty
WAIT_S=60 wait_for "the return of the nodes" nothing_left
expect succeeded "$(field 22 state)" "the last job"
[ "$(ls "$state/logs" | grep -vc -e "$(pod_of 1)" -e "$(pod_of 3)" -e "$(pod_of 4)")" -le "$(grep -c event=node_requested daemon.log)" ] ||
  fail "more pods ran than nodes were requested: $(ls "$state/logs")"
! grep -qF -e "$token" daemon.log || fail "the credentials are in the log"
! grep -qE '#[0-9a-f]{8}\.[0-9a-f]{64}' daemon.log || fail "a join token is in the log"
! grep -q Traceback "$state/kubelet.log" || fail "the stand-in for the kubelet failed: $(cat "$state/kubelet.log")"
echo "$(kube version -o json | tr -d '\n' | grep -o '"serverVersion".*' | grep -o '"gitVersion": *"[^"]*"' | cut -d'"' -f4): $(grep -c event=node_requested daemon.log) nodes for 22 jobs, 3 kills of the controller"
