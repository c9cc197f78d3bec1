// Every command, with its words. The order is the order of --help.
#include <unistd.h>

#include <cstdio>

#include "base/text.h"
#include "cli/commands.h"
#include "platform/emulation.h"
#include "platform/places.h"
#include "version.h"

namespace divvy::cli {
namespace {

int EmulateMain(const Words& words) {
  const std::string state = FindPlaces().state;
  // An agent keeps its own beside all else that is the agent's.
  const bool is_agents =
      ::access((state + "/emulate").c_str(), F_OK) != 0 && ::access((state + "/agent/emulate").c_str(), F_OK) == 0;
  const Status driven = DriveEmulation(state + (is_agents ? "/agent/emulate" : "/emulate"), words);
  return driven ? 0 : Fail(driven.error());
}

int VersionMain(const Words&) {
  std::printf("divvy %s\n", std::string(kVersion).c_str());
  return 0;
}

std::vector<Command> MakeCommands() {
  return {
      {"up",
       "Start the daemon",
       "divvy up [--emulate SPEC] [--gpus LIST] [--listen HOST:PORT]",
       "Starts the daemon and returns when it serves. As root it serves the machine (/run/divvy, /var/lib/divvy); else "
       "it is your own. DIVVY_HOME=DIR keeps everything of a private one under DIR. Nothing needs to be configured; "
       "divvy.toml may be.",
       {{"divvy up", "on this server's GPUs"},
        {"divvy up --emulate 8xH100-80GB", "on stand-in GPUs, to try things out"}},
       "Daemon",
       UpOptions,
       "",
       UpMain,
       false},
      {"down",
       "End the daemon; jobs go on",
       "divvy down",
       "Running jobs are not touched. The next daemon knows them, and how those ended that ended in between.",
       {{"divvy down", ""}},
       "Daemon",
       nullptr,
       "",
       DownMain,
       false},
      {"status",
       "Show the daemon, its GPUs and its queue in a few lines",
       "divvy status [--json]",
       "",
       {{"divvy status", ""}},
       "Daemon",
       StatusOptions,
       "",
       StatusMain,
       false},

      {"ui",
       "Open the page in a browser",
       "divvy ui [--no-open] [--remote]",
       "Prints a link that lets a browser in once, within five minutes, and opens it where there is a screen. Whoever "
       "is "
       "in may do there what the one who asked for the link may do here, for seven days or until they log out.",
       {{"divvy ui", "on this machine"},
        {"divvy ui --remote", "for a browser elsewhere, where divvy.toml has remote = true in [ui]"}},
       "Daemon",
       UiOptions,
       "",
       UiMain,
       false},

      {"run",
       "Run a command on GPUs and wait for it",
       "divvy run [OPTIONS] [--] COMMAND...",
       "The command uses this terminal: its streams, Ctrl-C, its exit code. It waits for its turn first; a second "
       "Ctrl-C ends it. A restart of the daemon does not harm it, whether it waits or runs. Inside a job it starts a "
       "step of that job at once, on GPUs that the job has; --as-job makes a job of its own there.",
       {{"divvy run --gpus 1 python train.py", "on one GPU"},
        {"divvy run --gpus 2 --pty bash", "a shell on two GPUs"},
        {"divvy run --tasks 8 --gpus-per-task 1 python train.py", "eight processes, each with a GPU of its own"}},
       "Jobs",
       RunOptions,
       "command",
       RunMain,
       false},
      {"submit",
       "Queue a command or a script and return",
       "divvy submit [OPTIONS [: OPTIONS]...] [--] COMMAND... | SCRIPT [ARGUMENTS...] | -",
       "A script's own lines (#SBATCH, # GFLOW, # DIVVY) are read first; options given here win. The script's text, "
       "the environment, the directory and the limits are kept as they are now. Behind ':' stand the options of a "
       "further component: other machines, GPUs and cores, which start together with the first or not at all.",
       {{"divvy submit --gpus 2 --time 4h train.sh", "a script"},
        {"divvy submit --gpus 8 : --nodes 2 --cpus 32 -- python train.py", "two components: GPUs here, cores there"},
        {"divvy submit --gpus 1 --array 0-99%8 -- python sweep.py", "100 jobs, at most 8 at once"},
        {"divvy submit --gpus 1 --param lr=1e-3,1e-4 --param seed=0:9 -- python t.py --lr {lr} --seed {seed}",
         "a grid of 20"},
        {"divvy submit --after @ -- ./evaluate.sh", "when my last job has ended"}},
       "Jobs",
       SubmitOptions,
       "script",
       SubmitMain,
       false},
      {"queue",
       "List the jobs that wait and run",
       "divvy queue [OPTIONS] [ID...]",
       "",
       {{"divvy queue -w", "live"},
        {"divvy queue --all --since 2h -o id,name,state,exit,time", "with those that have ended"}},
       "Jobs",
       QueueOptions,
       "job",
       QueueMain,
       false},
      {"top",
       "GPUs, running jobs and the waiting list, live",
       "divvy top [OPTIONS]",
       "GPUs above with their use (the last half minute), memory, and who has them for how long; jobs that run; the "
       "waiting list with expected starts and reasons. Keys: arrows, PgUp, PgDn or the mouse choose a job; w (or "
       "Enter) "
       "says why, l shows its log, h holds or releases it, c cancels it, p sets its priority; / filters, s sorts, t "
       "puts "
       "jobs under their users, u shows one's own, g hides the GPUs, Escape shows everything again, q ends.",
       {{"divvy top", ""}, {"divvy top --once >now.txt", "one screen, as text"}},
       "Jobs",
       TopOptions,
       "",
       TopMain,
       false},
      {"show",
       "Show everything about a job",
       "divvy show ID...",
       "",
       {{"divvy show 17", ""}, {"divvy show @ --json", "my last job, for a program"}},
       "Jobs",
       ShowOptions,
       "job",
       ShowMain,
       false},
      {"why",
       "Say what holds a job back, and when it will start",
       "divvy why ID...",
       "Every reason with its numbers, who has what is missing and until when, the place in the queue, the expected "
       "start and on what it rests, and the command that would start the job now, where there is one.",
       {{"divvy why 17", ""}},
       "Jobs",
       ShowOptions,
       "job",
       WhyMain,
       false},
      {"logs",
       "Print a job's output",
       "divvy logs [-f] [-n N] ID",
       "Of an array, the output of each element that has started, under a heading; with -f, the lines of all of them "
       "as they come.",
       {{"divvy logs -f @", "follow my last job"}, {"divvy logs 17 -n 5", "the last lines of each element"}},
       "Jobs",
       LogsOptions,
       "job",
       LogsMain,
       false},
      {"attach",
       "Join a job's terminal",
       "divvy attach ID",
       "For jobs submitted with --pty. Ctrl-P Ctrl-Q leaves it running.",
       {{"divvy attach 17", ""}},
       "Jobs",
       nullptr,
       "job",
       AttachMain,
       false},
      {"wait",
       "Wait until jobs have ended",
       "divvy wait ID...",
       "The exit code is the highest of theirs.",
       {{"divvy wait 17 18", ""}},
       "Jobs",
       nullptr,
       "job",
       WaitMain,
       false},
      {"cancel",
       "Cancel jobs",
       "divvy cancel [OPTIONS] ID...",
       "A job that runs gets its stop signal (TERM), then, after its grace (30 s), SIGKILL; all of its processes do.",
       {{"divvy cancel 17 20-25 30_4", "jobs, ranges, one element of an array"}, {"divvy cancel --all", "all of mine"}},
       "Jobs",
       CancelOptions,
       "job",
       CancelMain,
       false},
      {"hold",
       "Keep queued jobs from starting",
       "divvy hold ID...",
       "",
       {{"divvy hold 17", ""}},
       "Jobs",
       SelectOptions,
       "job",
       HoldMain,
       false},
      {"release",
       "Let held jobs start again",
       "divvy release ID...",
       "",
       {{"divvy release 17", ""}},
       "Jobs",
       SelectOptions,
       "job",
       ReleaseMain,
       false},
      {"requeue",
       "Stop running jobs, or take jobs that have ended, and queue them again under their ids",
       "divvy requeue [OPTIONS] ID...",
       "",
       {{"divvy requeue 17", ""}, {"divvy requeue --hold 17", "and it waits for divvy release"}},
       "Jobs",
       RequeueOptions,
       "job",
       RequeueMain,
       false},
      {"resize",
       "Change the part of a GPU that jobs have, also while they run",
       "divvy resize ID... [--gpus PART] [--gpu-limit PART] [--compute PART[:PART]]",
       "What is not said stays as it is; a limit below the new request rises to it. What the job asks for grows only "
       "where those who share the GPU with it leave room; its limit may always change. The job goes on all the while, "
       "and has what it had until it gives it back itself.",
       {{"divvy resize 17 --gpus 0.5 --gpu-limit 1.0", "half a GPU by right, all of it while nobody else wants it"},
        {"divvy resize 17 --gpu-limit 0.5", "nothing beyond what it asks for, if that is half a GPU"},
        {"divvy resize 17 --gpu-memory 20G", "20 GiB of its GPU"}},
       "Jobs",
       ResizeOptions,
       "job",
       ResizeMain,
       false},
      {"park",
       "Bring the GPU memory of jobs with parts of GPUs to the host; their processes live on",
       "divvy park ID...",
       "The next call of the job that needs its GPU brings it back, maybe on another one; so does divvy wake. With "
       "--idle-park at its submission a job is parked by itself.",
       {{"divvy park 17", ""}},
       "Jobs",
       SelectOptions,
       "job",
       ParkMain,
       false},
      {"wake",
       "Bring parked jobs back to a GPU",
       "divvy wake ID...",
       "",
       {{"divvy wake 17", ""}},
       "Jobs",
       SelectOptions,
       "job",
       WakeMain,
       false},
      {"move",
       "Bring a job with parts of GPUs to others of its machine, while it runs",
       "divvy move ID --to GPU[,GPU...]",
       "Its memory comes along, under the same addresses. The plan stays as it is: when a larger job needs the GPU, it "
       "may be moved again.",
       {{"divvy move 17 --to 3", ""}},
       "Jobs",
       MoveOptions,
       "job",
       MoveMain,
       false},
      {"pause",
       "Stop the processes of running jobs; they keep their GPUs",
       "divvy pause ID...",
       "",
       {{"divvy pause 17", ""}},
       "Jobs",
       SelectOptions,
       "job",
       PauseMain,
       false},
      {"resume",
       "Let paused jobs go on",
       "divvy resume ID...",
       "",
       {{"divvy resume 17", ""}},
       "Jobs",
       SelectOptions,
       "job",
       ResumeMain,
       false},
      {"signal",
       "Send a signal to all processes of running jobs",
       "divvy signal SIGNAL ID...",
       "",
       {{"divvy signal USR1 17", "ask it to write a checkpoint"}},
       "Jobs",
       SelectOptions,
       "job",
       SignalMain,
       false},
      {"checkpoint",
       "From inside an elastic job: take the GPUs that it is given, give back what is asked for",
       "divvy checkpoint [ID]",
       "For a job with --gpus 2..8, at a moment when it uses no GPU or can let go of those that it is to give back: "
       "what it was asked for is free once this returns. Prints the GPUs to use from now on, as CUDA_VISIBLE_DEVICES "
       "has them. Exit code 0: they are the same as before; 3: they have changed; else nothing was done, and the job "
       "goes on with those that it has. It never waits for GPUs. A job takes part from its first checkpoint on: then "
       "DIVVY_GPUS_FILE and a signal (--resize-signal) tell it of changes.",
       {{"gpus=$(divvy checkpoint)", "in a job's script"}},
       "Jobs",
       nullptr,
       "job",
       CheckpointMain,
       false},
      {"progress",
       "Say how far a job is, from inside it or for it",
       "divvy progress PART|STEP/STEPS [ID]",
       "A part of the whole (0.35, 35%) or steps out of all (1200/100000). Inside a job it knows the job by itself. "
       "What "
       "was said last is in divvy show and divvy queue; with two reports at least ten seconds apart, so is the end to "
       "expect, which estimates go by. A run never goes back. It prints nothing, and may be called as often as the job "
       "likes: it is kept on disk at most every ten seconds.",
       {{"divvy progress 0.35", "in a job's script"}, {"divvy progress 1200/100000 17", "of job 17"}},
       "Jobs",
       nullptr,
       "job",
       ProgressMain,
       false},
      {"update",
       "Change queued jobs, and the time limit and labels of running ones",
       "divvy update ID... [OPTIONS] [-- COMMAND...]",
       "Takes the options of divvy submit, and checks the job as if it were submitted so. Of each job all that is "
       "asked "
       "is changed, or nothing. While a job runs, its time limit, priority, name, project, comment and retries can "
       "change. Of an array, all elements that wait are changed; 17_3 is one of them. An empty text takes a file, "
       "label "
       "or dependency back.",
       {{"divvy update 17 --gpus 2 --time 8h", ""},
        {"divvy update 17 --output out/%j.log -- python train.py --lr 1e-4", "another command"},
        {"divvy update 18 --dependency afterok:17", "instead of what it waited for"}},
       "Jobs",
       UpdateOptions,
       "job",
       UpdateMain,
       false},
      {"group",
       "Cap how many jobs of a group run together",
       "divvy group limit NAME N",
       "",
       {{"divvy group limit sweep 4", ""}, {"divvy group limit 17 8", "of the array 17"}},
       "Jobs",
       nullptr,
       "",
       GroupMain,
       false},
      {"explain",
       "Say what a script really asks for, and what is wrong with it",
       "divvy explain SCRIPT",
       "",
       {{"divvy explain train.sh", ""}, {"divvy explain valohai.yaml", ""}},
       "Jobs",
       nullptr,
       "script",
       ExplainMain,
       false},

      {"gpus",
       "List the GPUs and who has them; restrict, ignore",
       "divvy gpus [OPTIONS] | restrict [NODES:]LIST|all|none | ignore [NODE:]PID [GPU] | unignore [NODE:]PID",
       "restrict limits what new work may use; running jobs stay, but parts of GPUs are moved to others. ignore lets "
       "work onto a GPU although that process, "
       "which divvy did not start, uses it; the rule ends with the process. Without NODE: on the controller's machine.",
       {{"divvy gpus -w", "live"},
        {"divvy gpus restrict 0,2", "new work uses GPUs 0 and 2 only"},
        {"divvy gpus restrict all", "all of them again"},
        {"divvy gpus restrict 'n[1-4]:0-3'", "on these machines"}},
       "GPUs",
       GpusOptions,
       "gpu",
       GpusMain,
       false},

      {"teams",
       "List the teams that share the GPUs, and change them",
       "divvy teams [list|users|show NAME] | add|set NAME [OPTIONS] | rm NAME | user NAME [OPTIONS] | quotas on|off",
       "Of each team: quota (GPUs that are its own by right), limit, share (what it may hold as things are), GPUs and "
       "jobs now, what it used in its budget's period and what is left. add, set, rm, user and quotas take an "
       "administrator. set --user adds members, --remove-user takes them out; an amount of none clears it. user sets "
       "one user's default team and caps; the user '*' stands for everybody without a row. With quotas on, a team "
       "without a quota has no access, 0 blocks it, and who is in no team has no access. Rows of divvy.toml are "
       "changed there.",
       {{"divvy teams", ""},
        {"divvy teams add vision --quota 4 --limit 6 --user ada,grace", "a team with 4 GPUs of its own"},
        {"divvy teams set vision --gpu-hours 2000 --period month", "a budget"},
        {"divvy teams user ada --team vision --max-gpus 4", "a default team, and 4 GPUs at once at most"}},
       "Teams",
       TeamsOptions,
       "",
       TeamsMain,
       false},
      {"reserve",
       "Keep GPUs for a user or team in a stretch of time",
       "divvy reserve --gpus N --user NAME|--team NAME [--start WHEN] --duration TIME [--every HOW] | list | "
       "show|cancel NUMBER",
       "From then on only jobs of that user or team start on them; before, only jobs that end in time. A running job "
       "is never ended for it, so it is refused when there is no room: jobs without a time limit are taken to run on. "
       "Turns of a recurring one are held eight days ahead. Administrators reserve; the user whom one is for may "
       "cancel it.",
       {{"divvy reserve --gpus 4 --team vision --start 'tomorrow' --duration 8h", "a day's work"},
        {"divvy reserve --gpus 2 --user ada --start 09:00 --duration 3h --every weekday --name course", "each morning"},
        {"divvy reserve cancel course", ""}},
       "Teams",
       ReserveOptions,
       "",
       ReserveMain,
       false},
      {"nodes",
       "List the machines on which jobs run",
       "divvy nodes [OPTIONS]",
       "Of each node: whether it takes work, its GPUs, CPUs and memory as its agent found them, and when it was heard "
       "from last.",
       {{"divvy nodes", ""}, {"divvy nodes --json", "with labels and the UUIDs of GPUs"}},
       "Other machines",
       NodesOptions,
       "",
       NodesMain,
       false},
      {"pools",
       "List the pools of machines, and what each gives a job",
       "divvy pools [OPTIONS]",
       "A pool is a set of machines with limits, an order and users of its own: [pools.NAME] in divvy.toml makes one, "
       "and so does the label pool=NAME of a machine, without limits. A star marks the pool of jobs that name none. "
       "JOB "
       "is what one job may have there, TOGETHER what all of its jobs may have at once.",
       {{"divvy pools", ""}, {"divvy submit --pool a,b ...", "in pool a, or in b where a has no room now"}},
       "Other machines",
       PoolsOptions,
       "",
       PoolsMain,
       false},
      {"node",
       "Keep work off a node, take it back, remove or label it",
       "divvy node cordon|drain|resume|remove NAME... [OPTIONS] | label NAME... LABEL=VALUE...",
       "cordon: no new work there, what runs goes on. drain: the same, and with --deadline what still runs then is "
       "stopped. resume: work again. remove: forgotten, it joins again by a token only. Administrators only.",
       {{"divvy node drain n7 --deadline 2h --reason 'new fan'", ""},
        {"divvy node cordon 'n[1-4]'", "several"},
        {"divvy node label n7 rack=r3", "what its agent says of itself stays"},
        {"divvy node resume n7", ""}},
       "Other machines",
       NodeOptions,
       "",
       NodeMain,
       false},
      {"agent",
       "Make this machine a node of a controller on another one",
       "divvy agent [--join LINE|- | --join-file FILE] [OPTIONS]",
       "Joins by the line that divvy token create --node printed on the controller, read from FILE or from standard "
       "input (-), so that it need not stand on a command line. From then on the machine is known by a key of its own, "
       "and divvy agent alone connects again. It dials out; nothing has to reach this machine. Jobs go on while the "
       "agent is away or restarted, and how they ended is told when it is back.",
       {{"divvy agent --join-file node.token --detach", "joins, and stays in the background"},
        {"divvy agent", "connects again, and stays in the foreground (for systemd)"},
        {"divvy agent --stop", "ends the one in the background; its jobs go on"}},
       "Other machines",
       AgentOptions,
       "",
       AgentMain,
       false},
      {"token",
       "Let a command line on another machine speak for you",
       "divvy token create [OPTIONS] | list | remove ID...",
       "create prints one line, this once: who has it may do from another machine what the token's role allows, as its "
       "user, until it expires or is removed. The daemon has to listen there (divvy up --listen). Administrators make "
       "them for anybody, others for themselves. With --node the line lets a machine join as a node, once unless "
       "--uses says otherwise.",
       {{"divvy token create --label laptop --expires 30d", "for oneself"},
        {"divvy token create --user ada --role viewer > ada.token", "ada may look"},
        {"divvy token create --node > node.token", "for divvy agent --join-file on another machine"},
        {"divvy token remove 4f1c22aa", "worth nothing from now on"}},
       "Other machines",
       TokenOptions,
       "",
       TokenMain,
       false},
      {"login",
       "Work with the daemon of another machine from here",
       "divvy login [FILE]",
       "Reads the line that divvy token create printed there, from FILE or from standard input, looks whether it is "
       "taken, and keeps it in ~/.config/divvy/controller, which is yours alone. Where this machine has no daemon, all "
       "commands go there from then on; where it has one, DIVVY_CONTROLLER=FILE chooses for one command.",
       {{"divvy login", "and paste the line"}, {"divvy login < ada.token", ""}},
       "Other machines",
       nullptr,
       "",
       LoginMain,
       false},
      {"logout",
       "Forget the login on this machine",
       "divvy logout",
       "",
       {{"divvy logout", ""}},
       "Other machines",
       nullptr,
       "",
       LogoutMain,
       false},
      {"report",
       "Say what this server's history shows",
       "divvy report usage|fairness|predictions|speeds [OPTIONS]",
       "usage: GPU-hours, jobs and waiting by user, team, job name, GPU model, pool, machine or hour; of a job that "
       "was "
       "started several times the last run. fairness: how long users or teams waited for what they ran, and how even "
       "that and the GPU-hours are. predictions: the latest jobs that ended (10,000 at most), run through the "
       "prediction "
       "of run times in the order of their ends, as if each had been predicted from those before it; for all and by "
       "user. speeds: how fast jobs of one kind (user, name, command, GPUs) are on which GPU model, learned from the "
       "progress that they reported, else from how long those ran that ended well.",
       {{"divvy report usage --by team --since 30d", "who had the GPUs this month"},
        {"divvy report usage --by hour --since 7d --html >week.html", "a page with plots"},
        {"divvy report fairness", "who waited longest for what they ran"},
        {"divvy report predictions", "how good estimates are here"},
        {"divvy report speeds", "what is faster on which GPU"}},
       "Planning",
       ReportOptions,
       "",
       ReportMain,
       false},
      {"simulate",
       "Replay a trace, or what ran here, under other policies",
       "divvy simulate FORMAT --jobs FILE [--nodes FILE|NxG] [OPTIONS] | history [OPTIONS] | --chaos SEED",
       "Jobs arrive when they did and run for as long as they did; divvy's own decisions say when each starts. "
       "Shown: completion times, waits, slowdown, fairness, allocation. No daemon is needed but for history, which "
       "replays what this server ran. Formats: helios, philly, pollux, gavel, shockwave, muri, tiresias, pai, openb, "
       "sacct (Slurm), swf; scripts/traces says where to get each, docs/simulate.md more. Policies: small-first, "
       "fifo, fair, shortest, each also as shortest:true (true run times known), shortest:none; to compare with, "
       "plain rules without reservations: fifo-strict, fifo-skip, sjf-strict, sjf-skip, gtf-strict, gtf-skip (sjf: "
       "shortest, gtf: least GPU time first; strict stops at the first job that does not fit). openb fills an empty "
       "cluster instead, in an order that the seed decides, and says how many percent of its GPUs are allocated once "
       "jobs have asked for 100 and for 130 percent of them. Its policies: default and online (divvy's own; online "
       "learns what is usually asked for while it places, default knows the trace's distribution), fgd, best-fit, "
       "dot-prod, clustering, packing, random (as published), pack, spread, sequential. Options of their own "
       "have --chaos SEED, faults against the daemon's own code: --steps N, --worlds N, --check-every N, --trace "
       "(docs/chaos.md); gavel-rounds and shockwave-rounds, published experiments in rounds: --throughputs FILE, "
       "--policy, and --seeds and --jobs-per-hour, or --jobs FILE (docs/results-replays.md); peer-cases FILE..., "
       "another "
       "scheduler's test cases (docs/peer-cases.md).",
       {{"divvy simulate history --history last-30d --compare small-first,shortest",
         "what would have been better here?"},
        {"divvy simulate history --what-if '+8 H100'", "would another server have helped?"},
        {"divvy simulate helios --jobs venus.csv.gz --nodes 96x8 --compare fifo-strict,fifo --html page.html",
         "a published trace, with plots"},
        {"divvy simulate sacct --jobs sacct.txt --nodes 4x8 --policy fair --teams --by team", "a Slurm cluster's past"},
        {"divvy simulate openb --nodes nodes.csv --jobs pods.csv --policy default,fgd,best-fit",
         "placement policies side by side"}},
       "Planning",
       SimulateOptions,
       "",
       SimulateMain,
       false},

      {"shims",
       "Make links under which divvy is sbatch, gbatch, vh and others",
       "divvy shims DIR",
       "sbatch srun salloc scancel squeue sinfo sacct scontrol sacctmgr sshare sprio sattach, gbatch gqueue ginfo gjob "
       "gcancel "
       "gctl gflowd, vh. Each also works as divvy NAME.",
       {{"divvy shims ~/bin", ""}},
       "Other tools",
       nullptr,
       "",
       ShimsMain,
       false},
      {"completion",
       "Print the completions for a shell",
       "divvy completion bash|zsh|fish",
       "",
       {{"source <(divvy completion bash)", ""}},
       "Other tools",
       nullptr,
       "",
       CompletionMain,
       false},
      {"help",
       "Explain a command",
       "divvy help [COMMAND]",
       "",
       {{"divvy help submit", ""}},
       "Other tools",
       nullptr,
       "command",
       HelpMain,
       false},
      {"version", "Print the version", "divvy version", "", {}, "Other tools", nullptr, "", VersionMain, false},
      {"emulate",
       "Drive the stand-in GPUs, for tests",
       "divvy emulate VERB GPU [WORDS...]",
       "Of a daemon that was started with --emulate. Verbs: add-process GPU PID MEMORY [graphics], remove-process GPU "
       "PID, utilisation GPU PERCENT [MEMORY_PERCENT], memory GPU SIZE, temperature GPU CELSIUS, "
       "xid GPU CODE, lose GPU, restore GPU, cuda-fault GPU FAULT [VALUE]. docs/emulation.md says what each does.",
       {{"divvy emulate add-process 3 4711 10GiB", "process 4711 uses 10 GiB of GPU 3, until it ends"},
        {"divvy emulate xid 3 48", "the driver reports an error: the GPU is fenced"}},
       "Other tools",
       nullptr,
       "",
       EmulateMain,
       true},
      {"internal-complete", "Candidates for a shell", "", "", {}, "Other tools", nullptr, "", CompleteMain, true},
      {"internal-man", "Write the man pages", "", "", {}, "Other tools", nullptr, "", ManMain, true},
  };
}

}  // namespace

const std::vector<Command>& Commands() {
  static const std::vector<Command> commands = MakeCommands();
  return commands;
}

}  // namespace divvy::cli
