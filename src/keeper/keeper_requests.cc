// Requests of the node.
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "keeper/keeper.h"
#include "platform/gpu/share_library.h"
#include "sharing/holds.h"

namespace divvy::keeper {
namespace {

/// A user's command is answered by then, if necessary with the reason why it waits.
constexpr Duration kCommandPatience = 60s;

sharing::Share ShareOf(const wire::KeeperAdd& terms) {
  return {.memory_request = terms.share.memory_request,
          .memory_limit = terms.share.memory_limit,
          .compute_request = terms.share.compute_request,
          .compute_limit = terms.share.compute_limit,
          .idle_park = terms.idle_park,
          .is_interactive = terms.is_interactive,
          .can_be_requeued = terms.may_requeue};
}

}  // namespace

void Keeper::OnRequest(const wire::KeeperRequest& request) {
  const std::uint64_t id = request.id;
  is_ledger_changed_ = true;
  if (request.hello) return OnHello(id, *request.hello);
  if (request.add) return OnAdd(id, *request.add);
  if (request.take_whole) return OnTakeWhole(id, *request.take_whole);
  if (request.park) return OnCommand(id, request.park->job, Goal::kParked, {});
  if (request.wake) return OnCommand(id, request.wake->job, Goal::kHere, {});
  if (request.move) return OnCommand(id, request.move->job, Goal::kThere, request.move->to);
  if (request.resize) {
    const Status resized = Resize(request.resize->job, request.resize->share, request.resize->paper);
    SettleLedger();  // The resize is in effect when it is answered.
    return door_->Answer(id, resized);
  }
  if (request.remove) {
    OnRemove(*request.remove);
  } else if (request.give_whole) {
    const JobId job = request.give_whole->job;
    std::erase_if(postponed_takes_, [&](const auto& waiting) {
      if (waiting.second.job != job) return false;
      door_->Answer(waiting.first, FailedPrecondition("the job has released its GPUs"));
      return true;
    });
    ReleaseExclusive(job);
    if (const auto take = takes_.find(job.value()); take != takes_.end()) {
      door_->Answer(take->second.request, FailedPrecondition("the job has released its GPUs"));
      takes_.erase(take);
    }
    RecordNode();
  } else if (request.gpus) {
    SetNode(request.gpus->gpus);
  } else if (request.processes) {
    processes_.clear();
    for (const wire::KeeperProcess& process : request.processes->processes) processes_[process.pid] = process;
  } else if (request.leave) {
    may_end_ = request.leave->is_final;
  } else if (request.state) {
    for (auto& [tenant, kept] : kept_) RefreshUse(*kept);
    wire::KeeperLine line;
    line.answer.emplace().id = id;
    line.answer->state = State();
    return door_->Say(line);
  } else {
    return door_->Answer(
        id, InvalidArgument("this keeper does not know the request; it may be an older release than the daemon"));
  }
  door_->Answer(id, {});
}

void Keeper::ReleaseExclusive(JobId job) {
  ledger_.ReleaseExclusive(job.value());
  std::erase_if(node_.whole_jobs, [job](const RecordedWhole& whole) { return whole.job == job; });
}

void Keeper::OnHello(std::uint64_t id, const wire::KeeperHello& hello) {
  may_end_ = false;
  // Waiting requests belong to an earlier connection.
  for (auto& [key, kept] : kept_) kept->pending.clear();
  takes_.clear();
  // Whole jobs that ended while no node was connected.
  std::vector<JobId> over;
  for (const RecordedWhole& whole : node_.whole_jobs) {
    if (std::ranges::find(hello.whole_jobs, whole.job) == hello.whole_jobs.end()) over.push_back(whole.job);
  }
  for (const JobId job : over) ReleaseExclusive(job);
  postponed_takes_.clear();
  for (auto& [tenant, sliced] : sliced_) sliced.pending.clear();
  may_switch_mig_ = hello.may_switch_mig;
  node_version_ = hello.version;
  SetNode(hello.gpus);
  if (!has_taken_up_) {
    TakeUpWholes(hello);
    TakeUpTenants();
  }
  wire::KeeperLine line;
  line.answer.emplace().id = id;
  wire::KeeperWelcome& welcome = line.answer->hello.emplace();
  welcome.version = wire::kKeeperVersion;
  welcome.pid = ::getpid();
  welcome.mechanisms = mechanisms_.List();
  door_->Say(line);
  shown_.clear();
}

void Keeper::OnAdd(std::uint64_t id, const wire::KeeperAdd& add) {
  const TenantId tenant{add.job.value(), add.attempt};
  const auto refuse = [this, id](Error error) { door_->Answer(id, std::move(error)); };
  if (add.slice.any()) return AddSlice(id, add);
  if (Kept* kept = Find(tenant)) {
    if (const Status resized = Resize(add.job, add.share, add.paper); !resized) return refuse(resized.error());
    kept->record.terms = add;
    Record(*kept);
    kept->pending.push_back({id, Goal::kPlaced, {}});
    return;
  }
  static_assert(share::kMaxDevices == kMostPortionedGpus);
  if (add.paper.empty() || add.paper.size() > share::kMaxDevices)
    return refuse(InvalidArgument("expected GPU fractions of 1 to " + std::to_string(share::kMaxDevices) + " GPUs"));
  if (!add.uses_mps && !mechanisms_.has_interposer)
    return refuse(FailedPrecondition("GPU sharing is unavailable: libdivvy_cuda.so is missing"));
  sharing::Tenant fresh;
  fresh.id = tenant;
  fresh.share = ShareOf(add);
  for (const int paper : add.paper) {
    if (paper < 0 || paper >= GpuSet::kCapacity) return refuse(NotFound("there is no GPU " + std::to_string(paper)));
    fresh.devices.emplace_back().paper = static_cast<GpuIndex>(paper);
  }
  if (add.uses_mps) {
    fresh.why_cannot_move = fresh.why_cannot_park = "is a client of MPS";
  } else {
    fresh.why_cannot_move = mechanisms_.WhyCannotMove(0);
    fresh.why_cannot_park = mechanisms_.WhyCannotPark(0);
  }
  if (const Status added = ledger_.AddTenant(fresh); !added) return refuse(added.error());
  auto kept = std::make_unique<Kept>();
  kept->record.terms = add;
  kept->pending.push_back({id, Goal::kPlaced, {}});
  if (const Status recorded = TryToRecord(*kept); !recorded) {
    ledger_.RemoveTenant(tenant);
    return refuse(recorded.error());
  }
  if (const auto trouble = troubles_.find(tenant); trouble != troubles_.end())
    kept->trouble = "its earlier record could not be recovered, and a new one was made: " + trouble->second;
  kept_[tenant] = std::move(kept);
}

void Keeper::AnswerAdded(std::uint64_t id, Kept& kept) {
  wire::KeeperLine line;
  line.answer.emplace().id = id;
  wire::KeeperAdded& added = line.answer->added.emplace();
  added.gpus = kept.record.gpus;
  added.uuids = UuidsOf(kept.record.gpus);
  for (const int gpu : kept.record.gpus) {
    for (const auto& [index, other] : gpus_) {
      const bool is_kin = other.kind == gpus_.at(static_cast<GpuIndex>(gpu)).kind;
      if (gpu == index || (is_kin && !kept.record.terms.uses_mps)) added.reachable.Insert(index);
    }
  }
  added.folder = kept.tenant->folder();
  added.environment = EnvironmentOf(kept);
  if (kept.mps) {
    const MpsEntry entry = *std::exchange(kept.mps, std::nullopt);
    if (!entry.why_not.empty()) return door_->Answer(id, FailedPrecondition(entry.why_not));
    added.environment.insert(added.environment.end(), entry.environment.begin(), entry.environment.end());
  }
  door_->Say(line);
}

// Returns true once all MPS servers of the tenant have answered. The first call starts them.
bool Keeper::HasEnteredMps(Kept& kept) {
  if (!kept.record.terms.uses_mps) return true;
  if (kept.mps) return kept.mps->awaited == 0;
  const TenantId id = kept.tenant->id();
  const std::vector<int> gpus = kept.record.gpus;
  const std::vector<std::string> uuids = UuidsOf(gpus);
  kept.mps = MpsEntry{};
  kept.mps->awaited = gpus.size();
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    mps_.Join(id, static_cast<GpuIndex>(gpus[i]), uuids[i], ShareOf(kept.record.terms),
              [this, id](const Result<std::vector<std::string>>& entered) {
                Kept* known = Find(id);
                if (known == nullptr || !known->mps) return;
                MpsEntry& entry = *known->mps;
                --entry.awaited;
                if (!entered) entry.why_not = entered.error().message;
                else entry.environment.insert(entry.environment.end(), entered->begin(), entered->end());
                is_ledger_changed_ = true;
              });
  }
  return kept.mps->awaited == 0;
}

