#include "keeper/relocations.h"

#include <algorithm>
#include <utility>

#include "base/bytes_text.h"
#include "platform/os/process_tree.h"
#include "sharing/words.h"

namespace divvy::keeper {
namespace {

/// Interval between checks of how much a parking tenant has moved.
constexpr Duration kBetweenLooks = 20ms;
/// No more of these happen between two state reports to the node.
constexpr std::size_t kMostPassages = 8;

Bytes BytesUsed(const Tenant& tenant, unsigned device) { return Bytes(static_cast<std::int64_t>(tenant.Used(device))); }

}  // namespace

Relocations::Relocations(KeeperContext& shared, TenantUse& use, PendingRequests& pending,
                         std::function<void(const sharing::IssuedAction&)> carry_out)
    : shared_(shared),
      use_(use),
      pending_(pending),
      driver_(shared.loop, shared.options.helper, shared.options.directory + "/helpers"),
      carry_out_(std::move(carry_out)) {}

Relocations::~Relocations() {
  for (auto& [id, kept] : shared_.tenants) kept->relocation.reset();
}

void Relocations::Probe() {
  driver_.Probe([this](const DriverAbilities& can) {
    shared_.mechanisms.driver = can;
    shared_.has_probed = true;
    for (auto& [id, kept] : shared_.tenants) {
      use_.SetCannot(*kept);
      if (!kept->returning.empty()) BringBack(*kept);
      for (const sharing::IssuedAction& issued : std::exchange(kept->held_up, {})) carry_out_(issued);
    }
    shared_.is_planner_due = true;
  });
}

void Relocations::CarryOut(ManagedTenant& kept, const sharing::IssuedAction& issued) {
  if (kept.tenant == nullptr) return;
  if (kept.relocation != nullptr || !kept.returning.empty() || !shared_.has_probed) {
    kept.held_up.push_back(issued);
    return;
  }
  if (const auto* move = std::get_if<sharing::Move>(&issued.action))
    Relocate(kept, issued.id, Passage::kMoving, move->to);
  if (std::holds_alternative<sharing::Park>(issued.action)) Relocate(kept, issued.id, Passage::kParking, {});
  if (const auto* wake = std::get_if<sharing::Wake>(&issued.action))
    Relocate(kept, issued.id, Passage::kWaking, wake->to);
}

void Relocations::OnCame(ManagedTenant& kept, Slot slot) {
  TenantProcess& process = kept.tenant->processes().at(slot);
  const auto known = std::find_if(kept.record.processes.begin(), kept.record.processes.end(),
                                  [&process](const RecordedProcess& recorded) {
                                    return recorded.pid == process.pid && recorded.start_ticks == process.start_ticks;
                                  });
  const bool is_away = kept.record.is_parked || kept.record.passage != Passage::kNone || !kept.returning.empty();
  // A recorded process left the GPU together with its tenant. Assume the deepest state; the driver is queried before
  // each step.
  const bool is_known = known != kept.record.processes.end();
  const bool is_leaving = kept.relocation != nullptr && kept.relocation->plan().leaves;
  const bool has_left = is_known && is_away && !is_leaving;
  if (has_left) {
    process.depth = kept.record.uses_driver ? kCheckpointed : kEmptied;
    process.uuids = known->uuids;
  }
  if (kept.relocation != nullptr && (has_left || !is_known)) {
    kept.relocation->OnCame(slot);
    if (!is_known) kept.record.processes.push_back({process.pid, process.start_ticks, process.uuids, {}});
  }
  if (!kept.returning.empty()) BringBack(kept);
  WakeIfWhole(kept);
}

void Relocations::OnGone(ManagedTenant& kept, Slot slot) {
  if (kept.relocation != nullptr) kept.relocation->OnGone(slot);
  use_.RefreshUse(kept);
  if (!kept.returning.empty()) BringBack(kept);
  WakeIfWhole(kept);
  EndLoss(kept);
}

std::string Relocations::WhyNoHostRoom(const ManagedTenant& kept) const {
  const bool is_off = kept.tenant == nullptr || kept.record.is_parked || kept.relocation != nullptr;
  if (is_off || shared_.mechanisms.is_emulated)
    return "";  // The stand-in's GPU memory does not use tenants' host memory.
  const sharing::Tenant* known = shared_.planner.Find(kept.tenant->id());
  if (known == nullptr) return "";
  Bytes needs;
  for (const sharing::Device& device : known->devices) needs += std::max(device.used, Bytes(0));
  if (needs == Bytes(0)) return "";
  Bytes coming;  // Memory that other tenants are moving to the host now.
  for (const auto& [id, other] : shared_.tenants) {
    if (other->relocation != nullptr && other->relocation->plan().leaves)
      coming += Bytes(static_cast<std::int64_t>(other->relocation->plan().bytes));
  }
  if (const auto room = shared_.options.host.Room(); room && *room - coming < needs)
    return "its " + BytesText(needs) + " do not fit in the host's memory";
  for (const auto& [slot, process] : kept.tenant->processes()) {
    if (const auto room = shared_.options.host.RoomOf(process.pid); room && *room < needs)
      return "its " + BytesText(needs) + " do not fit in the job's host memory limit (--memory)";
  }
  return "";
}

void Relocations::Relocate(ManagedTenant& kept, std::uint64_t action, Passage passage,
                           const std::vector<GpuIndex>& to) {
  // The free host memory may have changed since it was last reported to the planner.
  kept.why_no_room = passage == Passage::kWaking ? "" : WhyNoHostRoom(kept);
  use_.SetCannot(kept);
  std::string why = kept.why_no_room;
  if (passage == Passage::kMoving && why.empty()) why = shared_.mechanisms.WhyCannotMove(kept.tenant->Flags());
  if (!why.empty()) {
    shared_.planner.OnDone(action, {.outcome = sharing::Outcome::kUnchanged, .bytes = {}, .took = {}, .why = why},
                           shared_.loop.Now());
    if (kept.record.terms.is_whole) kept.displacement_failure = why;
    pending_.Fail(kept, passage == Passage::kMoving ? Goal::kThere : Goal::kParked, why);
    shared_.is_planner_due = true;
    return;
  }
  kept.relocation_action = action;
  const std::vector<int> gpus(to.begin(), to.end());
  RelocationPlan plan;
  plan.leaves = passage != Passage::kWaking;
  plan.returns = passage != Passage::kParking;
  plan.from = shared_.UuidsOf(kept.record.gpus);
  plan.to = plan.returns ? shared_.UuidsOf(gpus) : plan.from;
  // A parked tenant wakes by the same method that parked it.
  plan.uses_driver = passage == Passage::kWaking ? kept.record.uses_driver : shared_.mechanisms.uses_driver();
  if (const sharing::Tenant* known = shared_.planner.Find(kept.tenant->id())) {
    for (const sharing::Device& device : known->devices)
      plan.bytes += static_cast<std::uint64_t>(std::max<std::int64_t>(0, device.used.count()));
  }
  StartRelocation(kept, passage, std::move(plan), plan.returns ? gpus : kept.record.gpus);
}

void Relocations::StartRelocation(ManagedTenant& kept, Passage passage, RelocationPlan plan,
                                  const std::vector<int>& to) {
  const TenantId id = kept.tenant->id();
  shared_.LeaveGates(kept);
  kept.tenant->SetAllGates(share::kMoving);
  use_.RefreshUse(kept);
  RecordedTenant& record = kept.record;
  kept.awaits_dialling = false;
  if (plan.leaves) {
    record.processes.clear();
    for (const auto& [slot, process] : kept.tenant->processes())
      record.processes.push_back({process.pid, process.start_ticks, plan.from, {}});
  }
  for (const RecordedProcess& one : record.processes) {
    if (!plan.leaves && IdentifyProcess(static_cast<pid_t>(one.pid)).start_ticks == one.start_ticks)
      plan.left.insert(one.pid);
  }
  for (const auto& [slot, process] : kept.tenant->processes()) {
    // A process that connected after the tenant was parked wakes with it, so it is recorded for a restarted keeper.
    if (!plan.leaves && process.depth == kAtWork)
      record.processes.push_back({process.pid, process.start_ticks, plan.from, {}});
  }
  record.passage = passage;
  record.to = to;
  record.uses_driver = plan.uses_driver;
  record.has_restored = false;
  // The record may hold amounts of memory that an earlier keeper has moved to the host and that this keeper has not
  // measured. They are kept.
  if (plan.leaves) record.parked_bytes.clear();
  record.parked_bytes.resize(kept.tenant->devices().size());
  for (unsigned device = 0; device < kept.tenant->devices().size(); ++device)
    record.parked_bytes[device] = std::max(record.parked_bytes[device], BytesUsed(*kept.tenant, device));
  RelocationHooks hooks;
  hooks.note = [this, &kept](bool is_returning, const std::vector<std::string>& onto) {
    kept.record.has_restored = is_returning;
    if (is_returning) {
      for (unsigned device = 0; device < onto.size(); ++device) {
        const auto gpu = std::find_if(shared_.gpus.begin(), shared_.gpus.end(),
                                      [&](const auto& one) { return one.second.uuid == onto[device]; });
        if (gpu == shared_.gpus.end()) continue;
        kept.tenant->SetPlace(device, onto[device], gpu->first);
        // A restarted keeper would move the tenant to this GPU, even if the present move is being undone.
        kept.record.to[device] = gpu->first;
      }
    }
    return shared_.TryToRecord(kept);
  };
  hooks.ended = [this, id, passage, to](const sharing::Done& done) {
    // Called from the loop later, so that the Relocation object is not destroyed by its own callback.
    shared_.loop.At(shared_.loop.Now(), [this, id, passage, to, done] { EndRelocation(id, passage, to, done); });
  };
  kept.relocation =
      std::make_unique<Relocation>(shared_.loop, *kept.tenant, driver_, std::move(plan), std::move(hooks));
  kept.relocation->Start();
  if (passage == Passage::kParking) WatchLeaving(id);
}

void Relocations::SetPlaces(ManagedTenant& kept) {
  const std::vector<std::string> uuids = shared_.UuidsOf(kept.record.gpus);
  for (unsigned device = 0; device < kept.tenant->devices().size(); ++device)
    kept.tenant->SetPlace(device, uuids[device], static_cast<GpuIndex>(kept.record.gpus[device]));
}

void Relocations::WatchLeaving(TenantId id) {
  const ManagedTenant* kept = shared_.Find(id);
  if (kept == nullptr || kept->relocation == nullptr || kept->record.passage != Passage::kParking) return;
  for (unsigned device = 0; device < kept->tenant->devices().size(); ++device)
    shared_.planner.SetLeft(id, device, BytesUsed(*kept->tenant, device));
  shared_.is_planner_due = true;
  shared_.loop.After(kBetweenLooks, [this, id] { WatchLeaving(id); });
}

void Relocations::EndRelocation(TenantId id, Passage passage, const std::vector<int>& to, sharing::Done done) {
  ManagedTenant* kept = shared_.Find(id);
  if (kept == nullptr || kept->relocation == nullptr) return;
  kept->relocation.reset();
  kept->relocated = shared_.loop.Now();
  RecordedTenant& record = kept->record;
  using sharing::Outcome;
  const bool arrives = done.outcome == Outcome::kDone && passage != Passage::kParking;
  if (done.outcome == Outcome::kUnchanged && passage == Passage::kWaking) done.outcome = Outcome::kParked;
  record.is_parked =
      done.outcome == Outcome::kParked || (done.outcome == Outcome::kDone && passage == Passage::kParking);
  if (arrives) record.gpus = to;
  // The steps of a move update the tenant's shared-memory page. A tenant without processes has no steps, so the page is
  // updated here.
  if (!record.is_parked) SetPlaces(*kept);
  kept->awaits_dialling = record.is_parked && passage == Passage::kWaking && kept->tenant->missing() != 0;
  record.passage = Passage::kNone;
  record.has_restored = false;
  if (arrives && passage == Passage::kMoving) ++moves_;
  if (record.is_parked && passage == Passage::kParking) ++parks_;
  if (done.outcome == Outcome::kDone) kept->trouble.clear();
  // Processes may have allocated memory while their GPU calls were being stopped. It was moved too, so it counts.
  for (unsigned device = 0; device < kept->tenant->devices().size(); ++device) {
    const Bytes needed = record.is_parked ? record.parked_bytes[device] : Bytes(0);
    shared_.planner.SetUse(id, device, std::max(needed, BytesUsed(*kept->tenant, device)));
  }
  if (kept->relocation_action != 0) {
    shared_.planner.OnDone(kept->relocation_action, done, shared_.loop.Now());
  } else if (record.is_parked) {
    // After a restart, the tenant could not be brought back to its GPU, but the planner counted it there.
    const sharing::Tenant* known = shared_.planner.Find(id);
    if (known != nullptr) {
      sharing::Tenant parked = *known;
      shared_.planner.RemoveTenant(id);
      parked.state = sharing::State::kParked;
      parked.parked_by = sharing::ParkedBy::kPlanner;
      parked.wants_to_wake = true;
      if (const Status loaded = shared_.planner.LoadTenant(parked); !loaded) kept->trouble = loaded.error().message;
    }
  }
  kept->relocation_action = 0;
  if (!done.why.empty()) kept->trouble = done.why;
  record.is_lost = done.outcome == Outcome::kLost;
  if (record.is_lost) kept->trouble = std::string(kWhyLost) + ": " + done.why;
  if (const sharing::Tenant* known = shared_.planner.Find(id)) {
    record.parked_by = static_cast<int>(known->parked_by);
    record.is_displaced = known->is_displaced;
    record.parked_bytes.clear();
    for (const sharing::Device& device : known->devices) record.parked_bytes.push_back(device.used);
  }
  shared_.Record(*kept);
  if (record.is_lost) {
    // The tenant's GPU memory is damaged, so further GPU work would give wrong results. From now on its CUDA calls
    // fail, which usually ends its processes and frees the GPU.
    kept->tenant->SetAllGates(share::kLost);
    pending_.Fail(*kept, std::nullopt, kept->trouble);
    EndLoss(*kept);
  } else if (record.is_parked) {
    kept->tenant->SetAllGates(share::kParked);
  } else {
    shared_.JoinGates(*kept);
    use_.RefreshUse(*kept);
  }
  if (done.outcome != Outcome::kDone) {
    if (record.terms.is_whole) kept->displacement_failure = done.why;
    const Goal goal = passage == Passage::kParking  ? Goal::kParked
                      : passage == Passage::kMoving ? Goal::kThere
                                                    : Goal::kHere;
    pending_.Fail(*kept, goal, done.why);
  }
  const bool stayed = done.outcome == Outcome::kUnchanged && passage != Passage::kWaking;
  if (!stayed) NotePassage(*kept);
  shared_.is_planner_due = true;
  for (const sharing::IssuedAction& issued : std::exchange(kept->held_up, {})) carry_out_(issued);
}

void Relocations::NoteDisplacement(ManagedTenant& kept) {
  const sharing::Tenant* known = shared_.planner.Find(kept.id());
  if (known == nullptr || kept.record.is_displaced == known->is_displaced) return;
  // The planner gave up parking the tenant before anything was moved.
  if (!known->is_displaced && kept.displacement_failure.empty())
    kept.displacement_failure = shared_.planner.WhyKeepsGpu(kept.id());
  kept.record.is_displaced = known->is_displaced;
  shared_.Record(kept);
}

void Relocations::NotePassage(ManagedTenant& kept) const {
  const sharing::Tenant* known = shared_.planner.Find(kept.id());
  if (known == nullptr) return;
  wire::KeptPassage passage{shared_.loop.Now(), kept.record.is_parked, kept.record.gpus, {}};
  if (passage.is_parked || known->is_lost) passage.words = sharing::Remarks(*known, shared_.loop.Now());
  if (kept.passages.size() == kMostPassages) kept.passages.erase(kept.passages.begin());
  kept.passages.push_back(std::move(passage));
}

// The damaged memory ended with the processes. Processes that the job starts now are placed like any others.
void Relocations::EndLoss(ManagedTenant& kept) {
  if (!kept.record.is_lost || kept.relocation != nullptr) return;
  if (!kept.tenant->processes().empty() || kept.tenant->missing() != 0) return;
  const TenantId id = kept.tenant->id();
  kept.record.is_lost = false;
  kept.record.is_parked = true;
  kept.record.parked_by = static_cast<int>(sharing::ParkedBy::kOnItsWay);
  kept.record.parked_bytes.assign(kept.tenant->devices().size(), Bytes(0));
  kept.record.processes.clear();
  shared_.Record(kept);
  kept.trouble.clear();
  kept.tenant->SetAllGates(share::kParked);
  shared_.planner.OnLostEnded(id, shared_.loop.Now());
  shared_.is_planner_due = true;
}

void Relocations::BringBack(ManagedTenant& kept) {
  if (kept.relocation != nullptr || !shared_.has_probed) return;
  std::set<std::int64_t> there;
  for (const auto& [slot, process] : kept.tenant->processes()) there.insert(process.pid);
  const bool is_complete = kept.tenant->missing() == 0 ||
                           std::includes(there.begin(), there.end(), kept.returning.begin(), kept.returning.end());
  if (!is_complete) return;
  kept.returning.clear();
  RelocationPlan plan;
  plan.returns = true;
  plan.from = plan.to = shared_.UuidsOf(kept.record.gpus);
  plan.uses_driver = kept.record.uses_driver;
  for (const Bytes bytes : kept.record.parked_bytes) plan.bytes += static_cast<std::uint64_t>(bytes.count());
  kept.relocation_action = 0;
  StartRelocation(kept, Passage::kWaking, std::move(plan), kept.record.gpus);
}

void Relocations::WakeIfWhole(ManagedTenant& kept) {
  if (!kept.awaits_dialling || kept.tenant->missing() != 0) return;
  kept.awaits_dialling = false;
  [[maybe_unused]] const Status asked = shared_.planner.WakeByUser(kept.tenant->id());
  shared_.is_planner_due = true;
}

}  // namespace divvy::keeper
