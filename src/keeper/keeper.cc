#include "keeper/keeper.h"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace divvy::keeper {
namespace {

/// Interval between checks of the tenants' counters.
constexpr Duration kTick = 250ms;
/// How long a call that binds its process waits for the tenant to be settled.
constexpr Duration kPinPatience = 30s;

}  // namespace

Keeper::Keeper(KeeperOptions options, std::unique_ptr<EventLoop> loop)
    : options_(std::move(options)),
      loop_(std::move(loop)),
      records_(options_.directory),
      driver_(*loop_, options_.helper, options_.directory + "/helpers"),
      mps_(*loop_, options_.mps_program, options_.directory),
      ledger_(options_.rules),
      gates_(*loop_) {}

Keeper::~Keeper() {
  watch_.reset();
  slices_.reset();
  for (auto& [id, kept] : kept_) kept->relocation.reset();
}

Result<std::unique_ptr<Keeper>> Keeper::Make(KeeperOptions options) {
  DIVVY_TRY(std::unique_ptr<EventLoop> loop, EventLoop::Make());
  std::unique_ptr<Keeper> keeper(new Keeper(std::move(options), std::move(loop)));
  Keeper* raw = keeper.get();
  DIVVY_TRY(keeper->door_, NodeDoor::Open(*raw->loop_, raw->options_.directory, raw->options_.node_uid,
                                          [raw](const wire::KeeperRequest& request) { raw->OnRequest(request); }));
  keeper->mechanisms_.is_emulated = !raw->options_.cuda.empty();
  keeper->mechanisms_.has_interposer = !raw->options_.interposer.empty();
  keeper->mechanisms_.mps_program = raw->options_.mps_program;
  keeper->mechanisms_.why_no_slices = "not checked yet";
  keeper->slices_ =
      std::make_unique<Slices>(*raw->loop_, raw->options_.directory, raw->options_.nvml, raw->SliceEvents());
  keeper->watch_ = std::make_unique<GpuWatch>(*raw->loop_, raw->options_.nvml,
                                              [raw](const std::vector<GpuSight>& sights) { raw->OnSights(sights); });
  DIVVY_CHECK(keeper->Recover());
  raw->driver_.Probe([raw](const DriverAbilities& can) {
    raw->mechanisms_.driver = can;
    raw->has_probed_ = true;
    for (auto& [id, kept] : raw->kept_) {
      raw->SetCannot(*kept);
      if (!kept->returning.empty()) raw->BringBack(*kept);
      for (const sharing::Order& order : std::exchange(kept->held_up, {})) raw->CarryOut(order);
    }
    raw->is_ledger_changed_ = true;
  });
  return keeper;
}

void Keeper::Run() {
  needed_at_ = loop_->Now();
  OnTick();
  loop_->Run([this] { AfterEach(); });
}

void Keeper::Stop() {
  loop_->Post([this] { loop_->Stop(); });
}

Keeper::Kept* Keeper::Find(TenantId id) {
  const auto found = kept_.find(id);
  return found == kept_.end() ? nullptr : found->second.get();
}

void Keeper::AfterEach() {
  for (auto& [id, kept] : kept_) {
    if (kept->tenant != nullptr) kept->tenant->BeginTurn();
  }
  gates_.Settle();
  if (is_ledger_changed_) {
    SettleLedger();
    gates_.Settle();
  }
}

void Keeper::SettleLedger() {
  for (auto& [id, kept] : kept_) {
    RefreshUse(*kept);
    // Lending depends on what the page says now, not at the last tick.
    if (!kept->wants.empty()) SetCannot(*kept);
  }
  // Orders that end immediately are new facts.
  for (int round = 0; is_ledger_changed_ && round < 64; ++round) {
    is_ledger_changed_ = false;
    std::vector<sharing::Order> orders = ledger_.Decide(loop_->Now());
    // Place orders first: a tenant needs its page before it gets a ceiling.
    std::stable_partition(orders.begin(), orders.end(), [](const sharing::Order& order) {
      return std::holds_alternative<sharing::Place>(order.deed);
    });
    for (const sharing::Order& order : orders) CarryOut(order);
  }
  for (auto& [id, kept] : kept_) SettlePending(*kept);
  if (ledger_alarm_) loop_->Cancel(*ledger_alarm_);
  ledger_alarm_.reset();
  const Time next = ledger_.next_decision();
  if (next != kNever) {
    // Never immediately again: a rule that asks for the present moment runs slightly later.
    ledger_alarm_ = loop_->At(std::max(next, loop_->Now() + 1ms), [this] { is_ledger_changed_ = true; });
  }
  ShowState();
}

TenantEvents Keeper::EventsOf(TenantId id) {
  return {[this, id](Slot slot) { OnCame(id, slot); },
          [this, id](Slot slot, const share::Message& message) { OnSaid(id, slot, message); },
          [this, id](Slot slot) { OnGone(id, slot); }};
}