std::vector<std::string> Keeper::EnvironmentOf(const Kept& kept) const {
  std::vector<std::string> environment = ShareEnvironment(options_.interposer, kept.tenant->folder(), "");
  if (kept.record.terms.uses_mps) environment.clear();  // MPS enforces the limits, and its clients run concurrently.
  std::string visible;
  for (const std::string& uuid : UuidsOf(kept.record.gpus)) visible += (visible.empty() ? "" : ",") + uuid;
  environment.push_back("CUDA_VISIBLE_DEVICES=" + visible);
  return environment;
}

void Keeper::OnRemove(const wire::KeeperRemove& remove) {
  const TenantId id{remove.job.value(), remove.attempt};
  if (RemoveSlice(id)) return;
  const auto found = kept_.find(id);
  troubles_.erase(id);
  if (found == kept_.end()) return records_.Forget(id);
  Kept& kept = *found->second;
  FailPending(kept, std::nullopt, "the job is over");
  for (const auto& [number, want] : kept.wants) wanted_by_.erase(number);
  std::erase_if(shrinking_, [id](const auto& entry) { return entry.second.tenant == id; });
  std::erase_if(refused_ceilings_, [id](const CeilingOrder& order) { return order.deed.tenant == id; });
  kept.relocation.reset();
  mps_.Leave(id);
  ledger_.RemoveTenant(id);
  if (kept.tenant != nullptr) {
    LeaveGates(kept);
    kept.tenant->RemoveFolder();
  }
  records_.Forget(id);
  kept_.erase(found);
}

