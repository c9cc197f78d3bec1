// Requests of processes that need more memory than their ceiling: memory that is theirs by request, and loans.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sharing/planner/pin_requests.h"

namespace divvy::sharing {

class MemoryRequests {
 public:
  MemoryRequests(NodeOccupancy& node, OrderTracker& orders, MemoryCeilings& ceilings, Repayment& repayment,
                 const PinRequests& pins)
      : node_(node), orders_(orders), ceilings_(ceilings), repayment_(repayment), pins_(pins) {}

  void BeginDecision();
  void RemoveTenant(TenantId id);
  void Add(TenantId id, unsigned device, Bytes bytes, std::uint64_t request);
  void Forget(TenantId id, std::uint64_t request);
  /// `right`: handles requests that stay within the guaranteed amount, or all others.
  void AnswerAll(Right right);
  bool is_empty() const { return wants_.empty(); }
  bool IsWaiting(TenantId id) const;

 private:
  struct OpenWant {
    TenantId tenant;
    unsigned device = 0;
    Bytes bytes;
    std::uint64_t request = 0;
    Time waits_until = kNoTime;  // When waiting for others to get their due ends. kNoTime: not waiting.
  };

  Bytes NeedOf(const OpenWant& want) const;
  bool AnswerWant(OpenWant& want);
  bool AnswerRight(const OpenWant& want, Tenant& tenant, Bytes need);
  bool AnswerLoan(OpenWant& want, Tenant& tenant, Bytes need);
  Bytes GrowthRoom(GpuIndex gpu) const;
  void Grant(const OpenWant& want, Tenant& tenant, Bytes need, Bytes most);
  bool Deny(const OpenWant& want, std::string why);
  Bytes LoanPart(const Tenant& tenant, GpuIndex gpu, Bytes need) const;

  NodeOccupancy& node_;
  OrderTracker& orders_;
  MemoryCeilings& ceilings_;
  Repayment& repayment_;
  const PinRequests& pins_;
  std::vector<OpenWant> wants_;
  std::map<DeviceKey, TimedNeed> wishes_;  // Recently denied loans.
};

}  // namespace divvy::sharing
