// Every command with its texts, in the order of --help.
#include <cstdio>
#include <utility>

#include "base/text.h"
#include "cli/client/commands.h"
#include "cli/services/serve.h"
#include "platform/os/runtime_paths.h"
#include "version.h"

namespace divvy::cli {
namespace {

int VersionMain(const Words&) {
  std::printf("divvy %s\n", std::string(kVersion).c_str());
  return 0;
}

/// A command as --help and the man pages show it. `about` may be ""; see Command.
Command Listed(std::string_view group, std::string_view name, std::string_view summary, std::string_view usage,
               std::string_view about, std::vector<Example> examples, int (*run)(const Words&),
               std::vector<dialect::Option> (*options)() = nullptr, std::string_view completes = "") {
  return {name, summary, usage, about, std::move(examples), group, options, completes, run};
}

/// Only divvy help --all lists it.
Command Rare(Command command) { return command.is_rare = true, command; }
Command Hidden(Command command) { return command.is_hidden = true, command; }

std::vector<Command> MakeCommands() {
  return {
      Listed("Daemon", "up", "Start the daemon", "divvy up [--emulate SPEC] [--gpus LIST] [--listen HOST:PORT]",
             "Returns when the daemon accepts requests. Started by root, it serves the whole machine (/run/divvy, "
             "/var/lib/divvy); started by a user, it is private to that user. DIVVY_HOME=DIR keeps all files of a "
             "private daemon under DIR. A configuration file (divvy.toml) is optional.",
             {{"divvy up", "use this server's GPUs"},
              {"divvy up --emulate 8xH100-80GB", "use emulated GPUs, to try divvy"}},
             UpMain, UpOptions),
      Listed("Daemon", "down", "Stop the daemon; running jobs continue", "divvy down",
             "Running jobs are not affected. The next daemon recovers their state, and the exit codes of jobs that "
             "ended in the meantime.",
             {{"divvy down", ""}}, DownMain, DownOptions),
      Listed("Daemon", "status", "Show a summary of the daemon, its GPUs and its queue", "divvy status [--json]", "",
             {{"divvy status", ""}}, StatusMain, StatusOptions),

      Listed("Daemon", "ui", "Open the web interface in a browser", "divvy ui [--no-open] [--remote]",
             "Prints a login link and opens it if there is a display. The link works once, within five minutes. The "
             "browser then has your permissions for seven days, or until you log out.",
             {{"divvy ui", "on this machine"},
              {"divvy ui --remote", "for a browser on another machine; needs remote = true under [ui] in divvy.toml"}},
             UiMain, UiOptions),
      Rare(Listed("Daemon", "mcp", "Let an AI agent read and operate the queue", "divvy mcp [--allow TOOLS]",
                  "Serves the Model Context Protocol on standard input and output; an agent's program starts it. The "
                  "tools queue, show, why, logs, gpus, forecast, report, preview_submit and preview_cancel only read. "
                  "submit and cancel work only with --allow. Everything is done with your permissions on the daemon "
                  "that divvy commands use.",
                  {{"divvy mcp", "read only"},
                   {"divvy mcp --allow submit,cancel", "the agent may also submit and cancel jobs"}},
                  McpMain, McpOptions)),
      Rare(Listed("Daemon", "audit", "Verify that the audit log was not changed", "divvy audit verify [HASH]",
                  "Needs read access to the log of this machine's daemon. Prints the first line that was changed, "
                  "removed or moved. To detect lines removed at the end, pass the HASH that an earlier call printed.",
                  {{"divvy audit verify", ""}}, AuditMain)),
      Rare(Listed("Daemon", "store", "Copy the store to another database, or check it",
                  "divvy store copy --from URL --to URL | check [URL]",
                  "A store is an SQLite file (its path) or a PostgreSQL database (postgresql://...). Both commands "
                  "need that no daemon has it open: divvy down first. copy fills a new file or an empty database, "
                  "compares both by the number and the hash of their rows, and continues a copy that was interrupted. "
                  "check reads everything and reports what is damaged or does not fit together; without a URL it "
                  "checks the store of this machine's daemon.",
                  {{"divvy store copy --from /var/lib/divvy/divvy.db --to postgresql://divvy@db.lab/divvy",
                    "move to PostgreSQL"},
                   {"divvy store check", "this machine's store"}},
                  StoreMain, StoreOptions)),

      Listed("Jobs", "run", "Run a command on GPUs and wait for it", "divvy run [OPTIONS] [--] COMMAND...",
             "Waits for free GPUs, then runs the command in this terminal: it has the terminal's input, output and "
             "Ctrl-C, and its exit code is returned. A second Ctrl-C ends it. Restarting the daemon affects neither a "
             "waiting nor a running job. Inside a job, divvy run starts a step of that job immediately, on the job's "
             "GPUs; --as-job submits a separate job instead.",
             {{"divvy run --gpus 1 python train.py", "on one GPU"},
              {"divvy run --gpus 2 --pty bash", "a shell on two GPUs"},
              {"divvy run --tasks 8 --gpus-per-task 1 python train.py", "eight processes, each with its own GPU"}},
             RunMain, RunOptions, "command"),
      Listed("Jobs", "submit", "Queue a command or a script and return",
             "divvy submit [OPTIONS [: OPTIONS]...] [--] COMMAND... | SCRIPT [ARGUMENTS...] | -",
             "A script's option lines (#SBATCH, # GFLOW, # DIVVY) are read first; options on the command line override "
             "them. The job keeps the script's text and the environment, working directory and resource limits of its "
             "submission. Options after ':' describe another component of the job, with its own nodes, GPUs and cores; "
             "all components start together.",
             {{"divvy submit --gpus 2 --time 4h train.sh", "a script"},
              {"divvy submit --gpus 8 : --nodes 2 --cpus 32 -- python train.py",
               "two components: one with GPUs, one with only CPUs"},
              {"divvy submit --gpus 1 --array 0-99%8 -- python sweep.py", "100 jobs, at most 8 at once"},
              {"divvy submit --gpus 1 --param lr=1e-3,1e-4 --param seed=0:9 -- python t.py --lr {lr} --seed {seed}",
               "a grid of 20 jobs"},
              {"divvy submit --after @ -- ./evaluate.sh", "start when my last job has ended"}},
             SubmitMain, SubmitOptions, "script"),
      Listed("Jobs", "queue", "List queued and running jobs", "divvy queue [OPTIONS] [ID...]", "",
             {{"divvy queue -w", "live"},
              {"divvy queue --all --since 2h -o id,name,state,exit,time", "include jobs that have ended"}},
             QueueMain, QueueOptions, "job"),
      Listed(
          "Jobs", "top", "Show GPUs, running jobs and the queue live", "divvy top [OPTIONS]",
          "The top part shows each GPU with utilisation and memory (the curves hold the last 10 and 6 samples, or 20 "
          "and 12 from 110 columns), its jobs and how long they will keep it. Below are the running jobs, marked W if "
          "they waste their GPUs (see divvy report waste), and the queue with expected starts and reasons. Keys: "
          "arrows, PgUp, PgDn or the mouse select a job; w or Enter explains it, l shows its log, h holds or releases "
          "it, c cancels it, p sets its priority. / filters, s sorts, t groups jobs by user, u shows only your jobs, g "
          "hides the GPUs, a shows all GPUs if they are folded to half of the screen, Escape resets the view, q quits.",
          {{"divvy top", ""}, {"divvy top --once >now.txt", "one screen as text"}}, TopMain, TopOptions),
      Listed("Jobs", "show", "Show all details of a job", "divvy show ID...", "",
             {{"divvy show 17", ""}, {"divvy show @ --json", "my last job, as JSON"}}, ShowMain, ShowOptions, "job"),
      Listed("Jobs", "why", "Explain why a job is waiting and when it will start", "divvy why ID...",
             "Shows every blocker with its numbers, which jobs hold the missing resources and until when, the position "
             "in the queue, the expected start and the basis of that estimate, and, if there is one, a command that "
             "would start the job now.",
             {{"divvy why 17", ""}}, WhyMain, ShowOptions, "job"),
      Listed("Jobs", "logs", "Print a job's output", "divvy logs [-f] [-n N] ID",
             "For an array, prints the output of every element that has started, each under a heading; -f follows all "
             "of them.",
             {{"divvy logs -f @", "follow my last job"},
              {"divvy logs 17 -n 5", "the last 5 lines, or of each element of an array"}},
             LogsMain, LogsOptions, "job"),
      Rare(Listed("Jobs", "attach", "Attach to a job's terminal", "divvy attach ID",
                  "Only for jobs submitted with --pty. Ctrl-P Ctrl-Q detaches and leaves the job running.",
                  {{"divvy attach 17", ""}}, AttachMain, nullptr, "job")),
      Listed("Jobs", "wait", "Wait until jobs have ended", "divvy wait ID...",
             "Returns the highest exit code of the jobs.", {{"divvy wait 17 18", ""}}, WaitMain, nullptr, "job"),
      Listed("Jobs", "cancel", "Cancel jobs", "divvy cancel [OPTIONS] ID...",
             "All processes of a running job get its stop signal (default: TERM), and SIGKILL after the grace time "
             "(default: 30s).",
             {{"divvy cancel 17 20-25 30_4", "a job, a range of jobs, one array element"},
              {"divvy cancel --all", "all my jobs"}},
             CancelMain, CancelOptions, "job"),
      Listed("Jobs", "hold", "Hold queued jobs so that they do not start", "divvy hold ID...", "",
             {{"divvy hold 17", ""}}, HoldMain, SelectOptions, "job"),
      Listed("Jobs", "release", "Release held jobs", "divvy release ID...", "", {{"divvy release 17", ""}}, ReleaseMain,
             SelectOptions, "job"),
      Listed("Jobs", "requeue", "Queue running or ended jobs again under their ids", "divvy requeue [OPTIONS] ID...",
             "", {{"divvy requeue 17", ""}, {"divvy requeue --hold 17", "requeue and hold it until divvy release"}},
             RequeueMain, RequeueOptions, "job"),
      Listed("Jobs", "resize", "Change the GPU fraction of jobs, even while they run",
             "divvy resize ID... [--gpus FRACTION] [--gpu-limit FRACTION] [--compute FRACTION[:LIMIT]]",
             "Values that are not given stay as they are, except that a limit below the new request is raised to it. A "
             "request can grow only if the GPU's other tenants leave room; a limit can always change. The job keeps "
             "running, and keeps memory above a lowered limit until it frees that memory itself.",
             {{"divvy resize 17 --gpus 0.5 --gpu-limit 1.0",
               "half a GPU guaranteed, all of it while others leave it idle"},
              {"divvy resize 17 --gpu-limit 0.5", "limit it to half a GPU"},
              {"divvy resize 17 --gpu-memory 20G", "request 20 GiB of GPU memory"}},
             ResizeMain, ResizeOptions, "job"),
      Rare(Listed("Jobs", "park", "Move the GPU memory of jobs to the host; their processes live on",
                  "divvy park ID...",
                  "Works for jobs that use GPU fractions. A parked job wakes at its next GPU call, possibly on another "
                  "GPU, or with divvy wake. Submit a job with --idle-park to park it automatically.",
                  {{"divvy park 17", ""}}, ParkMain, SelectOptions, "job")),
      Rare(Listed("Jobs", "wake", "Move parked jobs back to a GPU", "divvy wake ID...", "", {{"divvy wake 17", ""}},
                  WakeMain, SelectOptions, "job")),
      Rare(Listed("Jobs", "move", "Migrate a running job to other GPUs of its node", "divvy move ID --to GPU[,GPU...]",
                  "Works for jobs that use GPU fractions. GPU memory moves with the job and keeps its addresses. The "
                  "scheduler's plan does not change: the job may be moved again if a larger job needs the GPU.",
                  {{"divvy move 17 --to 3", ""}}, MoveMain, MoveOptions, "job")),
      Rare(Listed("Jobs", "pause", "Suspend running jobs; they keep their GPUs", "divvy pause ID...", "",
                  {{"divvy pause 17", ""}}, PauseMain, SelectOptions, "job")),
      Rare(Listed("Jobs", "resume", "Continue paused jobs", "divvy resume ID...", "", {{"divvy resume 17", ""}},
                  ResumeMain, SelectOptions, "job")),
      Rare(Listed("Jobs", "signal", "Send a signal to all processes of running jobs", "divvy signal SIGNAL ID...", "",
                  {{"divvy signal USR1 17", "for example to write a checkpoint"}}, SignalMain, SelectOptions, "job")),
      Rare(Listed(
          "Jobs", "checkpoint", "Inside an elastic job: apply the pending change of its GPUs", "divvy checkpoint [ID]",
          "Call it in a job submitted with a range such as --gpus 2..8, when the job uses no GPU or can release those "
          "that divvy wants back: they are free when the command returns. Prints the job's GPUs from now on, in the "
          "form of CUDA_VISIBLE_DEVICES. Exit code 0: the same GPUs as before; 3: they have changed; otherwise nothing "
          "was changed. The command never waits for GPUs. A job becomes elastic with its first checkpoint; after that, "
          "DIVVY_GPUS_FILE and a signal (--resize-signal) announce changes.",
          {{"gpus=$(divvy checkpoint)", "in a job's script"}}, CheckpointMain, nullptr, "job")),
      Rare(Listed("Jobs", "progress", "Report a job's progress, from inside it or for it",
                  "divvy progress FRACTION|STEP/STEPS [ID]",
                  "Takes a fraction (0.35 or 35%) or a step count (1200/100000). Inside a job, ID is not needed. divvy "
                  "show and divvy queue print the latest report. After two reports at least ten seconds apart, divvy "
                  "also estimates the end of the job from them. Progress never decreases within a run. The command "
                  "prints nothing and may be called at any rate; divvy stores a report at most every ten seconds.",
                  {{"divvy progress 0.35", "in a job's script"}, {"divvy progress 1200/100000 17", "for job 17"}},
                  ProgressMain, nullptr, "job")),
      Listed("Jobs", "update", "Change queued jobs, and some settings of running ones",
             "divvy update ID... [OPTIONS] [-- COMMAND...]",
             "Takes the options of divvy submit and checks the changed job as at submission. Each job gets all changes "
             "or none. For a running job, only the time limit, priority, name, project, comment and retries can "
             "change. For an array, all waiting elements change; 17_3 names one element. An empty value clears a file, "
             "label or dependency.",
             {{"divvy update 17 --gpus 2 --time 8h", ""},
              {"divvy update 17 --output out/%j.log -- python train.py --lr 1e-4", "replace the command"},
              {"divvy update 18 --dependency afterok:17", "replace its dependencies"}},
             UpdateMain, UpdateOptions, "job"),
      Listed("Jobs", "sweep", "Search for good hyper-parameters, and stop bad trials early",
             "divvy sweep run [FILE] [OPTIONS] [-- COMMAND...] | list | show ID | cancel ID | ask ID | tell ID "
             "NAME=VALUE...",
             "A sweep is a job array whose elements are trials. FILE has the format of Weights & Biases' sweeps "
             "(docs/sweeps.md); options of divvy submit apply to every trial, and {lr} in the command becomes the "
             "trial's value of lr. Trials print their metric as JSON lines ({\"epoch\": 3, \"loss\": 0.2}). show lists "
             "the trials, the best first, and why others were stopped; ask and tell let an optimiser of your own "
             "choose the values.",
             {{"divvy sweep run sweep.yaml --gpus 1 --parallel 8", "at most 8 trials at once"},
              {"divvy sweep run --gpus 1 --draw lr=log_uniform_values:1e-5:0.1 --trials 100 --metric loss --asha 1:81 "
               "-- python train.py --lr {lr}",
               "100 random trials, stopped early"},
              {"divvy sweep show 17", "the best trials"}},
             SweepMain, SweepOptions, "job"),
      Listed("Jobs", "serve", "Run services that answer requests, scaled by load",
             "divvy serve create NAME [OPTIONS] -- COMMAND... | apply FILE | list | show NAME | logs NAME [REPLICA] | "
             "scale NAME MIN..MAX | update NAME [OPTIONS] [-- COMMAND...] | promote NAME | rollback NAME [REVISION] | "
             "delete NAME...",
             "A service is a set of replicas behind one port. Each replica is a job that listens on the port in $PORT; "
             "options of divvy submit apply to every replica. Requests wait in a queue while all replicas are busy, or "
             "while none is ready. The number of replicas follows the load; idle replicas with GPU fractions are "
             "parked. See docs/services.md.",
             {{"divvy serve create chat --gpus 0.5 --replicas 0..8 --port 8000 --concurrency 4 --health /healthz -- "
               "python serve.py",
               ""},
              {"divvy serve show chat", "its replicas, revisions and latest events"},
              {"divvy serve update chat -- python serve.py --model new",
               "a new revision, rolled out without lost requests"},
              {"divvy serve update chat --canary 10% -- python serve.py --model new",
               "it gets 10% of the requests at first"}},
             ServeMain, ServeOptions),
      Rare(Listed("Jobs", "group", "Limit how many jobs of a group run at once", "divvy group limit NAME N", "",
                  {{"divvy group limit sweep 4", ""}, {"divvy group limit 17 8", "for array 17"}}, GroupMain)),
      Rare(Listed("Jobs", "explain", "Show how divvy reads a script, and its mistakes", "divvy explain SCRIPT", "",
                  {{"divvy explain train.sh", ""}, {"divvy explain valohai.yaml", ""}}, ExplainMain, nullptr,
                  "script")),
      NotifyCommand(),

      Listed("GPUs and teams", "gpus", "List GPUs and their jobs; restrict which GPUs new jobs use",
             "divvy gpus [OPTIONS] | restrict [NODES:]LIST|all|none | ignore [NODE:]PID [GPU] | unignore [NODE:]PID",
             "restrict sets which GPUs new jobs may use; running jobs stay, but jobs with GPU fractions are moved to "
             "other GPUs. ignore lets jobs use a GPU although a process that divvy did not start runs on it; the rule "
             "ends with that process. Without NODE: the command refers to the controller's node.",
             {{"divvy gpus -w", "live"},
              {"divvy gpus restrict 0,2", "new jobs use only GPUs 0 and 2"},
              {"divvy gpus restrict all", "allow all GPUs again"},
              {"divvy gpus restrict 'n[1-4]:0-3'", "on these nodes"}},
             GpusMain, GpusOptions, "gpu"),

      Rare(Listed("GPUs and teams", "adopt", "Adopt or end running jobs that the store does not know",
                  "divvy adopt [ID...] [OPTIONS]",
                  "After the store was lost, emptied or restored from a backup, jobs may run that it does not know. "
                  "divvy leaves them alone and gives their GPUs to no other job. divvy adopt lists them; with ids it "
                  "adopts them under these ids, so that their end and exit code are recorded; with --end it ends them. "
                  "Only the owner of a job and administrators may do this. An adopted job cannot be restarted, because "
                  "its environment is not known.",
                  {{"divvy adopt", "list the jobs found"},
                   {"divvy adopt 17 18", "adopt these two"},
                   {"divvy adopt --end --all", "end all of them"}},
                  AdoptMain, AdoptOptions)),

      Listed(
          "GPUs and teams", "teams", "List and change teams, quotas and budgets",
          "divvy teams [list|users|show NAME] | add|set NAME [OPTIONS] | rm NAME | user NAME [OPTIONS] | quotas on|off",
          "Shows for each team: its quota (guaranteed GPUs), limit, current share, current GPUs and jobs, and usage "
          "and remaining budget in the budget's period. Only administrators may use add, set, rm, user and quotas. set "
          "--user adds members and --remove-user removes them; the value none clears an amount. user sets a user's "
          "default team and limits; the user '*' stands for every user without a row. With quotas on, a team without a "
          "quota and users without a team have no access, and a quota of 0 blocks a team. Change teams of divvy.toml "
          "in that file.",
          {{"divvy teams", ""},
           {"divvy teams add vision --quota 4 --limit 6 --user ada,grace", "a team with 4 guaranteed GPUs"},
           {"divvy teams set vision --gpu-hours 2000 --period month", "set a budget"},
           {"divvy teams user ada --team vision --max-gpus 4", "set a default team and a limit of 4 GPUs"}},
          TeamsMain, TeamsOptions),
      Listed("GPUs and teams", "reserve", "Reserve GPUs for a user or team",
             "divvy reserve --gpus N --user NAME|--team NAME [--start WHEN] --duration TIME [--every HOW] | list | "
             "show|cancel NUMBER",
             "During the reservation, only jobs of that user or team start on its GPUs; before it, only jobs that end "
             "in time. Running jobs are never ended for a reservation, so it is refused if there is no room; jobs "
             "without a time limit count as running indefinitely. The occurrences of a repeated reservation are held "
             "eight days ahead. Administrators make reservations; the user of a reservation may cancel it.",
             {{"divvy reserve --gpus 4 --team vision --start 'tomorrow' --duration 8h", "for a day"},
              {"divvy reserve --gpus 2 --user ada --start 09:00 --duration 3h --every weekday --name course",
               "each morning"},
              {"divvy reserve cancel course", ""}},
             ReserveMain, ReserveOptions),
      Rare(Listed("GPUs and teams", "providers", "List providers of nodes on demand, and control them",
                  "divvy providers [OPTIONS] | nodes [OPTIONS] | enable|disable|drain NAME...",
                  "Shows for each provider of divvy.toml: its state, its nodes, what they cost now and this month, and "
                  "its last error. \"nodes\" lists the nodes. \"disable\" requests no new nodes and returns idle ones; "
                  "\"drain\" returns all of them and queues their jobs again; both last until \"enable\". Changes are "
                  "for administrators.",
                  {{"divvy providers", ""},
                   {"divvy providers nodes", "what was requested, and since when"},
                   {"divvy providers drain aws-us", "return all of its nodes"}},
                  ProvidersMain, ProvidersOptions)),
      Hidden(Listed("Tools", "provider", "Call a provider of nodes: create, list or destroy",
                    "divvy provider slurm|kubernetes create|list|destroy",
                    "The program that the daemon runs for providers of the kinds \"slurm\" and \"kubernetes\". Reads "
                    "an order in JSON from standard input and writes the answer to standard output; docs/providers.md "
                    "describes the protocol.",
                    {}, ProviderMain)),
      Listed("Nodes", "nodes", "List the nodes of the cluster", "divvy nodes [OPTIONS]",
             "Shows for each node: its state, its GPUs, CPUs and memory as reported by its agent, and when the agent "
             "was last heard from.",
             {{"divvy nodes", ""}, {"divvy nodes --json", "with labels and GPU UUIDs"}}, NodesMain, NodesOptions),
      Rare(Listed("Nodes", "pools", "List pools of nodes and their limits", "divvy pools [OPTIONS]",
                  "A pool is a set of nodes with its own limits, queue policy and users. Define it with [pools.NAME] "
                  "in divvy.toml, or, without limits, with the node label pool=NAME. A star marks the default pool. "
                  "JOB shows the limits of one job, TOGETHER those of all jobs in the pool.",
                  {{"divvy pools", ""}, {"divvy submit --pool a,b ...", "in pool a, or in b if a has no room now"}},
                  PoolsMain, PoolsOptions)),
      Rare(Listed(
          "Nodes", "controllers", "List controllers and which one leads, or hand over",
          "divvy controllers [OPTIONS] | step-down",
          "Several controllers share one PostgreSQL database (high_availability in divvy.toml): one leads, the others "
          "stand by and take over. EPOCH counts the leaders, LAG is the time since a controller's last report to the "
          "database, and CLOCK is how far its clock is ahead of the database's. step-down lets a standby take over; "
          "jobs keep running. Administrators only.",
          {{"divvy controllers", ""}, {"divvy controllers step-down", "before maintenance of the leader's machine"}},
          ControllersMain, ControllersOptions)),
      Listed("Nodes", "node", "Cordon, drain, resume, remove or label nodes",
             "divvy node cordon|drain|resume|remove NAME... [OPTIONS] | label NAME... LABEL=VALUE...",
             "cordon starts no new jobs on the node; running jobs continue. drain does the same, and with --deadline "
             "also stops and requeues the jobs that still run at that time. resume accepts jobs again. remove forgets "
             "the node; it needs a new token to join again. Administrators only.",
             {{"divvy node drain n7 --deadline 2h --reason 'new fan'", ""},
              {"divvy node cordon 'n[1-4]'", "several nodes"},
              {"divvy node label n7 rack=r3", "adds to the labels that its agent reports"},
              {"divvy node resume n7", ""}},
             NodeMain, NodeOptions),
      Listed("Nodes", "agent", "Make this machine a node of another machine's controller",
             "divvy agent [--join LINE|- | --join-file FILE] [OPTIONS]",
             "Joins with the token line that divvy token create --node printed on the controller. Read it from a file "
             "or from standard input (-) to keep it off the command line. After joining, the machine has its own key, "
             "and divvy agent without options connects again. The agent opens the connection, so nothing needs to "
             "reach this machine. Jobs continue while the agent is disconnected or restarted, and it reports their "
             "results when it is back.",
             {{"divvy agent --join-file node.token --detach", "join and stay in the background"},
              {"divvy agent", "connect again in the foreground (for systemd)"},
              {"divvy agent --stop", "stop the background agent; its jobs continue"}},
             AgentMain, AgentOptions),
      Listed("Nodes", "token", "Manage access tokens for other machines",
             "divvy token create [OPTIONS] | list | remove ID...",
             "create prints a token line once. Its holder may act from another machine as the token's user, with the "
             "token's role, until the token expires or is removed. The daemon must listen for connections (divvy up "
             "--listen). Administrators may create tokens for any user, others only for themselves. With --node, the "
             "line lets a machine join as a node, once unless --uses allows more.",
             {{"divvy token create --label laptop --expires 30d", "for yourself"},
              {"divvy token create --user ada --role viewer > ada.token", "read-only access for ada"},
              {"divvy token create --node > node.token", "for divvy agent --join-file on another machine"},
              {"divvy token remove 4f1c22aa", "revoke it"}},
             TokenMain, TokenOptions),
      Listed("Nodes", "login", "Use the daemon of another machine from here", "divvy login [FILE]",
             "Reads a line that divvy token create printed on the other machine, from FILE or standard input, checks "
             "that the daemon accepts it, and stores it in ~/.config/divvy/controller, readable only by you. If this "
             "machine has no daemon, all commands then go to that one; otherwise DIVVY_CONTROLLER=FILE selects it for "
             "one command.",
             {{"divvy login", "then paste the line"}, {"divvy login < ada.token", ""}}, LoginMain),
      Rare(Listed("Nodes", "logout", "Remove this machine's login", "divvy logout", "", {{"divvy logout", ""}},
                  LogoutMain)),
      MetricsCommand(),
      ReportCommand(),
      Listed(
          "Reports", "simulate", "Replay a trace or this server's history under other policies",
          "divvy simulate FORMAT --jobs FILE [--nodes FILE|NxG] [OPTIONS] | history [OPTIONS] | --chaos SEED",
          "Jobs arrive and run for as long as they did in the trace; divvy's scheduler decides when each starts. The "
          "output shows completion times, waits, slowdown, fairness and allocation. Only history, which replays this "
          "server's jobs, needs a daemon. Formats: helios, philly, pollux, gavel, shockwave, muri, tiresias, pai, "
          "openb, sacct (Slurm), swf; scripts/traces lists their sources, docs/simulate.md the details. Policies: "
          "small-first, fifo, fair, shortest; with :true they know the true run times, with :none no run times, as in "
          "shortest:true. time-sharing: a new job starts at once on trial and parks a long one; with its contract, as "
          "in time-sharing:10% or time-sharing:none (docs/time-sharing.md). Baselines without reservations: "
          "fifo-strict, fifo-skip, sjf-strict, sjf-skip, gtf-strict, gtf-skip (sjf: shortest job first, gtf: least GPU "
          "time first; strict stops at the first job that does not fit). openb fills an empty cluster with jobs in an "
          "order that depends on the seed, and prints the percentage of GPUs allocated when jobs have requested 100 "
          "and 130 percent of them. Its policies: default and online (divvy's own; online learns the usual requests "
          "while it places, default knows the trace's distribution), fgd, best-fit, dot-prod, clustering, packing, "
          "random (as published), pack, spread, sequential. --chaos SEED injects faults into the daemon's own code "
          "(docs/chaos.md) and has these options: --steps N, --worlds N, --check-every N, --trace.",
          {{"divvy simulate history --history last-30d --compare small-first,shortest",
            "compare policies on this server's past"},
           {"divvy simulate history --what-if '+8 H100'", "try a larger cluster"},
           {"divvy simulate helios --jobs venus.csv.gz --nodes 96x8 --compare fifo-strict,fifo --html page.html",
            "a published trace, with plots"},
           {"divvy simulate sacct --jobs sacct.txt --nodes 4x8 --policy fair --teams --by team",
            "the past of a Slurm cluster"},
           {"divvy simulate openb --nodes nodes.csv --jobs pods.csv --policy default,fgd,best-fit",
            "compare placement policies"}},
          SimulateMain, SimulateOptions),

      Rare(
          Listed("Tools", "shims", "Create command links named sbatch, gbatch, vh and others", "divvy shims DIR",
                 "Creates in DIR: sbatch srun salloc scancel squeue sinfo sacct scontrol sacctmgr sshare sprio sattach "
                 "sdiag sstat, gbatch gqueue ginfo gjob gcancel gctl gflowd, vh. Each also works as divvy NAME.",
                 {{"divvy shims ~/bin", ""}}, ShimsMain)),
      Rare(Listed("Tools", "completion", "Print the completion script of a shell", "divvy completion bash|zsh|fish", "",
                  {{"source <(divvy completion bash)", ""}}, CompletionMain)),
      Rare(Listed("Tools", "help", "Show the list of commands, or the help of one", "divvy help [--all] [COMMAND]", "",
                  {{"divvy help submit", ""}}, HelpMain, HelpOptions, "command")),
      Rare(Listed("Tools", "version", "Print the version", "divvy version", "", {}, VersionMain)),
      Hidden(
          Listed("Tools", "emulate", "Control emulated GPUs, for tests", "divvy emulate VERB GPU [WORDS...]",
                 "Needs a daemon started with --emulate. Verbs: add-process GPU PID MEMORY [graphics], remove-process "
                 "GPU PID, utilisation GPU PERCENT [MEMORY_PERCENT], memory GPU SIZE, temperature GPU CELSIUS, xid GPU "
                 "CODE, lose GPU, restore GPU, cuda-fault GPU FAULT [VALUE]. See docs/emulation.md.",
                 {{"divvy emulate add-process 3 4711 10GiB", "process 4711 uses 10 GiB of GPU 3 until it ends"},
                  {"divvy emulate xid 3 48", "the driver reports an error: the GPU is fenced"}},
                 EmulateMain)),
      Hidden(Listed("Tools", "internal-complete", "Print completion candidates", "", "", {}, CompleteMain)),
      Hidden(Listed("Tools", "internal-man", "Write the man pages", "", "", {}, ManMain)),
  };
}

}  // namespace

const std::vector<Command>& Commands() {
  static const std::vector<Command> commands = MakeCommands();
  return commands;
}

}  // namespace divvy::cli
