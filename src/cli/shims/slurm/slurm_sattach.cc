// sattach: attaches to the output of a step where possible. That is a job's terminal, or the output file of a batch
// job, which its batch step and the steps in its script share. Other steps' output goes only to their caller. Then the
// error says what to do instead.
#include <algorithm>
#include <cstdio>

#include "base/text.h"
#include "cli/client/api.h"
#include "cli/client/commands.h"
#include "cli/shims/slurm_look/slurm.h"
#include "cli/shims/slurm_look/slurm_common.h"
#include "cli/steps/step_listing.h"

namespace divvy::cli {

using namespace slurm;

namespace {

struct SattachFlags {
  bool is_quiet = false;
};

std::vector<dialect::Option> SattachTable(SattachFlags& wish) {
  using dialect::Takes;
  return {
      Flag("quiet", 'Q', "Omit the note on where a step's output goes", wish.is_quiet),
      Ignored("verbose", 'v', Takes::kNothing),
      Ignored("label", 'l', Takes::kNothing),
      Ignored("input-filter", 0, Takes::kValue),
      Ignored("output-filter", 0, Takes::kValue),
      Ignored("error-filter", 0, Takes::kValue),
      Ignored("pty", 0, Takes::kNothing),
  };
}

/// For a batch job: checks that `step` is the number of an existing step.
Status CheckStep(Api& api, const wire::JobDetail& job, const std::string& step) {
  const auto number = ParseInteger(step);
  const std::vector<wire::StepView> steps = StepsOf(api, job);
  const auto found =
      std::ranges::find_if(steps, [&](const wire::StepView& one) { return number && one.number == *number; });
  if (found == steps.end()) return NotFound("Invalid job step id specified");
  if (found->end_time) {
    return FailedPrecondition("it has ended; divvy logs " + ToString(job.id) +
                              " shows what its job has printed, squeue -s the steps that run");
  }
  return {};
}

}  // namespace

int SattachMain(const std::vector<std::string>& words) {
  SattachFlags wish;
  const std::vector<dialect::Option> options = SattachTable(wish);
  if (Greets("sattach", "JOB.STEP", options, words)) return 0;
  const auto parsed = dialect::ParseOptions(options, words, {.stops_at_first_positional = true});
  if (!parsed) return FailAs("sattach", parsed.error());
  if (parsed->positional.size() != 1) return FailAs("sattach", "name one step: sattach JOB.STEP");
  const std::string& whole = parsed->positional.front();
  const std::size_t dot = std::min(whole.find('.'), whole.size());
  const std::string id = whole.substr(0, dot);
  const std::string step = dot == whole.size() ? "" : whole.substr(dot + 1);
  const auto failed = [&](const Error& error) { return FailAs("sattach", "step " + whole + ": " + error.message); };
  auto api = Api::Connect();
  if (!api) return FailAs("sattach", api.error());
  const auto job = api->Job(id);
  if (!job) return FailAs("sattach", job.error());
  const bool is_batch = step.empty() || step == "batch";
  // A foreground job is its own step 0.
  if (job->wants_pty && (is_batch || step == "0" || step == "interactive")) return AttachMain({id});
  if (job->is_foreground && job->output.empty()) {
    return FailAs("sattach", "what step " + whole +
                                 " prints goes to the terminal or program that started it and cannot be joined; to "
                                 "join a job with a terminal (srun --pty), use 'divvy attach " +
                                 id + "'; for a submitted job (sbatch), 'divvy logs -f'");
  }
  if (!is_batch) {
    if (const Status is_there = CheckStep(*api, *job, step); !is_there) return failed(is_there.error());
    if (!wish.is_quiet) {
      std::fprintf(stderr,
                   "sattach: what step %s prints goes to the process that started it. A step of the job's script "
                   "prints to the job's output, which follows until the job ends\n",
                   whole.c_str());
    }
  }
  return LogsMain({"-f", id});
}

}  // namespace divvy::cli
