// The most recently used rows of the table captures. Users submit many jobs from one shell, and comparing is cheaper
// than encoding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "model/job.h"

namespace divvy {

/// Only finds candidates, whose content is then compared. So the hash may differ between builds.
std::int64_t HashOf(const Capture& capture);

class CaptureCache {
 public:
  /// The id of its row, if that is known. `hash` is HashOf(capture).
  std::optional<std::int64_t> Find(std::int64_t hash, const Capture& capture) const;
  void Remember(std::int64_t hash, std::int64_t id, const Capture& capture);
  /// Must be called when rows may have been removed or rolled back.
  void Clear();

 private:
  struct Known {
    std::int64_t hash = 0;
    std::int64_t id = 0;
    Capture capture;
  };
  static constexpr std::size_t kSize = 32;
  std::vector<Known> known_;
  std::size_t next_ = 0;
};

}  // namespace divvy
