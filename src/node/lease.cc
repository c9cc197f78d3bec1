#include "node/lease.h"

#include <algorithm>

#include "model/lease_note.h"

namespace divvy {
namespace {

/// Limit of remembered unanswered heartbeats; an answer to an older one extends nothing.
constexpr std::size_t kUnanswered = 64;

}  // namespace

void Lease::Begin(const LeaseTerms& terms, Duration asked) {
  terms_ = terms;
  is_begun_ = true;
  renewed_ = std::max(renewed_, asked);
  next_beat_ = asked + terms.heartbeat;
  sent_.clear();
}

std::uint64_t Lease::Beat(Duration now) {
  next_beat_ = now + terms_.heartbeat;
  sent_.emplace(++last_beat_, now);
  if (sent_.size() > kUnanswered) sent_.erase(sent_.begin());
  return last_beat_;
}

void Lease::OnAnswer(std::uint64_t beat) {
  const auto sent = sent_.find(beat);
  if (sent == sent_.end()) return;
  renewed_ = std::max(renewed_, sent->second);
  sent_.erase(sent_.begin(), std::next(sent));
}

std::string Lease::ToText(std::string_view boot_id) const {
  return LeaseNoteText({std::string(boot_id), renewed_, terms_});
}

std::optional<Lease> Lease::FromText(std::string_view text, std::string_view boot_id) {
  const auto note = ParseLeaseNote(text);
  if (!note || note->boot_id != boot_id) return std::nullopt;
  Lease lease;
  lease.Begin(note->terms, note->renewed);
  return lease;
}

}  // namespace divvy
