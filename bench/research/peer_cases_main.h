// divvy-research peer-cases FILE...: compares divvy's decisions with another scheduler's test cases.
#pragma once

#include "cli/client/commands.h"

namespace divvy::research {

/// `words` are the arguments after "peer-cases". Returns 0, or 1 if a case failed, that is, differs without a reason.
int PeerCasesMain(const cli::Words& words);

}  // namespace divvy::research
