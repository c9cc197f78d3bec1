// Evaluates GPU samples and reports the tenants' state.
#include <algorithm>

#include "base/duration_text.h"
#include "keeper/keeper.h"
#include "sharing/holds.h"
#include "sharing/words.h"
#include "wire/messages/share_codec.h"

namespace divvy::keeper {
namespace {

constexpr Duration kBetweenShows = 200ms;
/// Upper bound for what the driver adds to a process's allocations, such as contexts and code. A process above it has
/// allocated memory without the library.
constexpr std::uint64_t kMostResidual = std::uint64_t{2} << 30;

/// Added to the largest measured residual, because a process may load more code.
constexpr std::uint64_t kResidualToSpare = std::uint64_t{16} << 20;

/// By then a tenant's process on its GPU has said hello, or it uses the GPU without the library.
constexpr Duration kSaysHelloWithin = 3s;

/// A sample takes less time, unless the driver is faulty.
constexpr Duration kOldestSight = 3s;

std::uint64_t CountOf(Bytes bytes) { return static_cast<std::uint64_t>(std::max<std::int64_t>(0, bytes.count())); }

}  // namespace

void Keeper::OnSights(const std::vector<GpuSight>& sights) {
  for (auto& [id, kept] : kept_) kept->escaped.clear();
  for (const GpuSight& sight : sights) OnSight(sight);
  for (auto& [id, kept] : kept_) {
    BearWithNewcomers(*kept);
    ExpectResiduals(*kept);
    SetCannot(*kept);
    RefreshUse(*kept);
  }
  is_ledger_changed_ = true;
}

void Keeper::ExpectResiduals(const Kept& kept) const {
  if (kept.tenant == nullptr) return;
  for (unsigned device = 0; device < kept.tenant->devices().size(); ++device) {
    const auto known = expected_residual_.find(static_cast<GpuIndex>(kept.tenant->devices()[device].gpu));
    kept.tenant->ExpectResidual(device, known == expected_residual_.end() ? options_.first_residual : known->second);
  }
}

// A process that has just started, or lost its keeper, is about to say hello.
void Keeper::BearWithNewcomers(Kept& kept) const {
  const auto before = std::exchange(kept.strangers, {});
  for (const std::int64_t pid : kept.escaped) {
    const auto known = before.find(pid);
    kept.strangers.emplace(pid, known == before.end() ? loop_->Now() : known->second);
  }
  std::erase_if(kept.escaped,
                [&](std::int64_t pid) { return loop_->Now() - kept.strangers.at(pid) < kSaysHelloWithin; });
}

// A process that has not said hello is attributed to a tenant by its ancestors or its environment.
bool Keeper::IsOf(const GpuSight::Process& seen, const Kept& kept) const {
  const Tenant& tenant = *kept.tenant;
  const auto known = processes_.find(seen.pid);
  if (known != processes_.end() && known->second.start_ticks == seen.start_ticks)
    return tenant.id() == TenantId{known->second.job.value(), known->second.attempt};
  const bool is_below = std::any_of(seen.ancestors.begin(), seen.ancestors.end(), [&tenant](std::int64_t pid) {
    return std::any_of(tenant.processes().begin(), tenant.processes().end(),
                       [pid](const auto& one) { return one.second.pid == pid; });
  });
  // Any user can name a folder. It counts only for processes of the tenant's own user.
  return is_below || (seen.folder == tenant.folder() && seen.uid == kept.record.terms.uid);
}

void Keeper::OnSight(const GpuSight& sight) {
  utilisation_[sight.gpu] = sight.utilisation_percent;
  OnSliceSight(sight);
  for (const GpuSight::Process& seen : sight.processes) {
    for (auto& [id, kept] : kept_) {
      if (kept->tenant == nullptr || kept->record.terms.uses_mps) continue;
      Tenant& tenant = *kept->tenant;
      const auto slot = std::find_if(tenant.processes().begin(), tenant.processes().end(),
                                     [&seen](const auto& one) { return one.second.pid == seen.pid; });
      if (slot == tenant.processes().end()) {
        if (IsOf(seen, *kept)) kept->escaped.insert(seen.pid);
        continue;
      }
      // The sample may date from before the move.
      const bool is_settled = loop_->Now() - kept->relocated > kOldestSight;
      if (kept->is_away() || !is_settled) continue;
      const bool is_its_own = std::any_of(tenant.devices().begin(), tenant.devices().end(),
                                          [&sight](const TenantDevice& device) { return device.gpu == sight.gpu; });
      if (!is_its_own) kept->escaped.insert(seen.pid);
      for (unsigned device = 0; device < tenant.devices().size(); ++device) {
        if (tenant.devices()[device].gpu != sight.gpu) continue;
        const std::uint64_t residual = tenant.SeeMemory(slot->first, device, CountOf(seen.memory));
        if (residual > kMostResidual) kept->escaped.insert(seen.pid);
        if (residual == 0 || residual > kMostResidual) continue;
        // Uses the largest: an overestimate is corrected for each process after two samples.
        std::uint64_t& expected = expected_residual_[sight.gpu];
        expected = std::max(expected, residual + kResidualToSpare);
      }
    }
  }
}

void Keeper::SetCannot(Kept& kept) {
  if (kept.tenant == nullptr || kept.record.terms.uses_mps || kept.relocation != nullptr) return;
  const std::uint32_t flags = kept.tenant->Flags();
  std::string move = mechanisms_.WhyCannotMove(flags);
  std::string park = mechanisms_.WhyCannotPark(flags);
  if (!kept.escaped.empty())
    move = park = "process " + std::to_string(*kept.escaped.begin()) + " uses the GPU without the sharing library";
  if (!kept.why_no_room.empty()) {
    if (move.empty()) move = kept.why_no_room;
    if (park.empty()) park = kept.why_no_room;
  }
  if (!kept.tenant->has_page()) move = park = "its shared memory page was overwritten";
  const sharing::Tenant* known = ledger_.Find(kept.tenant->id());
  if (known == nullptr || (known->why_cannot_move == move && known->why_cannot_park == park)) return;
  ledger_.SetCannot(kept.tenant->id(), move, park);
  is_ledger_changed_ = true;
}

// Holding a turn is not work: a tenant that was idle throughout gets 0. While a gate is open there are no turns to
// measure, and its tenant is the only active one, so it gets the driver's utilisation.
GpuShare Keeper::ShareOfTime(const Kept& kept, unsigned device, Duration turns, Duration since) const {
  const sharing::Tenant* known = ledger_.Find(kept.tenant->id());
  const bool was_idle = known != nullptr && !known->is_active && loop_->Now() - known->last_active >= since;
  const TenantDevice& place = kept.tenant->devices()[device];
  if (was_idle && !gates_.Overruns(*kept.tenant, device)) return GpuShare();
  const auto seen = utilisation_.find(static_cast<GpuIndex>(place.gpu));
  const bool is_seen = place.gate == share::kOpen && seen != utilisation_.end() && seen->second >= 0;
  const std::int64_t parts =
      is_seen ? std::int64_t{GpuShare::kWhole} * seen->second / 100 : turns.count() * GpuShare::kWhole / since.count();
  return GpuShare(static_cast<std::int32_t>(std::min<std::int64_t>(parts, GpuShare::kWhole)));
}

void Keeper::SampleShares(Duration since) {
  for (auto& [id, kept] : kept_) {
    if (kept->tenant == nullptr) continue;
    for (unsigned device = 0; device < kept->had.size(); ++device) {
      const Duration had = gates_.Had(*kept->tenant, device);
      const Duration more = had > kept->had[device] ? had - kept->had[device] : Duration(0);
      kept->had[device] = had;
      if (since <= Duration(0)) continue;
      kept->had_share[device] = ShareOfTime(*kept, device, more, since);
    }
  }
}

wire::KeptTenant Keeper::StateOf(const Kept& kept) const {
  using wire::ShareState;
  wire::KeptTenant shown;
  shown.job = kept.record.terms.job;
  shown.attempt = kept.record.terms.attempt;
  shown.trouble = kept.trouble;
  shown.escaped.assign(kept.escaped.begin(), kept.escaped.end());
  shown.mechanism = kept.record.terms.uses_mps ? "MPS" : kept.escaped.empty() ? "enforced by interposer" : "advisory";
  const sharing::Tenant* known = ledger_.Find({kept.record.terms.job.value(), kept.record.terms.attempt});
  if (known == nullptr) return shown;
  switch (known->state) {
    case sharing::State::kArriving:
    case sharing::State::kHere:
      shown.state = known->is_active ? ShareState::kRunning : ShareState::kIdle;
      break;
    case sharing::State::kMoving:
      shown.state = ShareState::kMoving;
      break;
    case sharing::State::kParking:
      shown.state = ShareState::kParking;
      break;
    case sharing::State::kParked:
      shown.state = ShareState::kParked;
      break;
    case sharing::State::kWaking:
      shown.state = ShareState::kWaking;
      break;
  }
  shown.unmovable = known->why_cannot_move;
  shown.is_movable = known->why_cannot_move.empty() && !known->is_lost;
  const std::string waits = ledger_.WhyWaits(known->id);
  if (shown.trouble.empty()) shown.trouble = waits;
  if (!known->is_active && known->last_active != kNoTime) {
    // Rounded to seconds, so that a listing does not change all the time.
    shown.idle = std::chrono::floor<std::chrono::seconds>(loop_->Now() - known->last_active);
  }
  // Rounded to seconds as well.
  const Duration idle = known->last_active == kNoTime ? Duration(0) : loop_->Now() - known->last_active;
  shown.words = sharing::Remarks(*known, loop_->Now() - (idle - std::chrono::floor<std::chrono::seconds>(idle)));
  for (unsigned i = 0; kept.tenant != nullptr && i < kept.tenant->devices().size(); ++i) {
    if (gates_.Overruns(*kept.tenant, i) && gates_.HasNeighbours(*kept.tenant, i))
      shown.words.push_back("its kernels on GPU " + std::to_string(kept.tenant->devices()[i].gpu) +
                            " overrun its turns");
  }
  if (kept.tenant != nullptr) shown.processes = static_cast<int>(kept.tenant->processes().size());
  shown.passages = kept.passages;
  for (unsigned i = 0; i < known->devices.size(); ++i) {
    const sharing::Device& device = known->devices[i];
    wire::KeptShare& share = shown.shares.emplace_back();
    share.paper = device.paper;
    share.gpu = device.gpu;
    share.request = known->share.memory_request;
    share.limit = known->share.memory_limit;
    share.ceiling = device.ceiling;
    // A parked tenant has nothing on the GPU.
    const bool is_away = shown.state == wire::ShareState::kParked;
    share.used = is_away ? Bytes() : device.used;
    share.borrowed = is_away ? Bytes() : sharing::SharePlanner::Borrowed(*known, i);
    share.compute_request = known->share.compute_request;
    share.compute_limit = known->share.compute_limit;
    if (i < kept.had_share.size()) share.compute = kept.had_share[i];
  }
  return shown;
}

wire::KeeperState Keeper::State() const {
  wire::KeeperState state;
  state.mechanisms = mechanisms_.List();
  state.moves = moves_;
  state.parks = parks_;
  for (const auto& [id, kept] : kept_) state.tenants.push_back(StateOf(*kept));
  state.troubles = misfortunes_;
  ShowSlices(state);
  ShowTakes(state);
  return state;
}

// Reports jobs that wait until their GPUs are empty: which tenants they wait for, and the maximum time.
void Keeper::ShowTakes(wire::KeeperState& state) const {
  for (const auto& [job, take] : takes_) {
    std::string who;
    for (const auto& [id, tenant] : ledger_.tenants()) {
      sharing::ForEachHold(tenant, [&, number = id.job](unsigned, GpuIndex gpu) {
        if (!take.gpus.Contains(gpu)) return;
        who += (who.empty() ? "" : ", ") + ("job " + std::to_string(number)) + " is leaving GPU " + std::to_string(gpu);
      });
    }
    if (who.empty()) continue;
    if (take.bound > Duration(0)) who += ", which takes at most " + DurationText(take.bound);
    state.waits.push_back({JobId(job), who, take.since, take.bound});
  }
}

void Keeper::ShowState() {
  const Time now = loop_->Now();
  if (!door_->has_node() || now - shown_at_ < kBetweenShows) return;  // OnTick calls it again.
  shown_at_ = now;
  wire::KeeperLine line;
  line.state = State();
  std::string text = wire::EncodeShare(line);
  if (text == shown_) return;
  shown_ = std::move(text);
  door_->Say(line);
}

}  // namespace divvy::keeper
