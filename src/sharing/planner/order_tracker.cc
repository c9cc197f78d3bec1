#include "sharing/planner/order_tracker.h"

namespace divvy::sharing {

void ActionTracker::BeginDecision() {
  next_decision_ = kNever;
  waits_.clear();
}

void ActionTracker::RemoveTenant(TenantId id) {
  std::erase_if(in_flight_, [&](const auto& entry) {
    return std::visit(
        [&](const auto& action) {
          if constexpr (requires { action.borrower; }) return action.borrower == id;
          else if constexpr (requires { action.tenant; }) return action.tenant == id;
          else return false;
        },
        entry.second.action);
  });
  waits_.erase(id);
  said_of_tenants_.erase(id);
  failed_for_gpu_.erase(id);
  fails_for_gpu_.erase(id);
}

void ActionTracker::Issue(Action action, ParkedBy parked_by) {
  const std::uint64_t id = next_action_++;
  in_flight_.emplace(id, InFlight{action, parked_by});
  actions_.push_back({id, std::move(action)});
}

std::optional<ActionTracker::InFlight> ActionTracker::End(std::uint64_t action_id) {
  const auto at = in_flight_.find(action_id);
  if (at == in_flight_.end()) return std::nullopt;
  std::optional<InFlight> ended = std::move(at->second);
  in_flight_.erase(at);
  return ended;
}

void ActionTracker::FailJob(std::uint64_t job, const std::string& why) {
  std::string& said = said_of_jobs_[job];
  if (said == why) return;
  said = why;
  Send(Failed{.job = job, .tenant = {}, .why = why});
}

void ActionTracker::FailTenant(TenantId id, const std::string& why) {
  std::string& said = said_of_tenants_[id];
  if (said == why) return;
  said = why;
  Send(Failed{.job = 0, .tenant = id, .why = why});
}

void ActionTracker::FailForGpu(TenantId id, const std::string& why) {
  fails_for_gpu_.insert(id);
  FailTenant(id, why);
}

void ActionTracker::WithdrawGpuFailures() {
  for (const TenantId& id : failed_for_gpu_) {
    if (!fails_for_gpu_.contains(id)) FailTenant(id, "");
  }
  failed_for_gpu_ = std::exchange(fails_for_gpu_, {});
}

std::string ActionTracker::WhyWaits(TenantId id) const {
  const auto at = waits_.find(id);
  return at == waits_.end() ? "" : at->second;
}

}  // namespace divvy::sharing
