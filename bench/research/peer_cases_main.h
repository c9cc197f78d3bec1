// divvy-research peer-cases FILE...: compares divvy's decisions with another scheduler's test cases.
#pragma once

#include "cli/client/commands.h"

namespace divvy::research {

/// `words` are the arguments after "peer-cases". Returns 1 if a case failed, that is, if its outcome differs from the
/// expected one without an accepted reason; otherwise 0.
int PeerCasesMain(const cli::Words& words);

}  // namespace divvy::research
