// Parking, waking and moving of tenants.
#include <algorithm>
#include <utility>

#include "base/bytes_text.h"
#include "keeper/keeper.h"
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

std::vector<std::string> Keeper::UuidsOf(const std::vector<int>& gpus) const {
  std::vector<std::string> uuids;
  for (const int gpu : gpus) {
    const auto found = gpus_.find(static_cast<GpuIndex>(gpu));
    uuids.push_back(found == gpus_.end() ? std::string() : found->second.uuid);
  }
  return uuids;
}

Status Keeper::TryToRecord(Kept& kept) {
  if (is_abandoned_) return {};  // There is no directory to write to and no successor to read it.
  // Processes that left with the tenant stay recorded until it is back, even before they have dialled a new keeper.
  for (RecordedProcess& recorded : kept.record.processes) {
    if (kept.tenant == nullptr) break;
    for (const auto& [slot, process] : kept.tenant->processes()) {
      if (process.pid != recorded.pid) continue;
      if (process.depth != kAtWork) recorded.uuids = process.uuids;
      recorded.away.clear();
      for (unsigned device = 0; device < kept.tenant->devices().size(); ++device)
        recorded.away.emplace_back(static_cast<std::int64_t>(process.away[device]));
    }
  }
  Status written = records_.Write(kept.record);
  kept.is_recorded = static_cast<bool>(written);
  if (!written) kept.trouble = written.error().message;
  return written;
}

void Keeper::JoinGates(Kept& kept) {
  // If the tenant is away, its gates open when it is back.
  if (kept.tenant == nullptr || kept.is_away()) return;
  const sharing::Tenant* known = ledger_.Find(kept.tenant->id());
  if (known == nullptr || kept.record.is_lost) return;
  for (unsigned device = 0; device < kept.tenant->devices().size(); ++device) {
    if (kept.record.terms.uses_mps) {
      kept.tenant->SetGate(device, share::kOpen);
    } else {
      gates_.Join(*kept.tenant, device, static_cast<GpuIndex>(kept.record.gpus[device]), known->share);
    }
  }
}

void Keeper::LeaveGates(Kept& kept) {
  for (unsigned device = 0; device < kept.tenant->devices().size(); ++device) gates_.Leave(*kept.tenant, device);
}

// Even a move between GPUs passes through host memory.
std::string Keeper::WhyNoHostRoom(const Kept& kept) const {
  const bool is_off = kept.tenant == nullptr || kept.record.is_parked || kept.relocation != nullptr;
  if (is_off || mechanisms_.is_emulated) return "";  // The stand-in's GPU memory does not use tenants' host memory.
  const sharing::Tenant* known = ledger_.Find(kept.tenant->id());
  if (known == nullptr) return "";
  Bytes needs;
  for (const sharing::Device& device : known->devices) needs += std::max(device.used, Bytes(0));
  if (needs == Bytes(0)) return "";
  Bytes coming;  // Memory that other tenants are moving to the host now.
  for (const auto& [id, other] : kept_) {
    if (other->relocation != nullptr && other->relocation->plan().leaves)
      coming += Bytes(static_cast<std::int64_t>(other->relocation->plan().bytes));
  }
  if (const auto room = options_.host.Room(); room && *room - coming < needs)
    return "its " + BytesText(needs) + " do not fit in the host's memory";
  for (const auto& [slot, process] : kept.tenant->processes()) {
    if (const auto room = options_.host.RoomOf(process.pid); room && *room < needs)
      return "its " + BytesText(needs) + " do not fit in the job's host memory limit (--memory)";
  }
  return "";
}

