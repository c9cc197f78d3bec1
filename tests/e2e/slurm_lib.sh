# Sourced after lib.sh: a private Slurm (munged, slurmctld, slurmd) on this machine, with fake GPUs.
#
# SLURM_PREFIX: the folder of unpacked Debian packages (scripts/lib.sh unpack_slurm); empty: Slurm is installed.

# start_slurm FOLDER NODES GPUS: starts it, sets SLURM_CONF, and puts its commands into PATH.
start_slurm() {
  slurm=$1
  # Below the ports that the kernel gives to connections.
  local nodes=$2 gpus=$3 n g base=$((10000 + (RANDOM + $$) % 9000)) prefix=${SLURM_PREFIX:-}
  local plugins=$prefix/usr/lib/$(uname -m)-linux-gnu/slurm-wlm program
  mkdir -p "$slurm/state" "$slurm/log" "$slurm/bin"
  chmod 755 "$slurm"
  # Debian's names end with -wlm; the programs behave differently if they are not called by their own names.
  for program in slurmctld slurmd slurmstepd; do
    [ ! -x "$prefix/usr/sbin/$program-wlm" ] || ln -s "$prefix/usr/sbin/$program-wlm" "$slurm/bin/$program"
    [ -e "$slurm/bin/$program" ] || ln -s "$prefix/usr/sbin/$program" "$slurm/bin/$program"
  done
  PATH=$prefix/usr/bin:$PATH
  [ -z "${SLURM_LIBRARIES:-}" ] || export LD_LIBRARY_PATH=$SLURM_LIBRARIES${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  for n in $(seq "$nodes"); do
    mkdir -p "$slurm/spool/n$n" "$slurm/dev/n$n"
    # Slurm counts only devices. No driver has this number: 240 to 254 are for local use.
    for g in $(seq 0 $((gpus - 1))); do mknod "$slurm/dev/n$n/gpu$g" c 241 $(((n - 1) * gpus + g)); done
  done
  {
    cat <<EOF
ClusterName=divvytest
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmUser=$(id -un)
AuthType=auth/munge
AuthInfo=socket=$slurm/munge.sock
PluginDir=$plugins
SlurmctldPort=$base
SlurmctldPidFile=$slurm/slurmctld.pid
SlurmdPidFile=$slurm/slurmd-%n.pid
SlurmdSpoolDir=$slurm/spool/%n
StateSaveLocation=$slurm/state
SlurmctldLogFile=$slurm/log/slurmctld.log
SlurmdLogFile=$slurm/log/slurmd-%n.log
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
ReturnToService=2
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,bf_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SlurmdParameters=config_overrides
KillWait=5
GresTypes=gpu
EOF
    for n in $(seq "$nodes"); do
      echo "NodeName=n$n NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 Port=$((base + n)) CPUs=64 RealMemory=4096 Gres=gpu:$gpus State=UNKNOWN"
    done
    echo "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP"
  } >"$slurm/slurm.conf"
  {
    echo "AutoDetect=off"
    for n in $(seq "$nodes"); do echo "NodeName=n$n Name=gpu File=$slurm/dev/n$n/gpu[0-$((gpus - 1))]"; done
  } >"$slurm/gres.conf"
  export SLURM_CONF=$slurm/slurm.conf
  head -c 1024 /dev/urandom >"$slurm/munge.key"
  chmod 400 "$slurm/munge.key"
  "$prefix/usr/sbin/munged" --force --foreground --key-file "$slurm/munge.key" --socket "$slurm/munge.sock" \
    --pid-file "$slurm/munged.pid" --seed-file "$slurm/munge.seed" --log-file "$slurm/log/munged.log" </dev/null >/dev/null 2>&1 &
  munged_pid=$!
  disown
  wait_for "munged" [ -S "$slurm/munge.sock" ]
  start_slurmctld
  for n in $(seq "$nodes"); do
    "$slurm/bin/slurmd" -D -N "n$n" -d "$slurm/bin/slurmstepd" </dev/null >"$slurm/log/slurmd-n$n.out" 2>&1 &
    slurmd_pids="${slurmd_pids:-} $!"
    disown
  done
  slurm_is_up() { [ "$(sinfo -h -N -o %T | grep -c '^idle')" = "$nodes" ]; }
  WAIT_S=60 wait_for "Slurm's nodes" slurm_is_up
}
start_slurmctld() {
  "$slurm/bin/slurmctld" -D </dev/null >"$slurm/log/slurmctld.out" 2>&1 &
  slurmctld_pid=$!
  disown
}
# Ends what start_slurm started, its steps included.
stop_slurm() {
  local pid
  scancel --full --signal=KILL --user="$(id -un)" >/dev/null 2>&1 || true
  scancel --user="$(id -un)" >/dev/null 2>&1 || true
  for pid in $(grep -lsF "$slurm" /proc/[0-9]*/cmdline /proc/[0-9]*/environ | cut -d/ -f3 | sort -u); do
    [ "$pid" = $$ ] || ! grep -qa 'slurmstepd\|slurm_script' "/proc/$pid/cmdline" 2>/dev/null || kill -9 "$pid" 2>/dev/null || true
  done
  for pid in ${slurmd_pids:-} ${slurmctld_pid:-} ${munged_pid:-}; do kill -9 "$pid" 2>/dev/null || true; done
}
