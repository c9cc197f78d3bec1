#include "engine/scheduler/group_caps.h"

#include "base/result.h"
#include "engine/core/state/state.h"

namespace divvy {

std::string CapText(const std::string& group) {
  for (std::string_view prefix : {"array ", "user ", "team ", "pool "}) {
    if (group.starts_with(prefix)) return group;
  }
  return "group " + group;
}

GroupCaps::Slot& GroupCaps::SlotOf(core::Cluster& core, const std::string& name) {
  const auto [at, is_new] = slots_.try_emplace(name);
  if (!is_new) return at->second;
  if (free_.empty()) {
    at->second.index = core.AddCap(CapText(name), 0);
  } else {
    at->second.index = free_.back();
    free_.pop_back();
    core.state().caps[at->second.index].name = CapText(name);
  }
  return at->second;
}

void GroupCaps::ForgetIfUnused(std::map<std::string, Slot>::iterator at) {
  if (at->second.users > 0 || at->second.limits.any()) return;
  free_.push_back(at->second.index);
  slots_.erase(at);
}

core::CapIndex GroupCaps::Use(core::Cluster& core, const std::string& name) {
  Slot& slot = SlotOf(core, name);
  slot.users += 1;
  return slot.index;
}

void GroupCaps::Leave(const std::string& name) {
  const auto at = slots_.find(name);
  DIVVY_ASSERT(at != slots_.end() && at->second.users > 0);
  at->second.users -= 1;
  ForgetIfUnused(at);
}

void GroupCaps::SetLimits(core::Cluster& core, const std::string& name, GroupLimits limits) {
  Slot& slot = SlotOf(core, name);
  slot.limits = limits;
  core.SetCap(slot.index, slot.limits.jobs, std::int64_t{slot.limits.gpus} * placement::kGpuParts);
  ForgetIfUnused(slots_.find(name));
}

std::map<std::string, GroupLimits> GroupCaps::limits() const {
  std::map<std::string, GroupLimits> limits;
  for (const auto& [name, slot] : slots_) {
    if (slot.limits.any()) limits.emplace(name, slot.limits);
  }
  return limits;
}

}  // namespace divvy
