// The most recently used rows of the table `captures`, which has the environments of submissions. Users submit many
// jobs from one shell, and comparing an environment with these rows is cheaper than encoding it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "model/job.h"

namespace divvy {

/// Returns a hash of the environment, the limits and the umask. It only finds candidates, whose content is then
/// compared. So two builds of divvy may return different hashes.
std::int64_t HashOf(const Capture& capture);

class CaptureCache {
 public:
  /// Returns the id of the row with this content if the cache has it. `hash` is HashOf(capture).
  std::optional<std::int64_t> Find(std::int64_t hash, const Capture& capture) const;
  void Remember(std::int64_t hash, std::int64_t id, const Capture& capture);
  /// Empties the cache. Must be called when rows of the table may have been removed or rolled back.
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
