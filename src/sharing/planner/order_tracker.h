// Collects what a decision returns: orders, reports of failures, why tenants wait, and when to decide again. It keeps
// the orders in flight, and sends a report only when it changes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sharing/action.h"

namespace divvy::sharing {

class ActionTracker {
 public:
  struct InFlight {
    Action action;
    ParkedBy parked_by = ParkedBy::kNobody;  // Reason of a Park order.
  };

  void BeginDecision();
  /// Returns the orders and reports that were added since the last call.
  std::vector<IssuedAction> Take() { return std::exchange(actions_, {}); }
  void RemoveTenant(TenantId id);

  // --- Orders --------------------------------------------------------------------------------------------------------

  /// Adds an order to the keeper. It counts as in flight until its end is reported with End.
  void Issue(Action action, ParkedBy parked_by = ParkedBy::kNobody);
  /// Adds an order whose end is not reported, so it never counts as in flight.
  void Send(Action action) { actions_.push_back({0, std::move(action)}); }
  /// Removes the order with this id, which has ended, from those in flight and returns it; std::nullopt if its tenant
  /// was removed meanwhile.
  std::optional<InFlight> End(std::uint64_t action_id);
  const std::map<std::uint64_t, InFlight>& in_flight() const { return in_flight_; }

  // --- Failures ------------------------------------------------------------------------------------------------------

  void FailJob(std::uint64_t job, const std::string& why);
  /// Forgets the failure reported last for the job, so that the next one is reported even if its text is the same.
  void ForgetJobFailure(std::uint64_t job) { said_of_jobs_.erase(job); }
  void FailTenant(TenantId id, const std::string& why);
  /// Reports a problem of the tenant that comes from its GPU, like FailTenant. WithdrawGpuFailures withdraws the report
  /// when the problem is gone.
  void FailForGpu(TenantId id, const std::string& why);
  void WithdrawGpuFailures();

  // --- Waits ---------------------------------------------------------------------------------------------------------

  /// Sets the reason why the tenant waits. It is forgotten when the next decision begins.
  void SetWaits(TenantId id, std::string why) { waits_[id] = std::move(why); }
  bool has_waits() const { return !waits_.empty(); }
  std::string WhyWaits(TenantId id) const;
  void DecideAgainBy(Time time) { next_decision_ = std::min(next_decision_, time); }
  Time next_decision() const { return next_decision_; }

 private:
  std::uint64_t next_action_ = 1;
  std::map<std::uint64_t, InFlight> in_flight_;
  std::vector<IssuedAction> actions_;
  std::map<std::uint64_t, std::string> said_of_jobs_;
  std::map<TenantId, std::string> said_of_tenants_;
  std::set<TenantId> failed_for_gpu_;  // Failures for GPU problems in the previous decision.
  std::set<TenantId> fails_for_gpu_;   // The same for the decision in progress.
  std::map<TenantId, std::string> waits_;
  Time next_decision_ = kNever;
};

}  // namespace divvy::sharing
