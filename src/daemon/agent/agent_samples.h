// Sends the samples of an agent's node to the controller, in batches of ten seconds, or each second while a client
// views them. While the controller is not connected, the samples of the last ten minutes are kept.
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
  static constexpr std::size_t kMostAtOnce = 120;  // The limit on samples in one message.

  /// `send` receives the bytes of EncodeSnapshots and returns false if they cannot be sent now.
  explicit AgentSamples(std::function<bool(const std::string& bytes)> send) : send_(std::move(send)) {}

  /// Adds the sample of a second. `is_watched`: a client views samples, so it is sent at once.
  void Add(samples::Snapshot snapshot, bool is_watched);
  std::size_t kept() const { return kept_.size(); }

 private:
  std::function<bool(const std::string&)> send_;
  std::deque<samples::Snapshot> kept_;
};

}  // namespace divvy