void Keeper::Relocate(Kept& kept, std::uint64_t order, Passage passage, const std::vector<GpuIndex>& to) {
  // This may have changed since the ledger was updated.
  kept.why_no_room = passage == Passage::kWaking ? "" : WhyNoHostRoom(kept);
  SetCannot(kept);
  std::string why = kept.why_no_room;
  if (passage == Passage::kMoving && why.empty()) why = mechanisms_.WhyCannotMove(kept.tenant->Flags());
  if (!why.empty()) {
    ledger_.OnDone(order, {.outcome = sharing::Outcome::kUnchanged, .bytes = {}, .took = {}, .why = why}, loop_->Now());
    FailPending(kept, passage == Passage::kMoving ? Goal::kThere : Goal::kParked, why);
    is_ledger_changed_ = true;
    return;
  }
  kept.relocation_order = order;
  const std::vector<int> gpus(to.begin(), to.end());
  RelocationPlan plan;
  plan.leaves = passage != Passage::kWaking;
  plan.returns = passage != Passage::kParking;
  plan.from = UuidsOf(kept.record.gpus);
  plan.to = plan.returns ? UuidsOf(gpus) : plan.from;
  // A parked tenant wakes by the same method that parked it.
  plan.uses_driver = passage == Passage::kWaking ? kept.record.uses_driver : mechanisms_.uses_driver();
  if (const sharing::Tenant* known = ledger_.Find(kept.tenant->id())) {
    for (const sharing::Device& device : known->devices)
      plan.bytes += static_cast<std::uint64_t>(std::max<std::int64_t>(0, device.used.count()));
  }
  StartRelocation(kept, passage, std::move(plan), plan.returns ? gpus : kept.record.gpus);
}

void Keeper::StartRelocation(Kept& kept, Passage passage, RelocationPlan plan, const std::vector<int>& to) {
  const TenantId id = kept.tenant->id();
  LeaveGates(kept);
  kept.tenant->SetAllGates(share::kMoving);
  RefreshUse(kept);
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
    // A process that connected later takes part too, and a successor must know it.
    if (!plan.leaves && process.depth == kAtWork)
      record.processes.push_back({process.pid, process.start_ticks, plan.from, {}});
  }
  record.passage = passage;
  record.to = to;
  record.uses_driver = plan.uses_driver;
  record.has_restored = false;
  // This keeper may not know everything that left under an earlier one.
  if (plan.leaves) record.parked_bytes.clear();
  record.parked_bytes.resize(kept.tenant->devices().size());
  for (unsigned device = 0; device < kept.tenant->devices().size(); ++device)
    record.parked_bytes[device] = std::max(record.parked_bytes[device], BytesUsed(*kept.tenant, device));
  RelocationHooks hooks;
  hooks.note = [this, &kept](bool is_returning, const std::vector<std::string>& onto) {
    kept.record.has_restored = is_returning;
    if (is_returning) {
      for (unsigned device = 0; device < onto.size(); ++device) {
        const auto gpu =
            std::find_if(gpus_.begin(), gpus_.end(), [&](const auto& one) { return one.second.uuid == onto[device]; });
        if (gpu == gpus_.end()) continue;
        kept.tenant->SetPlace(device, onto[device], gpu->first);
        // A successor continues with this target, even if the relocation is being undone.
        kept.record.to[device] = gpu->first;
      }
    }
    return TryToRecord(kept);
  };
  hooks.ended = [this, id, passage, to](const sharing::Done& done) {
    // Deferred to the loop, so that the relocation is not destroyed while it runs.
    loop_->At(loop_->Now(), [this, id, passage, to, done] { EndRelocation(id, passage, to, done); });
  };
  kept.relocation = std::make_unique<Relocation>(*loop_, *kept.tenant, driver_, std::move(plan), std::move(hooks));
  kept.relocation->Start();
  if (passage == Passage::kParking) WatchLeaving(id);
}

void Keeper::SetPlaces(Kept& kept) {
  const std::vector<std::string> uuids = UuidsOf(kept.record.gpus);
  for (unsigned device = 0; device < kept.tenant->devices().size(); ++device)
    kept.tenant->SetPlace(device, uuids[device], static_cast<GpuIndex>(kept.record.gpus[device]));
}

