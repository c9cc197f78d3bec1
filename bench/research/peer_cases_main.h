// divvy-research peer-cases FILE...: another scheduler's test cases against this one's decisions.
#pragma once

#include "cli/client/commands.h"

namespace divvy::research {

/// `words` are those after "peer-cases". 0; 1 when a case failed: it differs and has no reason to.
int PeerCasesMain(const cli::Words& words);

}  // namespace divvy::research
