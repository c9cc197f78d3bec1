// salloc: a job on the caller's terminal that runs a command, or a shell, while it holds GPUs.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

#include "cli/client/api.h"
#include "cli/client/command.h"
#include "cli/shims/slurm/slurm_step_plan.h"
#include "cli/shims/slurm/slurm_submit.h"
#include "cli/shims/slurm_look/slurm.h"
#include "cli/shims/slurm_look/slurm_common.h"
#include "cli/shims/slurm_look/slurm_nodes.h"
#include "cli/shims/slurm_look/slurm_refusals.h"
#include "dialect/options/slurm_request.h"
#include "dialect/slurm/slurm.h"

namespace divvy::cli {
namespace {

using namespace slurm;
using dialect::Takes;

// Printed by the job itself, so that it comes before the command's output.
constexpr std::string_view kLoud =
    "echo \"salloc: Granted job allocation $SLURM_JOB_ID\" >&2; command -v \"$1\" >/dev/null || "
    "{ echo \"salloc: error: Unable to exec command \\\"$1\\\"\" >&2; exit 1; }; exec \"$@\"";

constexpr std::string_view kRefused = "Job submit/allocate failed: ";

/// --no-shell: returns once the allocation has started, and leaves it running.
int HoldOnly(JobSpec spec) {
  spec.is_foreground = false;
  spec.wants_pty = false;
  spec.command = {"sleep", "infinity"};
  spec.output = "/dev/null";
  const auto answer = SubmitJob(spec);
  if (!answer) return FailAs("salloc", std::string(kRefused) + InSlurmsWords(answer.error().message, spec));
  const std::string id = ToString(answer->id);
  auto api = Api::Connect();
  if (!api) return FailAs("salloc", api.error());
  for (;;) {
    const auto job = api->Job(id);
    if (!job) return FailAs("salloc", job.error());
    const wire::JobView view = ViewOf(*job);
    if (IsFinal(view)) return FailAs("salloc", "job " + id + " ended: " + job->reason);
    if (job->state == "running") break;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  std::fprintf(stderr, "salloc: Granted job allocation %s\n", id.c_str());
  return 0;
}

}  // namespace

int SallocMain(const std::vector<std::string>& words) {
  const dialect::ParseContext around = CallerParseContext();
  JobSpec spec;
  bool has_no_shell = false;
  std::vector<dialect::Option> options =
      Without(dialect::SbatchOptions(spec, around),
              {"wait", "wrap", "parsable", "output", "error", "input", "open-mode", "export"});
  options.push_back(Flag("no-shell", 0, "Allocate and return", has_no_shell));
  options.push_back(Ignored("bell", 0, Takes::kNothing));
  options.push_back(Ignored("no-bell", 0, Takes::kNothing));
  options.push_back(Ignored("kill-command", 'K', Takes::kOptionalValue));
  std::optional<Duration> immediate;
  options.push_back(Immediate(immediate));
  options.push_back(Ignored("wait", 'W', Takes::kValue));
  if (Greets("salloc", "[OPTIONS] [COMMAND [ARGS...]]", options, words)) return 0;
  if (const Status read = dialect::ApplyCommandEnvironment("SALLOC_", around, spec); !read)
    return FailAs("salloc", read.error());
  auto parsed = dialect::ReadSlurmWords(options, words, around, spec);
  if (!parsed) return FailAs("salloc", InSlurmsWords(parsed.error().message));
  if (IsInsideJob(around.environment)) {
    return FailAs("salloc", "already inside job " + EnvironmentValue(around.environment, "SLURM_JOB_ID") +
                                "; use srun to start a step of it");
  }
  spec.dialect = Dialect::kSlurm;
  spec.is_foreground = true;
  dialect::slurm::KeepOrigin(spec, around);
  dialect::slurm::Keep(spec, "door", "salloc");
  const auto hosts = dialect::ApplyTaskHosts(around, false, spec);
  const Status finished = hosts ? dialect::FinishSlurm(spec) : Status(hosts.error());
  if (!finished) return FailAs("salloc", InSlurmsWords(finished.error().message));
  if (const Status place = dialect::CheckSlurmPlace(spec); !place)
    return FailAs("salloc", std::string(kRefused) + InSlurmsWords(place.error().message));
  if (const Status several = CheckSeveral(spec); !several)
    return FailAs("salloc", std::string(kRefused) + InSlurmsWords(several.error().message));
  if (spec.array) return FailAs("salloc", "--array is sbatch's; salloc makes one allocation");
  const bool is_quiet = TakeClientFlag(spec, "quiet");
  if (is_quiet) spec.notes.clear();
  const int verbosity = TakeVerbosity(spec, "SALLOC_DEBUG");
  const bool is_test = TakeClientFlag(spec, "test-only");
  std::vector<std::string> command = std::move(parsed->positional);
  command.insert(command.end(), parsed->after_dashes.begin(), parsed->after_dashes.end());
  if (command.empty()) {
    const char* shell = std::getenv("SHELL");
    command = {shell != nullptr && *shell != 0 ? shell : "/bin/sh"};
    spec.wants_pty = ::isatty(STDIN_FILENO) == 1;
  }
  if (spec.name.empty()) spec.name = "interactive";
  if (spec.directory.empty()) spec.directory = around.directory;
  if (const Status complete = Complete(spec); !complete) return FailAs("salloc", complete.error());
  if (is_test) {
    spec.command = command;
    return TestOnly("salloc", spec);
  }
  if (has_no_shell) return HoldOnly(std::move(spec));
  spec.command = {"/bin/sh", "-c", is_quiet ? "exec \"$@\"" : std::string(kLoud), "salloc"};
  spec.command.insert(spec.command.end(), command.begin(), command.end());
  Voice voice = SlurmVoice("salloc", immediate ? "Unable to allocate resources: " : kRefused, spec, verbosity);
  voice.pending = "Pending job allocation";
  voice.revoked = "Job allocation";
  voice.most_wait = immediate;
  voice.on_ended = [is_quiet](const std::string& id) {
    if (!is_quiet) std::fprintf(stderr, "salloc: Relinquishing job allocation %s\n", id.c_str());
  };
  return RunForeground(spec, voice);
}

}  // namespace divvy::cli