void Keeper::WatchLeaving(TenantId id) {
  const Kept* kept = Find(id);
  if (kept == nullptr || kept->relocation == nullptr || kept->record.passage != Passage::kParking) return;
  for (unsigned device = 0; device < kept->tenant->devices().size(); ++device)
    ledger_.SetLeft(id, device, BytesUsed(*kept->tenant, device));
  is_ledger_changed_ = true;
  loop_->After(kBetweenLooks, [this, id] { WatchLeaving(id); });
}

void Keeper::EndRelocation(TenantId id, Passage passage, const std::vector<int>& to, sharing::Done done) {
  Kept* kept = Find(id);
  if (kept == nullptr || kept->relocation == nullptr) return;
  kept->relocation.reset();
  kept->relocated = loop_->Now();
  RecordedTenant& record = kept->record;
  using sharing::Outcome;
  const bool arrives = done.outcome == Outcome::kDone && passage != Passage::kParking;
  if (done.outcome == Outcome::kUnchanged && passage == Passage::kWaking) done.outcome = Outcome::kParked;
  record.is_parked =
      done.outcome == Outcome::kParked || (done.outcome == Outcome::kDone && passage == Passage::kParking);
  if (arrives) record.gpus = to;
  // A tenant without processes has passed no step that would have updated its page.
  if (!record.is_parked) SetPlaces(*kept);
  kept->awaits_dialling = record.is_parked && passage == Passage::kWaking && kept->tenant->missing() != 0;
  record.passage = Passage::kNone;
  record.has_restored = false;
  if (arrives && passage == Passage::kMoving) ++moves_;
  if (record.is_parked && passage == Passage::kParking) ++parks_;
  if (done.outcome == Outcome::kDone) kept->trouble.clear();
  // Memory taken while the gates were closing has left too, and comes back.
  for (unsigned device = 0; device < kept->tenant->devices().size(); ++device) {
    const Bytes needed = record.is_parked ? record.parked_bytes[device] : Bytes(0);
    ledger_.SetUse(id, device, std::max(needed, BytesUsed(*kept->tenant, device)));
  }
  if (kept->relocation_order != 0) {
    ledger_.OnDone(kept->relocation_order, done, loop_->Now());
  } else if (record.is_parked) {
    // A recovery failed to bring it back, but the ledger assumed that it is on its GPU.
    const sharing::Tenant* known = ledger_.Find(id);
    if (known != nullptr) {
      sharing::Tenant parked = *known;
      ledger_.RemoveTenant(id);
      parked.state = sharing::State::kParked;
      parked.parked_by = sharing::ParkedBy::kLedger;
      parked.wants_to_wake = true;
      if (const Status loaded = ledger_.LoadTenant(parked); !loaded) kept->trouble = loaded.error().message;
    }
  }
  kept->relocation_order = 0;
  if (!done.why.empty()) kept->trouble = done.why;
  record.is_lost = done.outcome == Outcome::kLost;
  if (record.is_lost) kept->trouble = std::string(kWhyLost) + ": " + done.why;
  if (const sharing::Tenant* known = ledger_.Find(id)) {
    record.parked_by = static_cast<int>(known->parked_by);
    record.parked_bytes.clear();
    for (const sharing::Device& device : known->devices) record.parked_bytes.push_back(device.used);
  }
  Record(*kept);
  if (record.is_lost) {
    // Its GPU memory is damaged, so further GPU work would be wrong. Its calls fail, which usually ends its processes
    // and frees the GPU.
    kept->tenant->SetAllGates(share::kLost);
    FailPending(*kept, std::nullopt, kept->trouble);
    EndLoss(*kept);
  } else if (record.is_parked) {
    kept->tenant->SetAllGates(share::kParked);
  } else {
    JoinGates(*kept);
    RefreshUse(*kept);
  }
  if (done.outcome != Outcome::kDone) {
    const Goal goal = passage == Passage::kParking  ? Goal::kParked
                      : passage == Passage::kMoving ? Goal::kThere
                                                    : Goal::kHere;
    FailPending(*kept, goal, done.why);
  }
  const bool stayed = done.outcome == Outcome::kUnchanged && passage != Passage::kWaking;
  if (!stayed) NotePassage(*kept);
  is_ledger_changed_ = true;
  for (const sharing::Order& order : std::exchange(kept->held_up, {})) CarryOut(order);
}

