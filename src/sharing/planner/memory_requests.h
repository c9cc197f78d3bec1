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
  MemoryRequests(NodeOccupancy& node, ActionTracker& actions, MemoryCeilings& ceilings, Repayment& repayment,
                 const PinRequests& pins)
      : node_(node), actions_(actions), ceilings_(ceilings), repayment_(repayment), pins_(pins) {}

  void BeginDecision();
  void RemoveTenant(TenantId id);
  void Add(TenantId id, unsigned device, Bytes bytes, std::uint64_t request);
  void Forget(TenantId id, std::uint64_t request);
  /// Answers the processes' requests for more memory that can be answered now. `right`: kRequest for those with which
  /// the tenant stays within its guaranteed memory, kLoan for those that borrow.
  void AnswerAll(Right right);
  bool is_empty() const { return requests_.empty(); }
  bool IsWaiting(TenantId id) const;

 private:
  struct AllocationRequest {
    TenantId tenant;
    unsigned device = 0;
    Bytes bytes;
    std::uint64_t request = 0;
    Time waits_until = kNoTime;  // When waiting for others to get their due ends. kNoTime: not waiting.
  };

  Bytes NeedOf(const AllocationRequest& want) const;
  bool AnswerRequest(AllocationRequest& want);
  bool AnswerLodger(const AllocationRequest& want, Tenant& tenant, Bytes need);
  bool AnswerRight(const AllocationRequest& want, Tenant& tenant, Bytes need);
  bool AnswerLoan(AllocationRequest& want, Tenant& tenant, Bytes need);
  Bytes GrowthRoom(GpuIndex gpu) const;
  void Grant(const AllocationRequest& want, Tenant& tenant, Bytes need, Bytes most);
  bool Deny(const AllocationRequest& want, std::string why);
  Bytes LoanPart(const Tenant& tenant, GpuIndex gpu, Bytes need) const;

  NodeOccupancy& node_;
  ActionTracker& actions_;
  MemoryCeilings& ceilings_;
  Repayment& repayment_;
  const PinRequests& pins_;
  std::vector<AllocationRequest> requests_;
  std::map<DeviceKey, TimedNeed> wishes_;  // Recently denied loans.
};

}  // namespace divvy::sharing
