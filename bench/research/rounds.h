// divvy-research gavel-rounds and shockwave-rounds: published experiments in which it is decided anew, every few
// minutes, who runs where (docs/heterogeneous.md).
#pragma once

#include <string_view>

#include "cli/client/commands.h"

namespace divvy::research {

bool IsRoundsExperiment(std::string_view word);
/// words.front() names the experiment.
int RoundsMain(const cli::Words& words);

}  // namespace divvy::research