/// Returns 0 if no tenant is there, or if one cannot leave.
Duration Keeper::BoundOf(GpuSet gpus) {
  for (auto& [id, kept] : kept_) RefreshUse(*kept);
  const bool is_used = std::ranges::any_of(ledger_.tenants(), [&](const auto& entry) {
    return std::ranges::any_of(gpus.ToVector(),
                               [&](int gpu) { return sharing::Holds(entry.second, static_cast<GpuIndex>(gpu)); });
  });
  const Duration bound = is_used ? ledger_.RepackBound(gpus) : Duration(0);
  return bound == Duration::max() ? Duration(0) : bound;
}

void Keeper::OnTakeWhole(std::uint64_t id, const wire::KeeperTakeWhole& take) {
  if (PostponeTake(id, take)) return;
  std::erase_if(node_.whole_jobs, [&](const RecordedWhole& whole) { return whole.job == take.job; });
  node_.whole_jobs.push_back({take.job, take.gpus});
  RecordNode();
  takes_[take.job.value()] = {id, take.gpus, loop_->Now(), BoundOf(take.gpus)};
  ledger_.AcquireExclusive(take.job.value(), take.gpus);
}

Keeper::TenantId Keeper::LatestOf(JobId job) const {
  TenantId latest;
  for (const auto& [id, kept] : kept_) {
    if (id.job == job.value()) latest = id;
  }
  return latest;
}

void Keeper::OnCommand(std::uint64_t id, JobId job, Goal goal, const std::vector<int>& to) {
  const TenantId tenant = LatestOf(job);
  Kept* kept = Find(tenant);
  if (kept == nullptr || kept->tenant == nullptr)
    return door_->Answer(id, NotFound("job " + ToString(job) + " has no GPU fraction on this node"));
  Pending pending{id, goal, {}, loop_->Now() + kCommandPatience};
  for (const int gpu : to) {
    if (gpu < 0 || gpu >= GpuSet::kCapacity)
      return door_->Answer(id, NotFound("there is no GPU " + std::to_string(gpu)));
    pending.to.push_back(static_cast<GpuIndex>(gpu));
  }
  const Status asked = goal == Goal::kParked ? ledger_.ParkByUser(tenant)
                       : goal == Goal::kHere ? ledger_.WakeByUser(tenant)
                                             : ledger_.MoveByUser(tenant, pending.to);
  if (!asked) return door_->Answer(id, asked);
  kept->pending.push_back(std::move(pending));
}

Status Keeper::Resize(JobId job, const wire::ShareTerms& share, const std::vector<int>& paper) {
  const TenantId id = LatestOf(job);
  Kept* kept = Find(id);
  if (kept == nullptr) return NotFound("job " + ToString(job) + " has no GPU fraction on this node");
  wire::KeeperAdd terms = kept->record.terms;
  terms.share = share;
  if (!paper.empty()) terms.paper = paper;
  DIVVY_CHECK(ledger_.Resize(id, ShareOf(terms), GpuSet::Of(terms.paper)));
  kept->record.terms = terms;
  Record(*kept);
  if (kept->tenant == nullptr) return {};
  kept->tenant->SetTerms(static_cast<std::uint64_t>(share.memory_request.count()),
                         static_cast<std::uint64_t>(share.memory_limit.count()));
  JoinGates(*kept);
  return {};
}

}  // namespace divvy::keeper
