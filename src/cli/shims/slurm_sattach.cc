// sattach: what a step prints goes to whoever started it, and cannot be had by others; said with what can be done
// instead.
#include <cstdio>

#include "cli/shims/slurm.h"
#include "cli/shims/slurm_common.h"

namespace divvy::cli {

using namespace slurm;

int SattachMain(const std::vector<std::string>& words) {
  const std::vector<dialect::Option> options;
  if (Greets("sattach", "JOB.STEP", options, words)) return 0;
  const auto parsed = dialect::ParseOptions(options, words, {.stops_at_first_positional = true});
  if (!parsed) return FailAs("sattach", parsed.error());
  if (parsed->positional.size() != 1) return FailAs("sattach", "name one step: sattach JOB.STEP");
  const std::string& step = parsed->positional.front();
  const std::string job = step.substr(0, step.find('.'));
  return FailAs("sattach", "what step " + step +
                               " prints goes to the srun that started it, and no other can join it; "
                               "'divvy logs -f " +
                               job + "' follows the job's output, 'divvy attach " + job +
                               "' joins a terminal that it was given (--pty)");
}

}  // namespace divvy::cli
