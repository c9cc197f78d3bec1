// The trace of a chaos world: its last events, the first broken invariant, its two clocks and its fault counts. An
// event is three words without text, because millions of them are created and few are ever read.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.h"
#include "model/job.h"

namespace divvy::simulate {

/// `true_time` only moves forward. The wall clock may be set to anything.
struct ChaosClock {
  Time true_time = Time(std::chrono::hours(500'000));
  Duration skew{0};

  Time Wall() const { return true_time + skew; }
};

class ChaosTrace {
 public:
  /// Makes a trace that keeps the last `kept` events of a chaos run.
  explicit ChaosTrace(std::size_t kept) : events_(std::max<std::size_t>(kept, 1)) {}

  std::uint64_t step = 0;

  /// Adds an event. `what` must be a string literal, because it is not copied.
  void Note(std::string_view what, JobId job = JobId(), std::int64_t detail = 0) {
    events_[next_++ % events_.size()] = {step, what, job, detail};
  }
  /// Reports a broken invariant. Only the first one is kept.
  void Break(std::string why) {
    if (!broken_.empty()) return;
    broken_ = std::move(why);
    Note("INVARIANT BROKEN");
  }
  const std::string& broken() const { return broken_; }

  /// Returns the kept events as text, oldest first, one per line.
  std::string Text() const {
    std::string text;
    for (std::size_t i = next_ > events_.size() ? next_ - events_.size() : 0; i < next_; ++i) {
      const Event& event = events_[i % events_.size()];
      text += "step " + std::to_string(event.step) + "  " + std::string(event.what);
      if (event.job.is_set()) text += " " + ToString(event.job);
      if (event.detail != 0) text += " (" + std::to_string(event.detail) + ")";
      text += "\n";
    }
    return text;
  }

 private:
  struct Event {
    std::uint64_t step = 0;
    std::string_view what;
    JobId job;
    std::int64_t detail = 0;
  };
  std::vector<Event> events_;
  std::size_t next_ = 0;
  std::string broken_;
};

}  // namespace divvy::simulate