void Keeper::NotePassage(Kept& kept) const {
  const sharing::Tenant* known = ledger_.Find({kept.record.terms.job.value(), kept.record.terms.attempt});
  if (known == nullptr) return;
  wire::KeptPassage passage{loop_->Now(), kept.record.is_parked, kept.record.gpus, {}};
  if (passage.is_parked || known->is_lost) passage.words = sharing::Remarks(*known, loop_->Now());
  if (kept.passages.size() == kMostPassages) kept.passages.erase(kept.passages.begin());
  kept.passages.push_back(std::move(passage));
}

// The damaged memory ended with the processes. Processes that the job starts now are placed like any others.
void Keeper::EndLoss(Kept& kept) {
  if (!kept.record.is_lost || kept.relocation != nullptr) return;
  if (!kept.tenant->processes().empty() || kept.tenant->missing() != 0) return;
  const TenantId id = kept.tenant->id();
  kept.record.is_lost = false;
  kept.record.is_parked = true;
  kept.record.parked_by = static_cast<int>(sharing::ParkedBy::kOnItsWay);
  kept.record.parked_bytes.assign(kept.tenant->devices().size(), Bytes(0));
  kept.record.processes.clear();
  Record(kept);
  kept.trouble.clear();
  kept.tenant->SetAllGates(share::kParked);
  ledger_.OnLostEnded(id, loop_->Now());
  is_ledger_changed_ = true;
}

// No room is being made for it now, and it is unknown when there will be some.
std::string Keeper::WhyNotBack(const sharing::Tenant& tenant) const {
  if (tenant.state != sharing::State::kParked || !tenant.wants_to_wake || ledger_.IsAtWork()) return "";
  const std::string why = ledger_.WhyWaits(tenant.id);
  return why.empty() ? ""
                     : sharing::TenantText(tenant.id) + " " + (why.starts_with("waits") ? "" : "is not back: ") + why +
                           "; it returns automatically when possible";
}

void Keeper::SettlePending(Kept& kept) {
  if (kept.pending.empty() || kept.relocation != nullptr) return;
  const TenantId id{kept.record.terms.job.value(), kept.record.terms.attempt};
  const sharing::Tenant* known = ledger_.Find(id);
  if (known == nullptr) return;
  const bool is_here = known->state == sharing::State::kHere && kept.returning.empty();
  std::erase_if(kept.pending, [&](const Pending& pending) {
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
          door_->Answer(pending.id, FailedPrecondition(why));
          return true;
        }
        break;
      case Goal::kThere:
        is_so = is_here;
        for (std::size_t i = 0; i < pending.to.size() && i < known->devices.size(); ++i)
          is_so = is_so && known->devices[i].gpu == pending.to[i];
        break;
    }
    if (is_so) door_->Answer(pending.id, {});
    return is_so;
  });
}

void Keeper::FailPending(Kept& kept, std::optional<Goal> goal, const std::string& why) {
  std::erase_if(kept.pending, [&](const Pending& pending) {
    if (goal && pending.goal != *goal) return false;
    door_->Answer(pending.id, FailedPrecondition(why));
    return true;
  });
}

void Keeper::GiveUpPending(Kept& kept) {
  const Time now = loop_->Now();
  std::erase_if(kept.pending, [&](const Pending& pending) {
    if (now < pending.until) return false;
    const std::string why = ledger_.WhyWaits({kept.record.terms.job.value(), kept.record.terms.attempt});
    door_->Answer(pending.id, FailedPrecondition(why.empty() ? "it has not finished yet; see divvy gpus" : why));
    return true;
  });
}

}  // namespace divvy::keeper
