// What an agent's machine used, until its controller has it: batches of ten seconds, or each second while somebody
// looks. Where the controller is away, the last ten minutes are kept for it.
#pragma once

#include <deque>
#include <functional>
#include <string>

#include "samples/sample.h"

namespace divvy {

class AgentSamples {
 public:
  static constexpr std::size_t kBatch = 10;
  static constexpr std::size_t kMostKept = 600;
  static constexpr std::size_t kMostAtOnce = 120;  // Of what has gathered meanwhile, in one message.

  /// `send`: bytes of EncodeSnapshots; false: not now.
  explicit AgentSamples(std::function<bool(const std::string& bytes)> send) : send_(std::move(send)) {}

  void Add(samples::Snapshot snapshot, bool is_watched);
  std::size_t kept() const { return kept_.size(); }

 private:
  std::function<bool(const std::string&)> send_;
  std::deque<samples::Snapshot> kept_;
};

}  // namespace divvy
