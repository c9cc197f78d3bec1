#include "control/state/found_runs.h"

namespace divvy {

std::string UserText(const User& user) { return user.name.empty() ? "uid " + std::to_string(user.uid) : user.name; }

std::string FoundRuns::TextOf(const std::string& node, GpuIndex gpu) const {
  std::string text;
  for (const auto& [id, found] : runs_) {
    const JobRecord& record = found.run.record;
    GpuSet gpus = record.gpus;
    for (const NodeAllocation& allocation : record.gang) {
      if (allocation.node == node) gpus = allocation.gpus;
    }
    if (found.is_adopted || found.run.exit || record.node != node || !gpus.Contains(gpu)) continue;
    text += (text.empty() ? "job " : "; job ") + ToString(id) + " of " + UserText(record.user) +
            ", which the store does not know (divvy adopt)";
  }
  return text;
}

void FoundRuns::ForgetNode(const std::string& node) {
  std::erase_if(runs_, [&](const auto& found) { return found.second.run.record.node == node; });
}

}  // namespace divvy
