#include "store/capture_cache.h"

#include <bit>
#include <functional>
#include <string_view>

namespace divvy {

std::int64_t HashOf(const Capture& capture) {
  std::uint64_t hash = static_cast<std::uint64_t>(capture.umask);
  const auto mix = [&](std::uint64_t value) { hash = (std::rotl(hash, 5) ^ value) * 0x9E3779B97F4A7C15; };
  for (const std::string& variable : capture.environment) mix(std::hash<std::string_view>{}(variable));
  for (const auto& [name, limit] : capture.limits) {
    mix(std::hash<std::string_view>{}(name));
    mix(static_cast<std::uint64_t>(limit));
  }
  return std::bit_cast<std::int64_t>(hash);
}

std::optional<std::int64_t> CaptureCache::Find(std::int64_t hash, const Capture& capture) const {
  for (const Known& known : known_) {
    if (known.hash == hash && known.capture == capture) return known.id;
  }
  return std::nullopt;
}

void CaptureCache::Remember(std::int64_t hash, std::int64_t id, const Capture& capture) {
  if (known_.size() < kSize) {
    known_.push_back({hash, id, capture});
  } else {
    known_[next_] = {hash, id, capture};
    next_ = (next_ + 1) % kSize;
  }
}

void CaptureCache::Clear() {
  known_.clear();
  next_ = 0;
}

}  // namespace divvy
