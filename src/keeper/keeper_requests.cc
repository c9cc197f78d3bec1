// Requests of the node.
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "keeper/keeper.h"

namespace divvy::keeper {
namespace {

/// A user's command is answered by then, if necessary with the reason why it waits.
constexpr Duration kCommandTimeout = 60s;
/// Afterwards the node is told why the job has not left its GPUs. Much memory takes minutes to copy.
constexpr Duration kDisplaceTimeout = std::chrono::minutes(30);

/// Converts GPU numbers from a message. Fails if one is out of range.
Result<std::vector<GpuIndex>> GpuIndices(const std::vector<int>& numbers) {
  std::vector<GpuIndex> gpus;
  for (const int gpu : numbers) {
    if (gpu < 0 || gpu >= GpuSet::kCapacity) return NotFound("there is no GPU " + std::to_string(gpu));
    gpus.push_back(static_cast<GpuIndex>(gpu));
  }
  return gpus;
}

}  // namespace

void Keeper::OnRequest(const wire::KeeperRequest& request) {
  const std::uint64_t id = request.id;
  shared_.is_planner_due = true;
  if (request.hello) return OnHello(id, *request.hello);
  if (request.add) return OnAdd(id, *request.add);
  if (request.take_whole) return takes_.Take(id, *request.take_whole);
  if (request.park) return OnCommand(id, request.park->job, Goal::kParked, {});
  if (request.wake) return OnCommand(id, request.wake->job, Goal::kHere, {});
  if (request.move) return OnCommand(id, request.move->job, Goal::kThere, request.move->to);
  if (request.displace) return OnDisplace(id, *request.displace);
  if (request.back) return OnReturn(id, *request.back);
  if (request.resize) {
    const Status resized = Resize(request.resize->job, request.resize->share, request.resize->paper);
    SettlePlanner();  // The resize is in effect when it is answered.
    return shared_.listener->Answer(id, resized);
  }
  if (request.remove) {
    OnRemove(*request.remove);
  } else if (request.give_whole) {
    takes_.Give(request.give_whole->job);
  } else if (request.gpus) {
    SetNode(request.gpus->gpus);
  } else if (request.processes) {
    use_.SetProcesses(request.processes->processes);
  } else if (request.leave) {
    may_end_ = request.leave->is_final;
  } else if (request.state) {
    use_.RefreshAll();
    wire::KeeperLine line;
    line.answer.emplace().id = id;
    line.answer->state = report_.State();
    return shared_.listener->Say(line);
  } else {
    return shared_.listener->Answer(
        id, InvalidArgument("this keeper does not know the request; it may be an older release than the daemon"));
  }
  shared_.listener->Answer(id, {});
}

void Keeper::OnHello(std::uint64_t id, const wire::KeeperHello& hello) {
  may_end_ = false;
  // Forgets the requests of an earlier connection; the node sends again those that it still needs.
  for (auto& [key, kept] : shared_.tenants) kept->pending.clear();
  takes_.OnHello(hello);
  slices_.OnHello(hello);
  SetNode(hello.gpus);
  if (!has_taken_up_) {
    takes_.TakeUp(hello);
    TakeUpTenants();
  }
  wire::KeeperLine line;
  line.answer.emplace().id = id;
  wire::KeeperWelcome& welcome = line.answer->hello.emplace();
  welcome.version = wire::kKeeperVersion;
  welcome.pid = ::getpid();
  welcome.mechanisms = shared_.mechanisms.List();
  shared_.listener->Say(line);
  report_.Forget();
}

void Keeper::OnAdd(std::uint64_t id, const wire::KeeperAdd& add) {
  const TenantId tenant{add.job.value(), add.attempt};
  const auto refuse = [this, id](Error error) { shared_.listener->Answer(id, std::move(error)); };
  if (add.slice.any()) return slices_.Add(id, add);
  if (ManagedTenant* kept = shared_.Find(tenant); kept != nullptr && kept->record.terms.is_whole) {
    // The GPUs of this tenant are changed only by the request KeeperReturn.
    kept->pending.push_back({id, Goal::kPlaced, {}});
    return;
  } else if (kept != nullptr) {
    if (const Status resized = Resize(add.job, add.share, add.paper); !resized) return refuse(resized.error());
    kept->record.terms = add;
    shared_.Record(*kept);
    kept->pending.push_back({id, Goal::kPlaced, {}});
    return;
  }
  static_assert(share::kMaxDevices == kMostPortionedGpus);
  if (add.paper.empty() || add.paper.size() > share::kMaxDevices)
    return refuse(InvalidArgument("expected GPU fractions of 1 to " + std::to_string(share::kMaxDevices) + " GPUs"));
  if (!add.uses_mps && !shared_.mechanisms.has_interposer)
    return refuse(FailedPrecondition("GPU sharing is unavailable: libdivvy_cuda.so is missing"));
  sharing::Tenant fresh;
  fresh.id = tenant;
  fresh.share = ShareOf(add);
  for (const int paper : add.paper) {
    if (paper < 0 || paper >= GpuSet::kCapacity) return refuse(NotFound("there is no GPU " + std::to_string(paper)));
    fresh.devices.emplace_back().planned_gpu = static_cast<GpuIndex>(paper);
  }
  if (add.uses_mps) {
    fresh.why_cannot_move = fresh.why_cannot_park = "is a client of MPS";
  } else {
    fresh.why_cannot_move = shared_.mechanisms.WhyCannotMove(0);
    fresh.why_cannot_park = shared_.mechanisms.WhyCannotPark(0);
  }
  if (const Status added = shared_.planner.AddTenant(fresh); !added) return refuse(added.error());
  auto kept = std::make_unique<ManagedTenant>();
  kept->record.terms = add;
  kept->pending.push_back({id, Goal::kPlaced, {}});
  if (const Status recorded = shared_.TryToRecord(*kept); !recorded) {
    shared_.planner.RemoveTenant(tenant);
    return refuse(recorded.error());
  }
  if (const auto trouble = troubles_.find(tenant); trouble != troubles_.end())
    kept->trouble = "the keeper could not recover this job from its record, and added it again: " + trouble->second;
  shared_.tenants[tenant] = std::move(kept);
}

void Keeper::OnRemove(const wire::KeeperRemove& remove) {
  const TenantId id{remove.job.value(), remove.attempt};
  if (slices_.Remove(id)) return;
  const auto found = shared_.tenants.find(id);
  troubles_.erase(id);
  if (found == shared_.tenants.end()) return shared_.records.Forget(id);
  ManagedTenant& kept = *found->second;
  pending_.Fail(kept, std::nullopt, "the job is over");
  memory_.RemoveTenant(id);
  kept.relocation.reset();
  pending_.RemoveTenant(id);
  shared_.planner.RemoveTenant(id);
  if (kept.tenant != nullptr) {
    shared_.LeaveGates(kept);
    kept.tenant->RemoveFolder();
  }
  shared_.records.Forget(id);
  shared_.tenants.erase(found);
}

void Keeper::OnDisplace(std::uint64_t id, const wire::KeeperDisplace& displace) {
  const TenantId tenant{displace.job.value(), displace.attempt};
  ManagedTenant* kept = shared_.Find(tenant);
  if (kept == nullptr || kept->tenant == nullptr)
    return shared_.listener->Answer(id, NotFound("job " + ToString(displace.job) + " has no GPU on this node"));
  // The free host memory, and whether the tenant can be parked, may have changed since they were last checked.
  kept->why_no_room = relocations_.WhyNoHostRoom(*kept);
  use_.SetCannot(*kept);
  if (const Status displaced = shared_.planner.Displace(tenant); !displaced) {
    kept->displacement_failure = displaced.error().message;
    return shared_.listener->Answer(id, displaced);
  }
  kept->displacement_failure.clear();
  // The record is written before the tenant begins to leave its GPUs.
  kept->record.is_displaced = true;
  pending_.Fail(*kept, Goal::kReturned, "it is displaced again");
  kept->pending.push_back({id, Goal::kDisplaced, {}, shared_.loop.Now() + kDisplaceTimeout});
}

void Keeper::OnReturn(std::uint64_t id, const wire::KeeperReturn& back) {
  const TenantId tenant{back.job.value(), back.attempt};
  ManagedTenant* kept = shared_.Find(tenant);
  if (kept == nullptr || kept->tenant == nullptr)
    return shared_.listener->Answer(id, NotFound("job " + ToString(back.job) + " is not on this node"));
  const Result<std::vector<GpuIndex>> to = GpuIndices(back.to);
  if (!to) return shared_.listener->Answer(id, to.error());
  if (const Status returns = shared_.planner.Return(tenant, *to); !returns)
    return shared_.listener->Answer(id, returns);
  kept->displacement_failure.clear();
  kept->record.terms.paper = back.to;
  kept->record.is_displaced = false;
  // The new GPUs are recorded before the tenant returns to them. A restarted keeper must not give them to others, nor
  // bring the tenant to its old GPUs.
  if (const Status recorded = shared_.TryToRecord(*kept); !recorded) {
    [[maybe_unused]] const Status displaced = shared_.planner.Displace(tenant);
    return shared_.listener->Answer(id, recorded);
  }
  pending_.Fail(*kept, Goal::kDisplaced, "it returns");
  pending_.Fail(*kept, Goal::kReturned, "it returns to other GPUs");
  kept->pending.push_back({id, Goal::kReturned, *to});
}

TenantId Keeper::LatestOf(JobId job) const {
  TenantId latest;
  for (const auto& [id, kept] : shared_.tenants) {
    if (id.job == job.value()) latest = id;
  }
  return latest;
}

void Keeper::OnCommand(std::uint64_t id, JobId job, Goal goal, const std::vector<int>& to) {
  const TenantId tenant = LatestOf(job);
  ManagedTenant* kept = shared_.Find(tenant);
  if (kept == nullptr || kept->tenant == nullptr)
    return shared_.listener->Answer(id, NotFound("job " + ToString(job) + " has no GPU fraction on this node"));
  const Result<std::vector<GpuIndex>> gpus = GpuIndices(to);
  if (!gpus) return shared_.listener->Answer(id, gpus.error());
  const Status asked = goal == Goal::kParked ? shared_.planner.ParkByUser(tenant)
                       : goal == Goal::kHere ? shared_.planner.WakeByUser(tenant)
                                             : shared_.planner.MoveByUser(tenant, *gpus);
  if (!asked) return shared_.listener->Answer(id, asked);
  kept->pending.push_back({id, goal, *gpus, shared_.loop.Now() + kCommandTimeout});
}

Status Keeper::Resize(JobId job, const wire::ShareTerms& share, const std::vector<int>& paper) {
  const TenantId id = LatestOf(job);
  ManagedTenant* kept = shared_.Find(id);
  if (kept == nullptr) return NotFound("job " + ToString(job) + " has no GPU fraction on this node");
  wire::KeeperAdd terms = kept->record.terms;
  terms.share = share;
  if (!paper.empty()) terms.paper = paper;
  DIVVY_CHECK(shared_.planner.Resize(id, ShareOf(terms), GpuSet::Of(terms.paper)));
  kept->record.terms = terms;
  shared_.Record(*kept);
  if (kept->tenant == nullptr) return {};
  kept->tenant->SetTerms(static_cast<std::uint64_t>(share.memory_request.count()),
                         static_cast<std::uint64_t>(share.memory_limit.count()));
  shared_.JoinGates(*kept);
  return {};
}

}  // namespace divvy::keeper
