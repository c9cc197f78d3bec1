// sbatch: a script, or a wrapped command, becomes a queued job.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/text.h"
#include "cli/api.h"
#include "cli/command.h"
#include "cli/shims/slurm.h"
#include "cli/shims/slurm_common.h"
#include "cli/shims/slurm_nodes.h"
#include "cli/shims/slurm_refusals.h"
#include "cli/shims/slurm_submit.h"
#include "dialect/slurm.h"

namespace divvy::cli {
namespace {

using namespace slurm;

constexpr std::size_t kMostScript = 16 << 20;

Result<std::string> ReadStdin() {
  std::string text;
  std::array<char, 65'536> buffer{};
  for (ssize_t got = 0; (got = ::read(STDIN_FILENO, buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<std::size_t>(got));
    if (text.size() > kMostScript) return InvalidArgument("the script on standard input is larger than 16 MiB");
  }
  return text;
}

/// --test-only: everything but the submission.
int Test(const JobSpec& spec) {
  if (const Status complete = dialect::CheckComplete(spec); !complete) return FailAs("sbatch", complete.error());
  auto api = Api::Connect();
  if (!api) return FailAs("sbatch", api.error());
  const auto status = api->Status();
  if (!status) return FailAs("sbatch", status.error());
  const auto nodes = FetchNodes();
  if (!nodes) return FailAs("sbatch", nodes.error());
  if (const Status several = CheckSeveral(spec); !several) return FailAs("sbatch", several.error());
  const int gpus = spec.request.gpus_in_all();
  if (gpus > status->gpus || spec.request.nodes > static_cast<int>(nodes->size())) {
    return FailAs("sbatch", "allocation failure: Requested node configuration is not available: " +
                                std::to_string(gpus) + " GPUs of " + std::to_string(status->gpus) + " on " +
                                Plural(spec.request.nodes, "node") + " of " + std::to_string(nodes->size()));
  }
  for (const std::string& note : spec.notes) Note(note);
  if (status->jobs_queued == 0 && gpus <= status->gpus_free && spec.dependencies.empty() && spec.begin == kNoTime &&
      !spec.is_held) {
    const int cpus = std::max({spec.request.cpus, spec.request.tasks, 1});
    std::fprintf(stderr, "sbatch: Job %lld to start at %s using %d processors on nodes %s in partition %s\n",
                 static_cast<long long>(status->jobs_total + 1), Moment(SceneOfServer().now).c_str(), cpus,
                 Hostname().c_str(), spec.pool.empty() ? "main" : spec.pool.c_str());
    return 0;
  }
  std::fprintf(stderr, "sbatch: Job could be submitted: %s, on node %s\n", dialect::Summarise(spec).c_str(),
               Hostname().c_str());
  return 0;
}

int WaitFor(const std::string& id) {
  auto api = Api::Connect();
  if (!api) return FailAs("sbatch", api.error());
  const auto end = api->Wait(id);
  if (!end) return FailAs("sbatch", end.error());
  if (end->state == "succeeded") return 0;
  return end->exit_code > 0 && end->exit_code < 256 ? static_cast<int>(end->exit_code) : 1;
}

std::vector<dialect::Option> HelpOptions() {
  static JobSpec scratch;
  static const dialect::Surroundings nowhere;
  return dialect::SbatchOptions(scratch, nowhere);
}

}  // namespace

int SbatchMain(const std::vector<std::string>& words) {
  if (!words.empty() && Greets("sbatch", "[OPTIONS] [SCRIPT [ARGS...] | --wrap=COMMAND]", HelpOptions(), words))
    return 0;
  const dialect::Surroundings around = CallerSurroundings();
  auto request = ReadBatchRequest(words, around, ReadStdin);
  if (!request) return FailAs("sbatch", request.error().message);
  if (const Status complete = Complete(request->spec); !complete) return FailAs("sbatch", complete.error());
  if (request->is_test) return Test(request->spec);
  const auto answer = SubmitJob(std::move(request->spec));
  if (!answer) return FailAs("sbatch", "Batch job submission failed: " + InSlurmsWords(answer.error().message));
  const std::string id = ToString(answer->id);
  if (request->is_parsable) {
    std::printf("%s\n", id.c_str());
  } else if (!request->is_quiet) {
    std::printf("Submitted batch job %s\n", id.c_str());
  }
  std::fflush(stdout);
  return request->waits ? WaitFor(id) : 0;
}

}  // namespace divvy::cli
