// What a job's history and the log tell of parts of GPUs: who was parked, came back or was moved between two states
// that a keeper showed. A node that spreads and packs all day does not fill a store with it: of each tenant a few lines
// at once, then one a minute, which says how many were left out before it. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/time.h"
#include "wire/messages/share_messages.h"

namespace divvy {

struct ShareEvent {
  JobId job;
  std::uint32_t attempt = 0;
  std::string text;  // "moved from GPU 0 to GPU 1", "parked: its room was needed", "back on GPU 1".
};

class ShareJournal {
 public:
  static constexpr int kAtOnce = 10;
  static constexpr Duration kOneMoreEvery = std::chrono::minutes(1);

  /// `state` is what the keeper shows from now on. A tenant's first showing is an event only where it is not on the GPU
  /// that the plan gave it.
  std::vector<ShareEvent> Follow(const wire::KeeperState& state, Time now);

 private:
  struct Known {
    std::uint32_t attempt = 0;
    std::vector<int> gpus;
    bool is_parked = false;
    Time passed_at = kNoTime;  // Its last passage that is taken in.
    // What may still be told.
    int tokens = kAtOnce;
    Time filled_at = kNoTime;
    int left_out = 0;
  };
  static bool MayTell(Known& known, Time now);
  /// What is to be told of it; empty: nothing is.
  static std::string Take(Known& known, const wire::KeptPassage& passage);

  std::map<JobId, Known> known_;
};

/// GPUs in words, by its devices: "GPU 1", "GPUs 0,3".
std::string GpusInWords(const std::vector<int>& gpus);

}  // namespace divvy
