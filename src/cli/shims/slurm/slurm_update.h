// scontrol update: turns "JobId=17 TimeLimit=+30 Priority=5" into a job update, and "NodeName=n1 State=drain" into a
// node command.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "dialect/options/job_options.h"
#include "wire/messages/messages.h"
#include "wire/messages/messages_nodes.h"

namespace divvy::cli::slurm {

struct UpdateWish {
  wire::JobUpdate update;
  std::optional<bool> holds;       // True: also hold the job; false: also release it.
  std::vector<std::string> notes;  // Fields that have no effect here.
};

/// `job_of` looks a job up, for values relative to the present one ("TimeLimit=+30").
Result<UpdateWish> ReadUpdate(const std::vector<std::string>& words, const dialect::ParseContext& around,
                              const std::function<Result<wire::JobDetail>(const std::string& id)>& job_of);

struct NodeUpdate {
  std::string verb;  // "drain" or "resume", for the request POST /v1/nodes/VERB.
  wire::NodeRequest request;
};
/// "NodeName=n[1-3] State=DRAIN Reason=disk". As in Slurm, running jobs continue, and a drain needs a reason.
Result<NodeUpdate> ReadNodeUpdate(const std::vector<std::string>& words);

}  // namespace divvy::cli::slurm
