// divvy simulate --chaos SEED: injects faults into controller, store and a modelled server, in virtual time.
#pragma once

#include "cli/client/commands.h"

namespace divvy::cli {

/// `words` begin with --chaos. Prints one line of figures and returns 0. If an invariant was violated, returns 1 and
/// prints the world's seed and step, the events before it, and the command that reproduces it.
int SimulateChaosMain(const Words& words);

}  // namespace divvy::cli
