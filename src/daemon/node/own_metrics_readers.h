// Reads the metrics that jobs print, for all jobs of this node. A user's file system may never answer, so logs that
// users named are read on a thread for each user. A user whose thread is stuck gets no metrics; all others do.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/node/own_metrics.h"

namespace divvy {

/// Must not be used by two threads at a time. Does not wait for threads that are stuck when it is destroyed.
class OwnMetricsReaders {
 public:
  /// How long a call waits for the users' threads. Later results are part of a later call's.
  static constexpr std::chrono::milliseconds kPatience{300};

  /// See OwnMetrics::Look. Cost: one short-lived thread for each user with such logs.
  void Look(const std::vector<OwnMetrics::Source>& sources, const std::string& node, samples::Snapshot& out);

 private:
  struct OfUser;

  OwnMetrics ours_;
  std::map<std::int64_t, std::shared_ptr<OfUser>> users_;  // By uid; each is shared with its thread.
};

}  // namespace divvy
