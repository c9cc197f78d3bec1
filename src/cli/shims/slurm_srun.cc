// srun: inside a job of divvy's it runs a step at once, on this server, without the daemon; outside it is a job of its
// own on the caller's terminal, which runs this very srun inside itself when there is more than one task to start.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

#include "base/text.h"
#include "cli/command.h"
#include "cli/shims/slurm.h"
#include "cli/shims/slurm_common.h"
#include "cli/shims/slurm_step_lock.h"
#include "cli/shims/slurm_step_plan.h"
#include "cli/shims/slurm_submit.h"
#include "dialect/slurm.h"
#include "dialect/slurm_request.h"

namespace divvy::cli {
namespace {

using namespace slurm;
using dialect::Takes;

struct Wish {
  JobSpec spec;
  std::vector<std::string> command;
  std::string output;
  std::string error;
  std::string input;
  std::string open_mode;
  std::string jobid;
  bool has_labels = false;
  bool has_pty = false;
  bool is_multi_prog = false;
  bool overlaps = false;
  bool kills_on_bad_exit = false;
  bool is_immediate = false;
  bool is_quiet = false;
};

std::vector<dialect::Option> Options(Wish& wish, const dialect::Surroundings& around) {
  const auto optional = [](std::string_view name, char letter, std::string_view help, bool& flag) {
    dialect::Option option{.name = name,
                           .letter = letter,
                           .takes = Takes::kOptionalValue,
                           .value_name = "1",
                           .help = help,
                           .apply = [&flag](std::string_view value) -> Status {
                             flag = value != "0";
                             return {};
                           },
                           .aliases = {}};
    return option;
  };
  // srun has other meanings for some of sbatch's names and letters.
  std::vector<dialect::Option> options =
      Without(dialect::SbatchOptions(wish.spec, around),
              {"wait", "wrap", "parsable", "output", "error", "input", "open-mode", "quiet"});
  std::vector<dialect::Option> own = {
      Text("output", 'o', "FILE", "Output: a file (%t rank, %j job, %s step), none, or a rank", wish.output),
      Text("error", 'e', "FILE", "Errors; joins the output without it", wish.error),
      Text("input", 'i', "FILE", "Input: a file, none, or a rank; task 0 has the terminal", wish.input),
      Text("open-mode", 0, "append|truncate", "How files are opened", wish.open_mode),
      Text("jobid", 0, "ID", "The job to run in", wish.jobid),
      Flag("label", 'l', "Each line with its task's number", wish.has_labels),
      Flag("pty", 0, "A terminal for task 0", wish.has_pty),
      Flag("multi-prog", 0, "The command is a file with a command for each task", wish.is_multi_prog),
      Flag("overlap", 0, "Share GPUs with other steps", wish.overlaps),
      Flag("quiet", 'Q', "No word on failed tasks", wish.is_quiet),
      optional("kill-on-bad-exit", 'K', "The first task that fails ends the others", wish.kills_on_bad_exit),
      optional("immediate", 'I', "Fail rather than wait", wish.is_immediate),
  };
  struct Silent {
    std::string_view name;
    char letter;
    Takes takes;
  };
  for (const Silent& one : {Silent{"wait", 'W', Takes::kValue},
                            Silent{"unbuffered", 'u', Takes::kNothing},
                            Silent{"mpi", 0, Takes::kValue},
                            Silent{"relative", 'r', Takes::kValue},
                            Silent{"exact", 0, Takes::kNothing},
                            Silent{"cpu-bind", 0, Takes::kValue},
                            Silent{"accel-bind", 0, Takes::kValue},
                            Silent{"preserve-env", 'E', Takes::kNothing},
                            Silent{"bcast", 0, Takes::kOptionalValue},
                            Silent{"bcast-exclude", 0, Takes::kValue},
                            Silent{"compress", 0, Takes::kOptionalValue},
                            Silent{"task-epilog", 0, Takes::kValue},
                            Silent{"task-prolog", 0, Takes::kValue},
                            Silent{"epilog", 0, Takes::kValue},
                            Silent{"prolog", 0, Takes::kValue},
                            Silent{"disable-status", 'X', Takes::kNothing},
                            Silent{"no-allocate", 'Z', Takes::kNothing},
                            Silent{"het-group", 0, Takes::kValue},
                            Silent{"threads", 'T', Takes::kValue},
                            Silent{"slurmd-debug", 0, Takes::kValue},
                            Silent{"msg-timeout", 0, Takes::kValue},
                            Silent{"send-libs", 0, Takes::kOptionalValue},
                            Silent{"quit-on-interrupt", 0, Takes::kNothing},
                            Silent{"interactive", 0, Takes::kNothing}}) {
    own.push_back(Ignored(one.name, one.letter, one.takes));
  }
  for (dialect::Option& option : own) options.push_back(std::move(option));
  return options;
}

/// Waits until the step has the GPUs that it wants for itself; the places in the job's list.
Result<std::vector<std::size_t>> TakeGpus(StepLock& lock, const Wish& wish, const StepAsk& ask,
                                          const JobAround& around) {
  std::vector<std::size_t> places;
  const std::size_t total = around.gpus.size();
  if (!ask.own_gpus || wish.overlaps) {
    const std::size_t count = ask.own_gpus ? static_cast<std::size_t>(*ask.own_gpus) : total;
    for (std::size_t place = 0; place < count; ++place) places.push_back(place);
    return places;
  }
  if (*ask.own_gpus == 0) return places;
  bool was_told = false;
  for (;;) {
    places = lock.TakeGpus(static_cast<std::size_t>(*ask.own_gpus), total);
    if (!places.empty()) return places;
    if (wish.is_immediate)
      return FailedPrecondition("Unable to create step for job " + around.id + ": Requested nodes are busy");
    if (!was_told && !wish.is_quiet) {
      std::fprintf(stderr, "srun: Job %s step creation temporarily disabled, retrying (Requested nodes are busy)\n",
                   around.id.c_str());
    }
    was_told = true;
    // Steps that hold GPUs end without a word to us.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

int RunStep(Wish& wish, const dialect::Surroundings& around) {
  const JobAround job = ReadJobAround(around.environment);
  if (!wish.jobid.empty() && wish.jobid != job.id) {
    return FailAs("srun",
                  "this is job " + job.id + "; a step of job " + wish.jobid + " must be started inside that job");
  }
  auto ask = ReadStepAsk(wish.spec, job);
  if (!ask) return FailAs("srun", ask.error().message);
  const std::string run = EnvironmentValue(job.environment, "SLURM_RESTART_COUNT") + "-" +
                          EnvironmentValue(job.environment, "SLURM_JOB_START_TIME");
  auto lock = StepLock::Open(job.id + "-" + run);
  if (!lock) return FailAs("srun", lock.error().message);
  const auto places = TakeGpus(*lock, wish, *ask, job);
  if (!places) return FailAs("srun", places.error().message);
  std::vector<StepGpu> gpus;
  for (const std::size_t place : *places) gpus.push_back(job.gpus[place]);

  StepPlan plan;
  plan.job = job.id;
  plan.array_job = EnvironmentValue(job.environment, "SLURM_ARRAY_JOB_ID");
  plan.array_task = EnvironmentValue(job.environment, "SLURM_ARRAY_TASK_ID");
  plan.job_name = EnvironmentValue(job.environment, "SLURM_JOB_NAME");
  plan.user = CallerName();
  plan.hostname = Hostname();
  plan.step = std::to_string(lock->NextStep());
  plan.tasks = MakeTasks(*ask, job, gpus, {plan.step, plan.hostname}, wish.command);
  if (wish.is_multi_prog) {
    const auto text = around.read_file(wish.command.front());
    if (!text) return FailAs("srun", text.error().message);
    const auto commands = ReadMultiProg(*text, ask->tasks);
    if (!commands) return FailAs("srun", wish.command.front() + ": " + commands.error().message);
    for (std::size_t rank = 0; rank < plan.tasks.size(); ++rank) plan.tasks[rank].command = (*commands)[rank];
  }
  plan.directory = wish.spec.directory;
  plan.output = wish.output;
  plan.error = wish.error;
  plan.input = wish.input;
  plan.appends = wish.open_mode.starts_with('a');
  plan.has_labels = wish.has_labels || EnvironmentValue(job.environment, "SLURM_LABELIO") == "1";
  plan.kills_on_bad_exit = wish.kills_on_bad_exit || EnvironmentValue(job.environment, "SLURM_KILL_BAD_EXIT") == "1";
  plan.is_quiet = wish.is_quiet;
  return RunSteps(plan);
}

/// True when one plain process on the caller's streams is not all there is to it.
bool NeedsStepRunner(const Wish& wish) {
  const auto given = [&](std::string_view option) { return dialect::slurm::Value(wish.spec, option).has_value(); };
  return wish.spec.request.tasks > 1 || wish.has_labels || wish.is_multi_prog || !wish.output.empty() ||
         !wish.error.empty() || !wish.input.empty() || given("gpu-bind") || given("tres-bind");
}

int RunJob(Wish& wish, const std::vector<std::string>& words, const dialect::Surroundings& around) {
  if (!wish.jobid.empty()) {
    return FailAs("srun",
                  "a step of job " + wish.jobid + " must be started inside that job; see divvy attach " + wish.jobid);
  }
  JobSpec& spec = wish.spec;
  spec.dialect = Dialect::kSlurm;
  spec.is_foreground = true;
  spec.wants_pty = wish.has_pty && ::isatty(STDIN_FILENO) == 1;
  dialect::slurm::Keep(spec, "submit-dir", around.directory);
  if (const Status finished = dialect::FinishSlurm(spec); !finished) return FailAs("srun", finished.error().message);
  if (const Status place = dialect::CheckSlurmPlace(spec); !place)
    return FailAs("srun", "Unable to allocate resources: " + place.error().message);
  if (spec.array) return FailAs("srun", "--array is sbatch's; srun runs one job");
  if (TakeClientFlag(spec, "test-only")) {
    std::fprintf(stderr, "srun: %s\n", dialect::Summarise(spec).c_str());
    return 0;
  }
  TakeClientFlag(spec, "verbose");
  if (spec.name.empty()) spec.name = wish.command.front().substr(wish.command.front().find_last_of('/') + 1);
  if (spec.directory.empty()) spec.directory = around.directory;
  const bool needs_steps = NeedsStepRunner(wish);
  dialect::slurm::Keep(spec, "door", needs_steps ? "srun-steps" : "srun");
  spec.command = needs_steps ? SelfWords("srun", words) : wish.command;
  if (const Status complete = Complete(spec); !complete) return FailAs("srun", complete.error());
  return RunForeground(std::move(spec));
}

}  // namespace

int SrunMain(const std::vector<std::string>& words) {
  const dialect::Surroundings around = CallerSurroundings();
  Wish wish;
  const std::vector<dialect::Option> options = Options(wish, around);
  if (Greets("srun", "[OPTIONS] COMMAND [ARGS...]", options, words)) return 0;
  if (!IsInsideJob(around.environment)) {
    if (const Status read = dialect::ApplyCommandEnvironment("SLURM_", around, wish.spec); !read)
      return FailAs("srun", read.error());
  }
  auto parsed = dialect::ReadSlurmWords(options, words, around, wish.spec);
  if (!parsed) return FailAs("srun", parsed.error().message);
  wish.command = std::move(parsed->positional);
  wish.command.insert(wish.command.end(), parsed->after_dashes.begin(), parsed->after_dashes.end());
  if (wish.command.empty()) {
    std::fprintf(stderr, "srun: fatal: No command given to execute.\n");
    return 1;
  }
  if (std::ranges::find(wish.command, ":") != wish.command.end() &&
      EnvironmentValue(around.environment, "SLURM_HET_SIZE") != "") {
    return FailAs("srun", "heterogeneous steps need several nodes; start each part with its own srun ... &");
  }
  return IsInsideJob(around.environment) ? RunStep(wish, around) : RunJob(wish, words, around);
}

}  // namespace divvy::cli
