// Data of one job that several routes look up.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "daemon/api/routes.h"

namespace divvy {

/// Everything that is known about a job.
struct Routes::Found {
  std::optional<JobRecord> record;
  std::shared_ptr<const JobSpec> spec;
  std::vector<Batch::HistoryLine> history;
};

}  // namespace divvy
