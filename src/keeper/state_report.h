// The state of all tenants, as the node sees it.
#pragma once

#include <string>

#include "keeper/relocations.h"
#include "keeper/whole_takes.h"

namespace divvy::keeper {

class StateReport {
 public:
  StateReport(const KeeperContext& shared, const Relocations& relocations, const SliceTenants& slices,
              const WholeTakes& takes)
      : shared_(shared), relocations_(relocations), slices_(slices), takes_(takes) {}

  /// Adds a general problem, such as an unreadable file.
  void AddTrouble(std::string trouble) { troubles_.push_back(std::move(trouble)); }
  wire::KeeperState State() const;
  /// Sends the state to the node's daemon or agent if it has changed since the last report and that was not too recent.
  /// Call this periodically.
  void Show();
  /// Makes the next Show send the state even if it has not changed.
  void Forget() { shown_.clear(); }

 private:
  wire::KeptTenant StateOf(const ManagedTenant& kept) const;

  const KeeperContext& shared_;
  const Relocations& relocations_;
  const SliceTenants& slices_;
  const WholeTakes& takes_;
  std::vector<std::string> troubles_;
  std::string shown_;
  Time shown_at_ = kNoTime;
};

}  // namespace divvy::keeper
