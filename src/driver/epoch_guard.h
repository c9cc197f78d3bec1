// Which controllers an agent follows: only one with the newest epoch that it has seen. So a controller that no longer
// leads cannot command it, however late it wakes up. The agent and the simulator share this class.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace divvy {

class EpochGuard {
 public:
  /// Checks that this node never follows an older leader after a newer one. `newest`: the newest epoch (the number of a
  /// leader's term) that the node has followed, as stored by earlier agents.
  explicit EpochGuard(std::uint64_t newest) : newest_(newest) {}

  /// The epoch of the controller that this agent follows now; 0: none yet.
  std::uint64_t session() const { return session_; }
  std::uint64_t newest() const { return newest_; }

  /// Returns OK if the node may follow a controller that introduces itself with this epoch, otherwise the reason why
  /// not.
  Status CheckWelcome(std::uint64_t epoch) const {
    if (epoch >= newest_) return {};
    return FailedPrecondition("this controller began before another one that we followed (epoch " +
                              std::to_string(epoch) + ", the newest is " + std::to_string(newest_) +
                              "); its commands are ignored");
  }
  /// Follows the controller with this epoch from now on. Returns true if the epoch is new; the caller must then store
  /// it before it executes a command of this controller.
  bool Follow(std::uint64_t epoch) {
    const bool is_new = epoch > newest_;
    if (is_new) newest_ = epoch;
    return is_new;
  }
  void BeginSession(std::uint64_t epoch) { session_ = epoch; }
  Status CheckCommand(std::uint64_t epoch) const {
    if (epoch == session_) return {};
    return FailedPrecondition("an order of epoch " + std::to_string(epoch) + " came in epoch " +
                              std::to_string(session_));
  }

 private:
  std::uint64_t newest_;
  std::uint64_t session_ = 0;
};

}  // namespace divvy