void Keeper::OnCame(TenantId id, Slot slot) {
  Kept* kept = Find(id);
  if (kept == nullptr || kept->tenant == nullptr) return;
  TenantProcess& process = kept->tenant->processes().at(slot);
  const auto known = std::find_if(kept->record.processes.begin(), kept->record.processes.end(),
                                  [&process](const RecordedProcess& recorded) {
                                    return recorded.pid == process.pid && recorded.start_ticks == process.start_ticks;
                                  });
  const bool is_away = kept->record.is_parked || kept->record.passage != Passage::kNone || !kept->returning.empty();
  // A recorded process left the GPU together with its tenant. Assume the deepest state; the driver is queried before
  // each step.
  const bool is_known = known != kept->record.processes.end();
  const bool is_leaving = kept->relocation != nullptr && kept->relocation->plan().leaves;
  const bool has_left = is_known && is_away && !is_leaving;
  if (has_left) {
    process.depth = kept->record.uses_driver ? kCheckpointed : kEmptied;
    process.uuids = known->uuids;
  }
  if (kept->relocation != nullptr && (has_left || !is_known)) {
    kept->relocation->OnCame(slot);
    if (!is_known) kept->record.processes.push_back({process.pid, process.start_ticks, process.uuids, {}});
  }
  if (!kept->returning.empty()) BringBack(*kept);
  WakeIfWhole(*kept);
  is_ledger_changed_ = true;
}

void Keeper::WakeIfWhole(Kept& kept) {
  if (!kept.awaits_dialling || kept.tenant->missing() != 0) return;
  kept.awaits_dialling = false;
  [[maybe_unused]] const Status asked = ledger_.WakeByUser(kept.tenant->id());
  is_ledger_changed_ = true;
}

void Keeper::OnGone(TenantId id, Slot slot) {
  Kept* kept = Find(id);
  if (kept == nullptr || kept->tenant == nullptr) return;
  for (auto want = kept->wants.begin(); want != kept->wants.end();) {
    if (want->second.slot != slot) {
      ++want;
      continue;
    }
    ledger_.ForgetWant(id, want->first);
    wanted_by_.erase(want->first);
    want = kept->wants.erase(want);
  }
  kept->launches.erase(slot);
  for (auto& [number, shrinking] : shrinking_) {
    if (shrinking.tenant == id) shrinking.awaited.erase(slot);
  }
  gates_.OnGone(*kept->tenant, slot);
  if (kept->relocation != nullptr) kept->relocation->OnGone(slot);
  RefreshUse(*kept);
  if (!kept->returning.empty()) BringBack(*kept);
  WakeIfWhole(*kept);
  EndLoss(*kept);
}

void Keeper::OnSaid(TenantId id, Slot slot, const share::Message& message) {
  Kept* kept = Find(id);
  if (kept == nullptr || kept->tenant == nullptr) return;
  switch (message.word) {
    case share::Word::kWant:
      return OnWant(*kept, slot, message);
    case share::Word::kDrained:
      return gates_.OnDrained(*kept->tenant, message.device, slot, message.id);
    case share::Word::kYield:
      return gates_.OnYield(*kept->tenant, message.device, slot);
    case share::Word::kAsk:
      return gates_.OnAsk(*kept->tenant, message.device, slot);
    case share::Word::kWake:
      ledger_.WantWake(id);
      is_ledger_changed_ = true;
      return;
    case share::Word::kPin:
      return OnPin(*kept, slot, message);
    case share::Word::kDone: {
      const auto shrinking = shrinking_.find(message.id);
      if (shrinking != shrinking_.end() && shrinking->second.tenant == id) {
        shrinking->second.awaited.erase(slot);
        if (shrinking->second.awaited.empty()) EndShrink(message.id);
      } else if (kept->relocation != nullptr) {
        kept->relocation->OnDone(slot, message);
      }
      return;
    }
    default:
      return kept->tenant->Drop(slot);  // Not a message that a process may send.
  }
}

// A process has few threads that wait for an answer. Requests beyond the limit are denied, so that none is forgotten.
std::optional<std::uint64_t> Keeper::NumberFor(Kept& kept, Slot slot, const share::Message& message) {
  constexpr std::size_t kMostWants = 512;
  if (kept.wants.size() >= kMostWants) {
    share::Message no = message;
    no.word = share::Word::kDenied;
    std::snprintf(no.text, sizeof no.text, "the job asks for too much at once");
    kept.tenant->Send(slot, no);
    return std::nullopt;
  }
  const std::uint64_t number = next_number_++;
  kept.wants[number] = {slot, message.id, message.device};
  wanted_by_[number] = kept.tenant->id();
  is_ledger_changed_ = true;
  return number;
}

void Keeper::OnWant(Kept& kept, Slot slot, const share::Message& message) {
  const auto number = NumberFor(kept, slot, message);
  if (!number) return;
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 50;
  ledger_.Want(kept.tenant->id(), message.device, Bytes(static_cast<std::int64_t>(std::min(message.bytes, kMostBytes))),
               *number);
}

