#include "keeper/keeper.h"

#include <algorithm>
#include <utility>
#include <variant>

namespace divvy::keeper {
namespace {

/// Interval between checks of the tenants' counters.
constexpr Duration kTick = 250ms;

}  // namespace

Keeper::Keeper(KeeperOptions options, std::unique_ptr<EventLoop> loop)
    : loop_(std::move(loop)), shared_(std::move(options), *loop_) {}

Result<std::unique_ptr<Keeper>> Keeper::Make(KeeperOptions options) {
  DIVVY_TRY(std::unique_ptr<EventLoop> loop, EventLoop::Make());
  std::unique_ptr<Keeper> keeper(new Keeper(std::move(options), std::move(loop)));
  Keeper* raw = keeper.get();
  KeeperContext& shared = raw->shared_;
  DIVVY_TRY(shared.listener,
            NodeListener::Open(shared.loop, shared.options.directory, shared.options.node_uid,
                               [raw](const wire::KeeperRequest& request) { raw->OnRequest(request); }));
  shared.mechanisms.is_emulated = !shared.options.cuda.empty();
  shared.mechanisms.has_interposer = !shared.options.interposer.empty();
  shared.mechanisms.mps_program = shared.options.mps_program;
  shared.mechanisms.why_no_slices = "not checked yet";
  raw->slices_.Start();
  raw->watch_ =
      std::make_unique<GpuWatch>(shared.loop, shared.options.nvml, [raw](const std::vector<GpuSight>& sights) {
        for (const GpuSight& sight : sights) raw->slices_.OnSight(sight);
        raw->use_.OnSights(sights);
      });
  DIVVY_CHECK(raw->Recover());
  raw->relocations_.Probe();
  return keeper;
}

void Keeper::Run() {
  needed_at_ = shared_.loop.Now();
  OnTick();
  shared_.loop.Run([this] { AfterEach(); });
}

void Keeper::Stop() {
  shared_.loop.Post([this] { shared_.loop.Stop(); });
}

void Keeper::AfterEach() {
  for (auto& [id, kept] : shared_.tenants) {
    if (kept->tenant != nullptr) kept->tenant->BeginTurn();
  }
  shared_.gates.Settle();
  if (shared_.is_planner_due) {
    SettlePlanner();
    shared_.gates.Settle();
  }
}

void Keeper::SettlePlanner() {
  for (auto& [id, kept] : shared_.tenants) {
    use_.RefreshUse(*kept);
    // Whether a tenant may borrow depends on what its shared-memory page says now, so that is read again.
    if (!kept->wants.empty()) use_.SetCannot(*kept);
  }
  // Some orders of the planner are done at once. Then the planner must decide again.
  for (int round = 0; shared_.is_planner_due && round < 64; ++round) {
    shared_.is_planner_due = false;
    std::vector<sharing::IssuedAction> actions = shared_.planner.Decide(shared_.loop.Now());
    // Place orders first: they create the memory page that a tenant shares with the keeper, and a later order writes
    // the tenant's memory limit (its ceiling) into that page.
    std::stable_partition(actions.begin(), actions.end(), [](const sharing::IssuedAction& issued) {
      return std::holds_alternative<sharing::Place>(issued.action);
    });
    for (const sharing::IssuedAction& issued : actions) CarryOut(issued);
  }
  for (auto& [id, kept] : shared_.tenants) {
    relocations_.NoteDisplacement(*kept);
    pending_.Settle(*kept);
  }
  if (planner_alarm_) shared_.loop.Cancel(*planner_alarm_);
  planner_alarm_.reset();
  const Time next = shared_.planner.next_decision();
  if (next != kNever) {
    // The planner decides again after 1 ms at the earliest, even if it asked for an earlier time.
    planner_alarm_ =
        shared_.loop.At(std::max(next, shared_.loop.Now() + 1ms), [this] { shared_.is_planner_due = true; });
  }
  report_.Show();
}

TenantEvents Keeper::EventsOf(TenantId id) {
  return {[this, id](Slot slot) { OnCame(id, slot); },
          [this, id](Slot slot, const share::Message& message) { OnSaid(id, slot, message); },
          [this, id](Slot slot) { OnGone(id, slot); }};
}

void Keeper::OnCame(TenantId id, Slot slot) {
  ManagedTenant* kept = shared_.Find(id);
  if (kept == nullptr || kept->tenant == nullptr) return;
  relocations_.OnCame(*kept, slot);
  shared_.is_planner_due = true;
}

void Keeper::OnGone(TenantId id, Slot slot) {
  ManagedTenant* kept = shared_.Find(id);
  if (kept == nullptr || kept->tenant == nullptr) return;
  memory_.OnGone(*kept, slot);
  kept->launches.erase(slot);
  shared_.gates.OnGone(*kept->tenant, slot);
  relocations_.OnGone(*kept, slot);
}

void Keeper::OnSaid(TenantId id, Slot slot, const share::Message& message) {
  ManagedTenant* kept = shared_.Find(id);
  if (kept == nullptr || kept->tenant == nullptr) return;
  switch (message.word) {
    case share::Word::kWant:
      return memory_.OnWant(*kept, slot, message);
    case share::Word::kDrained:
      return shared_.gates.OnDrained(*kept->tenant, message.device, slot, message.id);
    case share::Word::kYield:
      return shared_.gates.OnYield(*kept->tenant, message.device, slot);
    case share::Word::kAsk:
      return shared_.gates.OnAsk(*kept->tenant, message.device, slot);
    case share::Word::kWake:
      shared_.planner.WantWake(id);
      shared_.is_planner_due = true;
      return;
    case share::Word::kPin:
      return memory_.OnPin(*kept, slot, message);
    case share::Word::kDone:
      if (!memory_.OnDone(id, slot, message) && kept->relocation != nullptr) kept->relocation->OnDone(slot, message);
      return;
    default:
      return kept->tenant->Drop(slot);  // Not a message that a process may send.
  }
}

void Keeper::OnTick() {
  shared_.loop.After(kTick, [this] { OnTick(); });
  for (auto& [id, kept] : shared_.tenants) {
    pending_.GiveUp(*kept);
    if (!kept->is_recorded) shared_.Record(*kept);
    if (kept->tenant == nullptr) continue;
    use_.CheckActivity(*kept);
    use_.SetCannot(*kept);
    use_.RefreshUse(*kept);
  }
  if (use_.SampleShares()) {
    for (auto& [id, kept] : shared_.tenants) kept->why_no_room = relocations_.WhyNoHostRoom(*kept);
    shared_.is_planner_due = true;
  }
  slices_.Look();
  report_.Show();
  if (LookWhetherReachable()) LookWhetherNeeded();
}

void Keeper::CarryOut(const sharing::IssuedAction& issued) {
  if (const auto* place = std::get_if<sharing::Place>(&issued.action)) return OnPlace(*place);
  if (const auto* ceiling = std::get_if<sharing::SetCeiling>(&issued.action))
    return memory_.SetCeiling(issued.id, *ceiling);
  if (const auto* answer = std::get_if<sharing::Answer>(&issued.action)) return memory_.Answer(*answer);
  if (const auto* shrink = std::get_if<sharing::Shrink>(&issued.action)) return memory_.Shrink(issued.id, *shrink);
  if (const auto* requeue = std::get_if<sharing::Requeue>(&issued.action)) return OnRequeue(*requeue);
  if (const auto* failed = std::get_if<sharing::Failed>(&issued.action)) return OnFailed(*failed);
  if (const auto* ready = std::get_if<sharing::Ready>(&issued.action))
    return SliceTenants::IsOfSlices(ready->job) ? slices_.OnReady(ready->job) : takes_.OnReady(ready->job);
  const auto to_relocate = [&](TenantId id) {
    if (ManagedTenant* kept = shared_.Find(id)) relocations_.CarryOut(*kept, issued);
  };
  if (const auto* move = std::get_if<sharing::Move>(&issued.action)) to_relocate(move->tenant);
  if (const auto* park = std::get_if<sharing::Park>(&issued.action)) to_relocate(park->tenant);
  if (const auto* wake = std::get_if<sharing::Wake>(&issued.action)) to_relocate(wake->tenant);
}

void Keeper::OnPlace(const sharing::Place& place) {
  ManagedTenant* kept = shared_.Find(place.tenant);
  if (kept == nullptr || kept->tenant != nullptr) return;
  RecordedTenant& record = kept->record;
  record.gpus.assign(place.to.begin(), place.to.end());
  // The folder is given to this user; an id out of range would wrap to another user's.
  constexpr std::int64_t kLastId = 0xFFFF'FFFE;
  for (const std::int64_t id : {record.terms.uid, record.terms.gid}) {
    if (id < 0 || id > kLastId) return pending_.Fail(*kept, Goal::kPlaced, std::to_string(id) + " is not a user id");
  }
  const std::vector<std::string> uuids = shared_.UuidsOf(record.gpus);
  auto tenant = Tenant::Create(shared_.loop, shared_.remover, shared_.options.directory, place.tenant,
                               static_cast<uid_t>(record.terms.uid), static_cast<gid_t>(record.terms.gid),
                               DevicesOf(record, uuids));
  if (!tenant) return pending_.Fail(*kept, Goal::kPlaced, tenant.error().message);
  kept->tenant = *std::move(tenant);
  use_.ExpectResiduals(*kept);
  kept->tenant->Listen(EventsOf(place.tenant));
  kept->had.assign(uuids.size(), Duration(0));
  kept->had_share.assign(uuids.size(), GpuShare(0));
  shared_.Record(*kept);
  shared_.JoinGates(*kept);
}

void Keeper::OnFailed(const sharing::Failed& failed) {
  if (SliceTenants::IsOfSlices(failed.job)) return slices_.OnFailed(failed.job, failed.why);
  if (failed.job != 0) return takes_.OnFailed(failed.job, failed.why);
  ManagedTenant* kept = shared_.Find(failed.tenant);
  if (kept != nullptr && !kept->record.is_lost) kept->trouble = failed.why;
}

void Keeper::OnRequeue(const sharing::Requeue& requeue) {
  wire::KeeperLine line;
  wire::KeeperRequeue& said = line.requeue.emplace();
  said.job = JobId(requeue.borrower.job);
  said.attempt = requeue.borrower.attempt;
  said.owner = JobId(requeue.owner.job);
  said.bytes = requeue.bytes;
  shared_.listener->Say(line);
}

// Returns false if the keeper's socket is gone. The keeper then ends once no tenant depends on it.
bool Keeper::LookWhetherReachable() {
  const NodeListener::Place place = shared_.listener->Look();
  if (place == NodeListener::Place::kThere && !shared_.is_abandoned) return true;
  if (place == NodeListener::Place::kTaken) {
    // The directory's next keeper takes over the tenants as if this one had been killed.
    shared_.loop.Stop();
    return false;
  }
  shared_.is_abandoned = true;
  bool is_awaited = false;
  for (auto& [id, kept] : shared_.tenants) {
    if (kept->tenant == nullptr || kept->tenant->processes().empty()) continue;
    is_awaited = is_awaited || kept->is_away();
    // This keeper will have no successor, so a parked tenant is woken now: nothing could wake it later.
    if (kept->record.is_parked && kept->relocation == nullptr && shared_.planner.WakeByUser(id))
      shared_.is_planner_due = true;
  }
  const bool are_slices_awaited = slices_.Leave();
  if (is_awaited || are_slices_awaited) return false;
  for (auto& [id, kept] : shared_.tenants) {
    if (kept->tenant == nullptr || kept->record.is_lost) continue;
    shared_.LeaveGates(*kept);
    kept->tenant->SetAllGates(share::kOpen);
  }
  shared_.loop.Stop();
  return false;
}

void Keeper::LookWhetherNeeded() {
  const Time now = shared_.loop.Now();
  const bool is_empty = shared_.tenants.empty() && !slices_.HasSlicesToKeep();
  if (!is_empty || !shared_.node.whole_jobs.empty() || (shared_.listener->has_node() && !may_end_)) needed_at_ = now;
  if (now - needed_at_ > shared_.options.lingers || (may_end_ && is_empty)) shared_.loop.Stop();
}

}  // namespace divvy::keeper
