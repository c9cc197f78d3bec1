// The tenants of shared GPUs on every node, as the keepers reported them last. Informational and in memory only: no
// decision depends on it, and it is not stored.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/shares/share_journal.h"
#include "wire/messages/share_messages.h"

namespace divvy {

class SharingSnapshot {
 public:
  /// Stores the state of `node` (empty for the controller's own). Returns what has happened there since the previous
  /// state, for the jobs' histories.
  std::vector<ShareEvent> Set(const std::string& node, wire::KeeperState state, Time now) {
    std::vector<ShareEvent> events = journals_[node].Follow(state, now);
    states_.insert_or_assign(node, std::move(state));
    return events;
  }
  void Forget(const std::string& node) {
    states_.erase(node);
    journals_.erase(node);
  }
  /// Returns null if no GPU is known to be shared on that node.
  const wire::KeeperState* Find(std::string_view node) const {
    const auto at = states_.find(node);
    return at == states_.end() ? nullptr : &at->second;
  }
  /// Returns null if the job is on no shared GPU of that node.
  const wire::KeptTenant* Find(std::string_view node, JobId job) const {
    const wire::KeeperState* state = Find(node);
    if (state == nullptr) return nullptr;
    for (const wire::KeptTenant& tenant : state->tenants) {
      if (tenant.job == job) return &tenant;
    }
    return nullptr;
  }

 private:
  std::map<std::string, wire::KeeperState, std::less<>> states_;
  std::map<std::string, ShareJournal> journals_;
};

}  // namespace divvy
