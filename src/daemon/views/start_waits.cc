#include "daemon/views/start_waits.h"

#include <algorithm>
#include <vector>

#include "engine/message_text.h"

namespace divvy {
namespace {

/// Returns the jobs with GPU fractions on GPUs that the starting job needs as a whole, as far as the keeper's own text
/// does not mention them.
std::vector<std::string> Untold(const NodeAllocation& allocation, const wire::KeeperState& state,
                                const std::string& told) {
  std::vector<std::string> names;
  for (const wire::KeptTenant& tenant : state.tenants) {
    const bool is_there = std::ranges::any_of(tenant.shares, [&](const wire::KeptShare& share) {
      return allocation.gpus.Contains(static_cast<GpuIndex>(share.gpu));
    });
    if (!is_there || tenant.state == wire::ShareState::kParked) continue;
    if (told.find("job " + ToString(tenant.job) + " ") == std::string::npos) names.push_back(ToString(tenant.job));
  }
  return names;
}

}  // namespace

std::string StartWaitsText(const JobRecord& record, const SharingSnapshot& shares, const FindOutcome& find) {
  std::string text;
  std::vector<std::string> names;
  for (const NodeAllocation& allocation : AllocationsOf(record)) {
    const wire::KeeperState* state = shares.Find(allocation.node);
    if (state == nullptr) continue;
    const auto wait = std::ranges::find(state->waits, record.id, &wire::KeptWait::job);
    const std::string told = wait == state->waits.end() ? "" : wait->why;
    if (!told.empty()) text += " It waits there: " + told + ".";
    if (record.request.is_portioned()) continue;
    const std::vector<std::string> untold = Untold(allocation, *state, told);
    names.insert(names.end(), untold.begin(), untold.end());
  }
  if (!names.empty()) {
    text += " It waits until its GPUs are empty: " + std::string(names.size() == 1 ? "job " : "jobs ") +
            AndList(names) + (names.size() == 1 ? " is" : " are") + " moved away first.";
  }
  return WithPublicIds(text, find);
}

}  // namespace divvy
