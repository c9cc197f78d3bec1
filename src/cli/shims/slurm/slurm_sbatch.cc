// sbatch: a script, or a wrapped command, becomes a queued job.
#include <unistd.h>

#include <array>
#include <cstdio>

#include "cli/client/api.h"
#include "cli/client/command.h"
#include "cli/shims/slurm/slurm_submit.h"
#include "cli/shims/slurm_look/slurm.h"
#include "cli/shims/slurm_look/slurm_common.h"
#include "cli/shims/slurm_look/slurm_refusals.h"
#include "dialect/slurm/slurm.h"

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

int WaitFor(const std::string& id) {
  auto api = Api::Connect();
  if (!api) return FailAs("sbatch", api.error());
  const auto end = api->Wait(id);
  if (!end) return FailAs("sbatch", end.error());
  if (end->state == "succeeded") return 0;
  return end->exit_code > 0 && end->exit_code < 256 ? static_cast<int>(end->exit_code) : 1;
}

std::vector<dialect::Option> SbatchHelpOptions() {
  static JobSpec scratch;
  static const dialect::ParseContext nowhere;
  return dialect::SbatchOptions(scratch, nowhere);
}

}  // namespace

int SbatchMain(const std::vector<std::string>& words) {
  if (!words.empty() && Greets("sbatch", "[OPTIONS] [SCRIPT [ARGS...] | --wrap=COMMAND]", SbatchHelpOptions(), words))
    return 0;
  const dialect::ParseContext around = CallerParseContext();
  auto request = ReadBatchRequest(words, around, ReadStdin);
  if (!request) {
    const std::string why = InSlurmsWords(request.error().message);
    if (why.starts_with("-S/--core-spec")) {  // As in Slurm, "fatal" instead of "error".
      std::fprintf(stderr, "sbatch: fatal: %s\n", why.c_str());
      return 1;
    }
    return FailAs("sbatch", (why.starts_with("Requested node config") ? "Batch job submission failed: " : "") + why);
  }
  if (const Status complete = Complete(request->spec); !complete) return FailAs("sbatch", complete.error());
  if (request->is_quiet) request->spec.notes.clear();
  PrintReadOptions("sbatch", request->spec, request->verbosity);
  if (request->is_test) return TestOnly("sbatch", request->spec);
  const auto answer = SubmitJob(request->spec);
  if (!answer)
    return FailAs("sbatch", "Batch job submission failed: " + InSlurmsWords(answer.error().message, request->spec));
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
