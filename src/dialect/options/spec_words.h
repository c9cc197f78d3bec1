// The way back from a JobSpec to the options of divvy submit: what a page shows of a job that is to be submitted once
// more, and the command line that says the same as a form does.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "dialect/options/job_options.h"

namespace divvy::dialect {

/// One option, and what of the specification it says.
struct SpecWord {
  std::string text;  // As a shell would have it: "--topology nvlink:required".
  std::vector<std::string>
      members;            // "request/topology": as JSON has them, with '/' between; without these it is gone.
  bool is_option = true;  // False: no option says it, and `text` is for people ("label slurm.qos=high").
};

/// What makes of `before` this specification, in the order of --help; all but what is run. Labels that options keep
/// for themselves are said by those options.
std::vector<SpecWord> WordsOf(const JobSpec& spec, const JobSpec& before);

/// "divvy submit --gpus 2 -- python train.py", of a script "divvy submit --gpus 2 SCRIPT a b" with its own lines read
/// first. It is read again by the tables of the command line before it is given away: fails with kFailedPrecondition
/// where that does not give the same specification. What only the place of a submission says (its environment, and a
/// directory that is not named) is left out of account, and so are fractions of a second of moments.
Result<std::string> CommandLineOf(const JobSpec& spec, std::string_view script, const Surroundings& around);

}  // namespace divvy::dialect
