#include "keeper/state_report.h"

#include <algorithm>

#include "sharing/occupied_gpus.h"
#include "sharing/words.h"
#include "wire/messages/share_codec.h"

namespace divvy::keeper {
namespace {

constexpr Duration kBetweenShows = 200ms;

}  // namespace

wire::KeptTenant StateReport::StateOf(const ManagedTenant& kept) const {
  using wire::ShareState;
  wire::KeptTenant shown;
  shown.job = kept.record.terms.job;
  shown.attempt = kept.record.terms.attempt;
  shown.trouble = kept.trouble;
  shown.escaped.assign(kept.escaped.begin(), kept.escaped.end());
  shown.mechanism = kept.record.terms.uses_mps ? "MPS" : kept.escaped.empty() ? "enforced by interposer" : "advisory";
  const sharing::Tenant* known = shared_.planner.Find(kept.id());
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
      // The tenant is reported as parked, so that its GPUs can be given to others, only when that is recorded for a
      // restarted keeper and no process that the keeper cannot park is left on them.
      shown.state = !known->is_displaced || (kept.is_recorded && kept.strangers.empty()) ? ShareState::kParked
                                                                                         : ShareState::kParking;
      break;
    case sharing::State::kWaking:
      shown.state = ShareState::kWaking;
      break;
  }
  shown.unmovable = known->why_cannot_move;
  shown.is_movable = known->why_cannot_move.empty() && !known->is_lost;
  shown.is_whole = known->share.is_whole;
  shown.is_displaced = known->is_displaced;
  shown.unparkable = shared_.planner.WhyKeepsGpu(known->id);
  shown.displacement_failure = kept.displacement_failure;
  const std::string waits = shared_.planner.WhyWaits(known->id);
  if (shown.trouble.empty()) shown.trouble = waits;
  if (!known->is_active && known->last_active != kNoTime) {
    // Rounded to seconds, so that a listing does not change all the time.
    shown.idle = std::chrono::floor<std::chrono::seconds>(shared_.loop.Now() - known->last_active);
  }
  // Rounded to seconds as well.
  const Duration idle = known->last_active == kNoTime ? Duration(0) : shared_.loop.Now() - known->last_active;
  shown.words = sharing::Remarks(*known, shared_.loop.Now() - (idle - std::chrono::floor<std::chrono::seconds>(idle)));
  for (unsigned i = 0; kept.tenant != nullptr && i < kept.tenant->devices().size(); ++i) {
    if (shared_.gates.Overruns(*kept.tenant, i) && shared_.gates.HasNeighbours(*kept.tenant, i))
      shown.words.push_back("its kernels on GPU " + std::to_string(kept.tenant->devices()[i].gpu) +
                            " overrun its turns");
  }
  if (kept.tenant != nullptr) shown.processes = static_cast<int>(kept.tenant->processes().size());
  shown.passages = kept.passages;
  for (unsigned i = 0; i < known->devices.size(); ++i) {
    const sharing::Device& device = known->devices[i];
    wire::KeptShare& share = shown.shares.emplace_back();
    share.paper = device.planned_gpu;
    share.gpu = device.gpu;
    share.request = known->share.memory_request;
    share.limit = known->share.memory_limit;
    share.ceiling = device.ceiling;
    // A parked tenant has nothing on the GPU.
    const bool is_away = shown.state == wire::ShareState::kParked;
    share.used = is_away ? Bytes() : device.used;
    share.borrowed = is_away ? Bytes() : sharing::Borrowed(*known, i);
    share.compute_request = known->share.compute_request;
    share.compute_limit = known->share.compute_limit;
    if (i < kept.had_share.size()) share.compute = kept.had_share[i];
  }
  return shown;
}

wire::KeeperState StateReport::State() const {
  wire::KeeperState state;
  state.mechanisms = shared_.mechanisms.List();
  state.moves = relocations_.moves();
  state.parks = relocations_.parks();
  for (const auto& [id, kept] : shared_.tenants) state.tenants.push_back(StateOf(*kept));
  state.troubles = troubles_;
  slices_.Show(state);
  takes_.Show(state);
  return state;
}

void StateReport::Show() {
  const Time now = shared_.loop.Now();
  if (!shared_.listener->has_node() || now - shown_at_ < kBetweenShows) return;
  shown_at_ = now;
  wire::KeeperLine line;
  line.state = State();
  std::string text = wire::EncodeShare(line);
  if (text == shown_) return;
  shown_ = std::move(text);
  shared_.listener->Say(line);
}

}  // namespace divvy::keeper
