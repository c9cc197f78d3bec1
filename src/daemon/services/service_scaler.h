// Decides what one service does: how many replicas it has, which of them are parked, which revision they run, and when
// an update is taken back. A state machine without I/O: the caller brings what it has observed, several times a second,
// and carries out the actions.
//
//  - A replica is starting, ready, parking, parked or draining. Only ready ones get requests.
//  - Ready replicas follow the load (engine/autoscale). Surplus ones are parked if they can be, else drained and
//    stopped. Parked ones are woken before any new one starts.
//  - An update starts replicas of the target revision beside the old ones. For each one that is ready, it drains an
//    old one. If the new revision fails before it was ever healthy, the target is the last healthy revision again.
//  - A canary is another revision, which gets a share of the requests. Its replicas are beside those of the target,
//    enough for its share, and are never parked. It ends if it fails before it was ever healthy.
//  - A replica that ends by itself is replaced, with growing delays.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "engine/autoscale/autoscaler.h"
#include "wire/services/service_messages.h"

namespace divvy {

struct ReplicaFacts {
  enum class Job { kEnded, kWaiting, kRunning, kStopping };
  Job job = Job::kWaiting;
  std::string end;  // For kEnded: "exited with code 1".
  Time running_since = kNoTime;
  bool answers = false;  // The last probe of a starting replica succeeded.
  /// The port answers, and no process of the replica's owner listens there.
  bool is_foreign = false;
  std::uint32_t attempt = 0;  // The launch generation of its job.
  bool can_park = false;
  bool fails_checks = false;  // The front counts it as down.
  std::int64_t in_flight = 0;
};

struct ServiceFacts {
  Time now = kNoTime;
  Time stat_at = kNoTime;                         // When the front counted `in_flight`. kNoTime: it did not answer yet.
  std::optional<double> load;                     // In the unit of the target. Nothing: the front did not answer.
  bool is_memory_short = false;                   // Parked replicas must go.
  std::map<std::int64_t, ReplicaFacts> replicas;  // By number; every replica has an entry.
};

struct ServiceAction {
  enum class Kind { kStart, kStop, kPark, kWake };
  Kind kind = Kind::kStart;
  std::int64_t replica = 0;   // Not for kStart.
  std::int64_t revision = 0;  // Only for kStart.
  std::string reason;
};

/// Returns the sum of a metric over the ready replicas. Those with no value, or with one that is negative or no number,
/// count like the mean of the others. Returns nullopt if there is no value or the sum is infinite, and 0 if there
/// is no replica.
std::optional<double> SumOfMetric(const std::vector<std::optional<double>>& of_ready);

class ServiceScaler {
 public:
  /// `kept` must outlive the object; only this class and the caller that carries out its actions change it.
  ServiceScaler(wire::KeptService& kept, Time now);

  /// Cost: O(replicas log replicas). Sets `is_changed` if the row of the service must be stored again.
  std::vector<ServiceAction> Step(const ServiceFacts& facts);
  bool TakeChanged() { return std::exchange(is_changed_, false); }

  /// The settings have changed.
  void OnSettings();
  /// A new target revision was set; earlier failures do not count any more.
  void OnNewTarget(const std::string& why, Time now);
  /// The row has another canary, or another share for it.
  void OnNewCanary(const std::string& why, Time now);
  /// Takes the canary back, if there is one, and notes the reason in its revision, unless that has a note. A caller
  /// that makes it the target removes the note.
  void EndCanary(const std::string& why, Time now);
  /// The job of a replica was submitted and could not be stored: the replica is forgotten.
  void OnStartLost(std::int64_t replica);
  /// No job could be submitted for a replica of this revision.
  void OnStartRefused(std::int64_t revision, const std::string& why, Time now);
  void OnParked(std::int64_t replica, const Status& done, Time now);
  void OnWoken(std::int64_t replica, const Status& done, Time now);

  /// Whether the replicas report the metric of the settings, if there is one.
  void OnMetric(bool is_known);

  /// "cold", "parked", "starting", "hot", "updating", "canary", "failing", "deleting"
  std::string StateName() const;
  /// The present problem; empty if there is none.
  std::string Note() const;
  const std::string& NoteOf(std::int64_t replica) const;
  const std::string& scaled() const { return scaled_; }
  const std::deque<wire::ServiceEvent>& events() const { return events_; }
  double last_wake_s() const { return last_wake_s_; }
  /// Replicas that were told to wake and are not awake yet.
  bool IsWaking(std::int64_t replica) const;
  /// Whether requests may be held just now, so that the next look should be soon.
  bool HasNoReady() const;
  void AddEvent(const std::string& text, Time now);

 private:
  struct Runtime {
    bool was_asked = false;     // To park or to stop.
    Time parks_from = kNoTime;  // After a failure.
    Time wakes_from = kNoTime;
    Time waking_since = kNoTime;
    std::optional<std::uint32_t> attempt;  // The launch generation of its job, as seen last.
    std::string note;
  };
  using Replicas = std::vector<wire::ServiceReplica*>;

  void Set(wire::ServiceReplica& replica, std::string state, Time now);
  void ForgetEnded(const ServiceFacts& facts);
  void FollowStarts(const ServiceFacts& facts);
  void Scale(const ServiceFacts& facts);
  void Update(const ServiceFacts& facts, std::vector<ServiceAction>& actions);
  void AdjustCanary(const ServiceFacts& facts, std::vector<ServiceAction>& actions);
  void Adjust(const ServiceFacts& facts, std::vector<ServiceAction>& actions);
  /// Wakes up to `need` replicas. Returns how many more are needed.
  int WakeParked(const Replicas& all, int need, const ServiceFacts& facts, std::vector<ServiceAction>& actions);
  void FinishParkingAndDraining(const ServiceFacts& facts, std::vector<ServiceAction>& actions);
  void OnFailure(std::int64_t revision, const std::string& what, Time now);
  void RollBack(const std::string& why, Time now);
  void Start(int count, const std::string& reason, Time now, std::vector<ServiceAction>& actions);
  bool CanPark(const wire::ServiceReplica& replica, const ServiceFacts& facts) const;
  wire::ServiceRevision* FindRevision(std::int64_t number);
  bool IsCanary(const wire::ServiceReplica& replica) const {
    return kept_.canary_revision != 0 && replica.revision == kept_.canary_revision;
  }
  /// Not draining, of the target revision or of others, without the canary.
  Replicas Of(bool is_target);
  /// How many of them are ready or starting.
  static int HotOf(const Replicas& replicas);
  /// How many have this state, without the canary.
  int CountOf(std::string_view state) const;

  wire::KeptService& kept_;
  autoscale::Autoscaler autoscaler_;
  std::map<std::int64_t, Runtime> runtime_;
  std::deque<wire::ServiceEvent> events_;
  std::string scaled_;  // Why `wanted_` changed last.
  std::string growth_;  // Why `wanted_` grew last. Empty: it has shrunk since.
  std::string note_;
  std::string refusal_;  // Why a replica could not be submitted.
  int wanted_ = 0;       // Ready replicas that the load needs.
  bool is_metric_missing_ = false;
  int failures_ = 0;  // In a row.
  int canary_failures_ = 0;
  int canary_refusals_ = 0;  // Submissions in a row. They say nothing about the revision.
  Time canary_retry_at_ = kNoTime;
  Time retry_at_ = kNoTime;
  Time observed_at_ = kNoTime;
  Time loaded_at_;  // When there was load last.
  double last_wake_s_ = 0;
  bool is_changed_ = false;
};

}  // namespace divvy
