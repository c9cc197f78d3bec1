#include "node/lease.h"

#include <algorithm>

#include "base/text.h"

namespace divvy {
namespace {

/// Beats without an answer that are remembered; an older one extends nothing.
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
  return std::string(boot_id) + " " + std::to_string(renewed_.count()) + " " + std::to_string(terms_.lease.count()) +
         " " + std::to_string(terms_.heartbeat.count()) + (terms_.stops_jobs ? " stops" : " stays") + "\n";
}

std::optional<Lease> Lease::FromText(std::string_view text, std::string_view boot_id) {
  const auto words = SplitWords(Trim(text));
  if (words.size() != 5 || words[0] != boot_id || (words[4] != "stops" && words[4] != "stays")) return std::nullopt;
  const auto renewed = ParseInteger(words[1]), length = ParseInteger(words[2]), heartbeat = ParseInteger(words[3]);
  if (!renewed || !length || !heartbeat || *length <= 0 || *heartbeat <= 0) return std::nullopt;
  Lease lease;
  lease.Begin({Duration(*heartbeat), Duration(*length), words[4] == "stops"}, Duration(*renewed));
  return lease;
}

}  // namespace divvy
