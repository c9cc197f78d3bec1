// Converts a JobSpec back to the options of divvy submit. The web page uses it to submit a job again, and to show the
// command line that is equivalent to a form.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "dialect/options/job_options.h"

namespace divvy::dialect {

/// One option, and the fields of the spec that it sets.
struct SpecWord {
  std::string text;                  // In shell syntax: "--topology nvlink:required".
  std::vector<std::string> members;  // "request/topology": paths in the JSON of the spec. Removing these fields removes
                                     // the option.
  bool is_option = true;  // False: no option sets it, and `text` is only a description ("label slurm.qos=high").
};

/// Returns the options that change `before` into `spec`, in the order of --help. The command or script is not among
/// them. Labels that belong to options are expressed as those options.
std::vector<SpecWord> WordsOf(const JobSpec& spec, const JobSpec& before);

/// "divvy submit --gpus 2 -- python train.py", or for a script "divvy submit --gpus 2 SCRIPT a b" with the script's
/// lines applied first. The result is parsed again to verify it. Fails with kFailedPrecondition if that gives another
/// spec. The comparison ignores what comes from the place of submission (the environment, and the directory if no
/// option names it) and fractions of a second in times.
Result<std::string> CommandLineOf(const JobSpec& spec, std::string_view script, const ParseContext& around);

}  // namespace divvy::dialect