void Keeper::OnPin(Kept& kept, Slot slot, const share::Message& message) {
  const TenantId id = kept.tenant->id();
  const auto number = NumberFor(kept, slot, message);
  if (!number) return;
  ledger_.Pin(id, *number);
  // The program must not wait indefinitely, however long others take to make way.
  loop_->After(kPinPatience, [this, id, pin = *number] {
    const Kept* still = Find(id);
    if (still == nullptr || !still->wants.contains(pin)) return;
    ledger_.ForgetWant(id, pin);
    OnAnswer(sharing::Answer{id, 0, pin, true, ""});
  });
}

void Keeper::RefreshUse(Kept& kept) {
  if (kept.tenant == nullptr || kept.is_away()) return;
  for (unsigned device = 0; device < kept.tenant->devices().size(); ++device) {
    Bytes used(static_cast<std::int64_t>(kept.tenant->Used(device)));
    // MPS guarantees this memory to the client, used or not, and it cannot be reclaimed.
    if (kept.record.terms.uses_mps) used = std::max(used, kept.record.terms.share.memory_request);
    const sharing::Tenant* known = ledger_.Find(kept.tenant->id());
    if (known == nullptr || known->devices[device].used == used) continue;
    ledger_.SetUse(kept.tenant->id(), device, used);
    is_ledger_changed_ = true;
  }
}

void Keeper::OnTick() {
  loop_->After(kTick, [this] { OnTick(); });
  const Time now = loop_->Now();
  for (auto& [id, kept] : kept_) {
    GiveUpPending(*kept);
    if (!kept->is_recorded) Record(*kept);
    if (kept->tenant == nullptr) continue;
    bool is_active = false;
    for (const auto& [slot, process] : kept->tenant->processes()) {
      const std::uint64_t launches = kept->tenant->Launches(slot);
      std::uint64_t& before = kept->launches[slot];
      is_active =
          is_active || launches != before || kept->tenant->Waiting(slot) != 0 || kept->tenant->Entered(slot) != 0;
      before = launches;
    }
    // One long kernel is not a new launch. With an open gate the tenant is alone, so the driver's utilisation is its
    // own.
    for (const TenantDevice& device : kept->tenant->devices()) {
      const auto seen = utilisation_.find(static_cast<GpuIndex>(device.gpu));
      is_active = is_active || (device.gate == share::kOpen && seen != utilisation_.end() && seen->second > 0);
    }
    const sharing::Tenant* known = ledger_.Find(id);
    if (known != nullptr && !kept->record.is_parked && (is_active || known->is_active)) {
      ledger_.SetActivity(id, is_active, now);
      is_ledger_changed_ = true;
    }
    SetCannot(*kept);
    RefreshUse(*kept);
  }
  if (now - sampled_at_ >= 1s) {
    SampleShares(sampled_at_ == kNoTime ? Duration(0) : now - sampled_at_);
    sampled_at_ = now;
    for (auto& [id, kept] : kept_) kept->why_no_room = WhyNoHostRoom(*kept);
    is_ledger_changed_ = true;
  }
  LookForSlices();
  ShowState();
  if (LookWhetherReachable()) LookWhetherNeeded();
}

// Returns false if the keeper's socket is gone. The keeper then ends once no tenant depends on it.
bool Keeper::LookWhetherReachable() {
  const NodeDoor::Place place = door_->Look();
  if (place == NodeDoor::Place::kThere && !is_abandoned_) return true;
  if (place == NodeDoor::Place::kTaken) {
    // The directory's next keeper takes over the tenants as if this one had been killed.
    loop_->Stop();
    return false;
  }
  is_abandoned_ = true;
  bool is_awaited = false;
  for (auto& [id, kept] : kept_) {
    if (kept->tenant == nullptr || kept->tenant->processes().empty()) continue;
    is_awaited = is_awaited || kept->is_away();
    // No keeper could wake it later.
    if (kept->record.is_parked && kept->relocation == nullptr && ledger_.WakeByUser(id)) is_ledger_changed_ = true;
  }
  const bool are_slices_awaited = LeaveSlices();
  if (is_awaited || are_slices_awaited) return false;
  for (auto& [id, kept] : kept_) {
    if (kept->tenant == nullptr || kept->record.is_lost) continue;
    LeaveGates(*kept);
    kept->tenant->SetAllGates(share::kOpen);
  }
  loop_->Stop();
  return false;
}

void Keeper::LookWhetherNeeded() {
  const Time now = loop_->Now();
  const bool is_empty = kept_.empty() && !HasSlicesToKeep();
  if (!is_empty || !node_.whole_jobs.empty() || (door_->has_node() && !may_end_)) needed_at_ = now;
  if (now - needed_at_ > options_.lingers || (may_end_ && is_empty)) loop_->Stop();
}

}  // namespace divvy::keeper
