// Carries out the ledger's orders.
#include <algorithm>
#include <type_traits>
#include <utility>
#include <variant>

#include "keeper/keeper.h"

namespace divvy::keeper {
namespace {

/// A library frees unused pool memory at once or not at all.
constexpr Duration kShrinkPatience = 2s;
constexpr Duration kLockRetry = 1ms;

void SetText(share::Message& message, const std::string& text) {
  const std::size_t size = std::min(text.size(), sizeof message.text - 1);
  std::copy_n(text.data(), size, message.text);
  message.text[size] = '\0';
}

}  // namespace

void Keeper::CarryOut(const sharing::Order& order) {
  std::visit(
      [this, &order](const auto& deed) {
        using Deed = std::decay_t<decltype(deed)>;
        if constexpr (std::is_same_v<Deed, sharing::Place>) {
          OnPlace(deed);
        } else if constexpr (std::is_same_v<Deed, sharing::SetCeiling>) {
          OnSetCeiling(order.id, deed);
        } else if constexpr (std::is_same_v<Deed, sharing::Answer>) {
          OnAnswer(deed);
        } else if constexpr (std::is_same_v<Deed, sharing::Shrink>) {
          OnShrink(order.id, deed);
        } else if constexpr (std::is_same_v<Deed, sharing::Requeue>) {
          OnRequeue(deed);
        } else if constexpr (std::is_same_v<Deed, sharing::Ready>) {
          OnReady(deed.job);
        } else if constexpr (std::is_same_v<Deed, sharing::Failed>) {
          OnFailed(deed);
        } else {
          Kept* kept = Find(deed.tenant);
          if (kept == nullptr || kept->tenant == nullptr) return;
          // No tenant leaves before the driver's capabilities are known: otherwise only the library could be used.
          if (kept->relocation != nullptr || !kept->returning.empty() || !has_probed_) {
            kept->held_up.push_back(order);
            return;
          }
          if constexpr (std::is_same_v<Deed, sharing::Move>) Relocate(*kept, order.id, Passage::kMoving, deed.to);
          if constexpr (std::is_same_v<Deed, sharing::Park>) Relocate(*kept, order.id, Passage::kParking, {});
          if constexpr (std::is_same_v<Deed, sharing::Wake>) Relocate(*kept, order.id, Passage::kWaking, deed.to);
        }
      },
      order.deed);
}

void Keeper::OnPlace(const sharing::Place& place) {
  Kept* kept = Find(place.tenant);
  if (kept == nullptr || kept->tenant != nullptr) return;
  RecordedTenant& record = kept->record;
  record.gpus.assign(place.to.begin(), place.to.end());
  // The folder is given to this user; an id out of range would wrap to another user's.
  constexpr std::int64_t kLastId = 0xFFFF'FFFE;
  for (const std::int64_t id : {record.terms.uid, record.terms.gid}) {
    if (id < 0 || id > kLastId) return FailPending(*kept, Goal::kPlaced, std::to_string(id) + " is not a user id");
  }
  const std::vector<std::string> uuids = UuidsOf(record.gpus);
  std::vector<TenantDevice> devices;
  for (std::size_t i = 0; i < uuids.size(); ++i) {
    TenantDevice& device = devices.emplace_back();
    device.uuid = uuids[i];
    device.gpu = static_cast<std::uint32_t>(record.gpus[i]);
    device.request = static_cast<std::uint64_t>(record.terms.share.memory_request.count());
    device.limit = static_cast<std::uint64_t>(record.terms.share.memory_limit.count());
  }
  auto tenant = Tenant::Create(*loop_, remover_, options_.directory, place.tenant, static_cast<uid_t>(record.terms.uid),
                               static_cast<gid_t>(record.terms.gid), std::move(devices));
  if (!tenant) return FailPending(*kept, Goal::kPlaced, tenant.error().message);
  kept->tenant = *std::move(tenant);
  ExpectResiduals(*kept);
  kept->tenant->Listen(EventsOf(place.tenant));
  kept->had.assign(uuids.size(), Duration(0));
  kept->had_share.assign(uuids.size(), GpuShare(0));
  Record(*kept);
  JoinGates(*kept);
}

void Keeper::OnSetCeiling(std::uint64_t id, const sharing::SetCeiling& deed) {
  Kept* kept = Find(deed.tenant);
  if (kept == nullptr || kept->tenant == nullptr) return;
  const auto ceiling = kept->tenant->SetCeiling(deed.device, static_cast<std::uint64_t>(deed.bytes.count()));
  if (!ceiling) {
    refused_ceilings_.push_back({id, deed});
    if (refused_ceilings_.size() == 1) loop_->After(kLockRetry, [this] { RetryCeilings(); });
    return;
  }
  sharing::Done done;
  done.bytes = Bytes(static_cast<std::int64_t>(*ceiling));
  ledger_.OnDone(id, done, loop_->Now());
  is_ledger_changed_ = true;
}

void Keeper::RetryCeilings() {
  for (const CeilingOrder& order : std::exchange(refused_ceilings_, {})) OnSetCeiling(order.id, order.deed);
}

void Keeper::OnAnswer(const sharing::Answer& answer) {
  Kept* kept = Find(answer.tenant);
  wanted_by_.erase(answer.request);
  if (kept == nullptr || kept->tenant == nullptr) return;
  const auto want = kept->wants.find(answer.request);
  if (want == kept->wants.end()) return;
  share::Message message{};
  message.word = answer.is_granted ? share::Word::kGranted : share::Word::kDenied;
  message.device = want->second.device;
  message.process = want->second.slot;
  message.id = want->second.id;
  SetText(message, answer.why);
  kept->tenant->Send(want->second.slot, message);
  kept->wants.erase(want);
}

void Keeper::OnShrink(std::uint64_t id, const sharing::Shrink& shrink) {
  Kept* kept = Find(shrink.tenant);
  if (kept == nullptr || kept->tenant == nullptr) return;
  // Disjoint from the ids of relocation orders.
  const std::uint64_t number = next_number_++ | std::uint64_t{1} << 63;
  Shrinking& shrinking = shrinking_[number];
  shrinking.tenant = shrink.tenant;
  shrinking.device = shrink.device;
  shrinking.order = id;
  share::Message message{};
  message.word = share::Word::kShrink;
  message.device = shrink.device;
  message.id = number;
  message.bytes = static_cast<std::uint64_t>(shrink.bytes.count());
  for (const auto& [slot, process] : kept->tenant->processes()) {
    if (kept->tenant->Send(slot, message)) shrinking.awaited.insert(slot);
  }
  const Duration patience = shrinking.awaited.empty() ? Duration(0) : kShrinkPatience;
  loop_->After(patience, [this, number] { EndShrink(number); });
}

void Keeper::EndShrink(std::uint64_t number) {
  const auto found = shrinking_.find(number);
  if (found == shrinking_.end()) return;
  const Shrinking ended = found->second;
  shrinking_.erase(found);
  if (Kept* kept = Find(ended.tenant)) RefreshUse(*kept);
  ledger_.OnDone(ended.order, {}, loop_->Now());
  is_ledger_changed_ = true;
}

void Keeper::OnFailed(const sharing::Failed& failed) {
  if (IsOfSlices(failed.job)) return OnSliceFailed(failed.job, failed.why);
  if (failed.job != 0) {
    const auto take = takes_.find(failed.job);
    if (take == takes_.end()) return;
    const std::uint64_t request = take->second.request;
    takes_.erase(take);
    // Restores the state before the request.
    ledger_.ReleaseExclusive(failed.job);
    std::erase_if(node_.whole_jobs, [&](const RecordedWhole& whole) { return whole.job.value() == failed.job; });
    RecordNode();
    is_ledger_changed_ = true;
    return door_->Answer(request, FailedPrecondition(failed.why));
  }
  Kept* kept = Find(failed.tenant);
  if (kept != nullptr && !kept->record.is_lost) kept->trouble = failed.why;
}

void Keeper::OnReady(std::uint64_t job) {
  if (IsOfSlices(job)) return OnSliceReady(job);
  const auto take = takes_.find(job);
  if (take == takes_.end()) return;
  wire::KeeperLine line;
  line.answer.emplace().id = take->second.request;
  line.answer->room = wire::KeeperRoom{loop_->Now() - take->second.since, take->second.bound};
  door_->Say(line);
  takes_.erase(take);
}

void Keeper::OnRequeue(const sharing::Requeue& requeue) {
  wire::KeeperLine line;
  wire::KeeperRequeue& said = line.requeue.emplace();
  said.job = JobId(requeue.borrower.job);
  said.attempt = requeue.borrower.attempt;
  said.owner = JobId(requeue.owner.job);
  said.bytes = requeue.bytes;
  door_->Say(line);
}

}  // namespace divvy::keeper
