#include "keeper/tenant_memory.h"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace divvy::keeper {
namespace {

/// How long a call that binds its process waits for the tenant to be settled.
constexpr Duration kPinTimeout = 30s;
/// A library frees unused pool memory at once or not at all.
constexpr Duration kShrinkTimeout = 2s;
constexpr Duration kLockRetry = 1ms;

void SetText(share::Message& message, const std::string& text) {
  const std::size_t size = std::min(text.size(), sizeof message.text - 1);
  std::copy_n(text.data(), size, message.text);
  message.text[size] = '\0';
}

}  // namespace

void TenantMemory::OnWant(ManagedTenant& kept, Slot slot, const share::Message& message) {
  const auto number = NumberFor(kept, slot, message);
  if (!number) return;
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 50;
  shared_.planner.RequestMemory(kept.tenant->id(), message.device,
                                Bytes(static_cast<std::int64_t>(std::min(message.bytes, kMostBytes))), *number);
}

void TenantMemory::OnPin(ManagedTenant& kept, Slot slot, const share::Message& message) {
  const TenantId id = kept.tenant->id();
  const auto number = NumberFor(kept, slot, message);
  if (!number) return;
  shared_.planner.Pin(id, *number);
  // Lets the program's call continue after a timeout, even if the tenant could not be moved to its planned GPUs by
  // then.
  shared_.loop.After(kPinTimeout, [this, id, pin = *number] {
    const ManagedTenant* still = shared_.Find(id);
    if (still == nullptr || !still->wants.contains(pin)) return;
    shared_.planner.ForgetRequest(id, pin);
    Answer(sharing::Answer{id, 0, pin, true, ""});
  });
}

bool TenantMemory::OnDone(TenantId id, Slot slot, const share::Message& message) {
  const auto shrinking = shrinking_.find(message.id);
  if (shrinking == shrinking_.end() || shrinking->second.tenant != id) return false;
  shrinking->second.awaited.erase(slot);
  if (shrinking->second.awaited.empty()) EndShrink(message.id);
  return true;
}

void TenantMemory::OnGone(ManagedTenant& kept, Slot slot) {
  const TenantId id = kept.tenant->id();
  std::erase_if(kept.wants, [&](const auto& want) {
    if (want.second.slot != slot) return false;
    shared_.planner.ForgetRequest(id, want.first);
    return true;
  });
  for (auto& [number, shrinking] : shrinking_) {
    if (shrinking.tenant == id) shrinking.awaited.erase(slot);
  }
}

void TenantMemory::RemoveTenant(TenantId id) {
  std::erase_if(shrinking_, [id](const auto& entry) { return entry.second.tenant == id; });
  std::erase_if(refused_ceilings_, [id](const RefusedCeiling& issued) { return issued.action.tenant == id; });
}

// A process has few threads that wait for an answer. Requests beyond the limit are denied, so that none is forgotten.
std::optional<std::uint64_t> TenantMemory::NumberFor(ManagedTenant& kept, Slot slot, const share::Message& message) {
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
  shared_.is_planner_due = true;
  return number;
}

void TenantMemory::SetCeiling(std::uint64_t id, const sharing::SetCeiling& action) {
  ManagedTenant* kept = shared_.Find(action.tenant);
  if (kept == nullptr || kept->tenant == nullptr) return;
  const auto ceiling = kept->tenant->SetCeiling(action.device, static_cast<std::uint64_t>(action.bytes.count()));
  if (!ceiling) {
    refused_ceilings_.push_back({id, action});
    if (refused_ceilings_.size() == 1) shared_.loop.After(kLockRetry, [this] { RetryCeilings(); });
    return;
  }
  sharing::Done done;
  done.bytes = Bytes(static_cast<std::int64_t>(*ceiling));
  shared_.planner.OnDone(id, done, shared_.loop.Now());
  shared_.is_planner_due = true;
}

void TenantMemory::RetryCeilings() {
  for (const RefusedCeiling& issued : std::exchange(refused_ceilings_, {})) SetCeiling(issued.id, issued.action);
}

void TenantMemory::Answer(const sharing::Answer& answer) {
  ManagedTenant* kept = shared_.Find(answer.tenant);
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

void TenantMemory::Shrink(std::uint64_t id, const sharing::Shrink& shrink) {
  ManagedTenant* kept = shared_.Find(shrink.tenant);
  if (kept == nullptr || kept->tenant == nullptr) return;
  // Disjoint from the ids of relocation orders.
  const std::uint64_t number = next_number_++ | std::uint64_t{1} << 63;
  Shrinking& shrinking = shrinking_[number];
  shrinking.tenant = shrink.tenant;
  shrinking.device = shrink.device;
  shrinking.action_id = id;
  share::Message message{};
  message.word = share::Word::kShrink;
  message.device = shrink.device;
  message.id = number;
  message.bytes = static_cast<std::uint64_t>(shrink.bytes.count());
  for (const auto& [slot, process] : kept->tenant->processes()) {
    if (kept->tenant->Send(slot, message)) shrinking.awaited.insert(slot);
  }
  const Duration timeout = shrinking.awaited.empty() ? Duration(0) : kShrinkTimeout;
  shared_.loop.After(timeout, [this, number] { EndShrink(number); });
}

void TenantMemory::EndShrink(std::uint64_t number) {
  const auto found = shrinking_.find(number);
  if (found == shrinking_.end()) return;
  const Shrinking ended = found->second;
  shrinking_.erase(found);
  if (ManagedTenant* kept = shared_.Find(ended.tenant)) use_.RefreshUse(*kept);
  shared_.planner.OnDone(ended.action_id, {}, shared_.loop.Now());
  shared_.is_planner_due = true;
}

}  // namespace divvy::keeper
