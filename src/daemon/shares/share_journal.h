// Turns two successive states of a keeper into events for job histories and the log: tenants that were parked, woken or
// moved. The rate is limited, so that a node that moves tenants all day does not fill the store. Each tenant may report
// a few events at once, then one a minute. The next event says how many were left out. Pure: no I/O.
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

  /// Returns the events between the last state and `state`, the keeper's new one. The first appearance of a tenant is
  /// an event only if the tenant is not on its planned GPU.
  std::vector<ShareEvent> Follow(const wire::KeeperState& state, Time now);

 private:
  struct Known {
    std::uint32_t attempt = 0;
    std::vector<int> gpus;
    bool is_parked = false;
    Time passed_at = kNoTime;  // The time of the tenant's last move, parking or waking that was processed.
    // The rate limit's state.
    int tokens = kAtOnce;
    Time filled_at = kNoTime;
    int left_out = 0;
  };
  static bool MayTell(Known& known, Time now);
  /// Returns the text of the event; empty if nothing is to be reported.
  static std::string Take(Known& known, const wire::KeptPassage& passage);

  std::map<JobId, Known> known_;
};

/// Formats GPU indices: "GPU 1", "GPUs 0,3".
std::string GpusInWords(const std::vector<int>& gpus);

}  // namespace divvy
