// How many replicas a service needs for its load: Knative's pod autoscaler with its stable and panic windows, and Ray
// Serve's rule that a decision must last before it is followed. A state machine without I/O: the caller observes the
// load every few seconds and gets the number of replicas.
//
//  - Load is what one replica can have several of: requests in flight and queued, requests per second, or a metric of
//    the service. Wanted are load / target replicas, by the mean of the stable window.
//  - A burst panics: if the mean of the short window wants `panic_threshold` times the ready replicas, that number is
//    followed at once. Nothing shrinks until no burst was seen for a whole stable window.
//  - Otherwise more replicas are wanted for `up_delay` before they start, and fewer for `down_delay` before any stops.
//    One decision stops at most all but 1 / max_down of the ready ones.
//  - The last replica stops after `zero_after` without load, if `min` is 0. The first request starts one at once.
//  - Without an observation nothing changes, and starting replicas count, so that nothing is started twice.
#pragma once

#include <deque>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/time.h"

namespace divvy::autoscale {

struct Settings {
  double target = 1;  // Load per replica.
  int min = 0;
  int max = 1;
  Duration stable_window = std::chrono::seconds(60);
  Duration panic_window = std::chrono::seconds(6);
  double panic_threshold = 2;
  double max_up = 1000;  // One decision has at most this many times the ready replicas.
  double max_down = 2;
  Duration up_delay{0};
  Duration down_delay = std::chrono::minutes(5);
  Duration zero_after = std::chrono::minutes(10);
  /// A need of 4.04 replicas is 4: exact multiples of the target do not flap.
  double tolerance = 0.05;
};
/// Checks the settings of automatic scaling. The error is one sentence that names the setting, what is allowed, and the
/// fix.
Status CheckSettings(const Settings& settings);

struct Observation {
  Time at = kNoTime;
  std::optional<double> load;  // Nothing: the proxy did not answer.
  int ready = 0;
  int starting = 0;
};

struct Decision {
  int replicas = 0;
  bool is_panicking = false;
  std::string reason;  // "2 -> 4: load 37 over 60 s, target 10". Empty: nothing changes.
};

class Autoscaler {
 public:
  /// Decides how many replicas a service needs. `settings` must be valid (CheckSettings).
  explicit Autoscaler(const Settings& settings) : settings_(settings) {}

  /// Adds an observation of the load and returns the number of replicas for it. `observation.at` must not be earlier
  /// than that of the previous call. Cost: O(observations in the longest window).
  Decision Observe(const Observation& observation);

 private:
  struct Load {
    Time at;
    double load;
  };
  struct Wanted {
    Time at;
    int replicas;
  };

  double MeanOver(Duration window, Time now) const;
  int ReplicasFor(double load) const;

  Settings settings_;
  std::deque<Load> loads_;     // Loads in the stable window.
  std::deque<Wanted> wanted_;  // Decisions in the down delay.
  Time panics_until_ = kNoTime;
  int panic_replicas_ = 0;
  Time more_since_ = kNever;  // Since when more replicas are wanted without a break.
  Time loaded_at_ = kNoTime;  // When there was load last.
};

}  // namespace divvy::autoscale
