// divvy simulate --chaos SEED: faults against controller, store and a modelled server, in virtual time.
#pragma once

#include "cli/client/commands.h"

namespace divvy::cli {

/// `words` begin with --chaos. 0 and one line of figures; 1 when a promise was broken, with the seed and step of its
/// world, the events before it and the command that shows it again.
int SimulateChaosMain(const Words& words);

}  // namespace divvy::cli
