// divvy-research gavel-rounds and shockwave-rounds: published experiments in which the policy decides again, every few
// minutes, which jobs run where (docs/heterogeneous-design.md).
#pragma once

#include <string_view>

#include "cli/client/commands.h"

namespace divvy::research {

bool IsRoundsExperiment(std::string_view word);
/// Runs the experiment that words.front() names; the other words are its options. Returns the exit status.
int RoundsMain(const cli::Words& words);

}  // namespace divvy::research
