// What several routes look up of one job.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "daemon/api/routes.h"

namespace divvy {

/// All that is to be told of a job.
struct Routes::Found {
  std::optional<JobRecord> record;
  std::shared_ptr<const JobSpec> spec;
  std::vector<Batch::HistoryLine> history;
};

}  // namespace divvy
