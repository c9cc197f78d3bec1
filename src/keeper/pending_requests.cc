#include "keeper/pending_requests.h"

#include <algorithm>
#include <utility>

#include "platform/gpu/share_library.h"
#include "sharing/words.h"

namespace divvy::keeper {

void PendingRequests::Settle(ManagedTenant& kept) {
  if (kept.pending.empty() || kept.relocation != nullptr) return;
  const sharing::Tenant* known = shared_.planner.Find(kept.id());
  if (known == nullptr) return;
  const bool is_here = known->state == sharing::State::kHere && kept.returning.empty();
  std::erase_if(kept.pending, [&](const PendingRequest& pending) {
    bool is_so = false;
    switch (pending.goal) {
      case Goal::kPlaced:
        if (kept.tenant == nullptr || !HasEnteredMps(kept)) return false;
        AnswerAdded(pending.id, kept);
        return true;
      case Goal::kParked:
        is_so = known->state == sharing::State::kParked;
        break;
      case Goal::kHere:
        is_so = is_here;
        if (const std::string why = WhyNotBack(*known); !is_so && !why.empty()) {
          shared_.listener->Answer(pending.id, FailedPrecondition(why));
          return true;
        }
        break;
      case Goal::kDisplaced:
        is_so = known->state == sharing::State::kParked && kept.is_recorded && kept.strangers.empty();
        if (!known->is_displaced) return FailDisplacement(pending.id, kept);
        break;
      case Goal::kReturned:
        if (known->is_displaced) return FailDisplacement(pending.id, kept);
        [[fallthrough]];
      case Goal::kThere:
        is_so = is_here;
        for (std::size_t i = 0; i < pending.to.size() && i < known->devices.size(); ++i)
          is_so = is_so && known->devices[i].gpu == pending.to[i];
        break;
    }
    if (is_so) shared_.listener->Answer(pending.id, {});
    return is_so;
  });
}

bool PendingRequests::FailDisplacement(std::uint64_t id, const ManagedTenant& kept) const {
  const bool has_reason = !kept.displacement_failure.empty();
  shared_.listener->Answer(id, FailedPrecondition(has_reason ? kept.displacement_failure : "it was replaced"));
  return true;
}

void PendingRequests::Fail(ManagedTenant& kept, std::optional<Goal> goal, const std::string& why) {
  std::erase_if(kept.pending, [&](const PendingRequest& pending) {
    if (goal && pending.goal != *goal) return false;
    shared_.listener->Answer(pending.id, FailedPrecondition(why));
    return true;
  });
}

void PendingRequests::GiveUp(ManagedTenant& kept) {
  const Time now = shared_.loop.Now();
  std::erase_if(kept.pending, [&](const PendingRequest& pending) {
    if (now < pending.until) return false;
    std::string why = shared_.planner.WhyWaits(kept.id());
    if (pending.goal == Goal::kDisplaced && !kept.strangers.empty())
      why = "process " + std::to_string(kept.strangers.begin()->first) + " still uses its GPU";
    shared_.listener->Answer(pending.id,
                             FailedPrecondition(why.empty() ? "it has not finished yet; see divvy gpus" : why));
    return true;
  });
}

void PendingRequests::AnswerAdded(std::uint64_t id, ManagedTenant& kept) {
  wire::KeeperLine line;
  line.answer.emplace().id = id;
  wire::KeeperAdded& added = line.answer->added.emplace();
  added.gpus = kept.record.gpus;
  added.uuids = shared_.UuidsOf(kept.record.gpus);
  for (const int gpu : kept.record.gpus) {
    for (const auto& [index, other] : shared_.gpus) {
      const bool is_kin = other.kind == shared_.gpus.at(static_cast<GpuIndex>(gpu)).kind;
      if (gpu == index || (is_kin && !kept.record.terms.uses_mps)) added.reachable.Insert(index);
    }
  }
  added.folder = kept.tenant->folder();
  added.environment = EnvironmentOf(kept);
  if (kept.mps) {
    const MpsEntry entry = *std::exchange(kept.mps, std::nullopt);
    if (!entry.why_not.empty()) return shared_.listener->Answer(id, FailedPrecondition(entry.why_not));
    added.environment.insert(added.environment.end(), entry.environment.begin(), entry.environment.end());
  }
  shared_.listener->Say(line);
}

/// Returns true once all MPS servers of the tenant have answered. The first call starts them.
bool PendingRequests::HasEnteredMps(ManagedTenant& kept) {
  if (!kept.record.terms.uses_mps) return true;
  if (kept.mps) return kept.mps->awaited == 0;
  const TenantId id = kept.tenant->id();
  const std::vector<int> gpus = kept.record.gpus;
  const std::vector<std::string> uuids = shared_.UuidsOf(gpus);
  kept.mps = MpsEntry{};
  kept.mps->awaited = gpus.size();
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    mps_.Join(id, static_cast<GpuIndex>(gpus[i]), uuids[i], ShareOf(kept.record.terms),
              [this, id](const Result<std::vector<std::string>>& entered) {
                ManagedTenant* known = shared_.Find(id);
                if (known == nullptr || !known->mps) return;
                MpsEntry& entry = *known->mps;
                --entry.awaited;
                if (!entered) entry.why_not = entered.error().message;
                else entry.environment.insert(entry.environment.end(), entered->begin(), entered->end());
                shared_.is_planner_due = true;
              });
  }
  return kept.mps->awaited == 0;
}

std::vector<std::string> PendingRequests::EnvironmentOf(const ManagedTenant& kept) const {
  std::vector<std::string> environment = ShareEnvironment(shared_.options.interposer, kept.tenant->folder(), "");
  if (kept.record.terms.uses_mps) environment.clear();  // MPS enforces the limits, and its clients run concurrently.
  if (kept.record.terms.is_whole) {
    // The node names the GPUs as for any job with whole GPUs. The driver can save memory that the library leaves as it
    // is, so that CUDA IPC works, although the job cannot be parked any more once it uses it.
    if (shared_.mechanisms.uses_driver()) environment.push_back("DIVVY_SHARE_MEMORY=plain");
    return environment;
  }
  std::string visible;
  for (const std::string& uuid : shared_.UuidsOf(kept.record.gpus)) visible += (visible.empty() ? "" : ",") + uuid;
  environment.push_back("CUDA_VISIBLE_DEVICES=" + visible);
  return environment;
}

/// Returns "" unless no room is being made for the tenant now, and it is unknown when there will be some.
std::string PendingRequests::WhyNotBack(const sharing::Tenant& tenant) const {
  if (tenant.state != sharing::State::kParked || !tenant.wants_to_wake || shared_.planner.IsAtWork()) return "";
  const std::string why = shared_.planner.WhyWaits(tenant.id);
  return why.empty() ? ""
                     : sharing::TenantText(tenant.id) + " " + (why.starts_with("waits") ? "" : "is not back: ") + why +
                           "; it returns automatically when possible";
}

}  // namespace divvy::keeper
