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
  /// The replica's port answers, but the process that listens there belongs to another user.
  bool is_foreign = false;
  std::uint32_t attempt = 0;  // The launch generation of its job.
  bool can_park = false;
  bool fails_checks = false;  // HAProxy's health check of the replica fails.
  std::int64_t in_flight = 0;
};

struct ServiceFacts {
  Time now = kNoTime;
  Time stat_at = kNoTime;                         // When HAProxy counted `in_flight`. kNoTime: no answer from it yet.
  std::optional<double> load;                     // In the unit of the target; nullopt: HAProxy has not answered.
  bool is_memory_short = false;                   // Parked replicas must be stopped to free host memory.
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

  /// Decides what to do now and returns the actions. Cost: O(replicas log replicas). Afterwards TakeChanged returns
  /// true if the row of the service must be stored again.
  std::vector<ServiceAction> Step(const ServiceFacts& facts);
  bool TakeChanged() { return std::exchange(is_changed_, false); }

  /// Call when the settings of the service have changed.
  void OnSettings();
  /// Call when a new target revision was set. Earlier failures do not count any more.
  void OnNewTarget(const std::string& why, Time now);
  /// Call when the canary, or its share of the requests, was changed in the row of the service.
  void OnNewCanary(const std::string& why, Time now);
  /// Ends the canary, if there is one: its revision gets no more requests. Stores `why` as the note of that revision,
  /// unless it has one. A caller that makes the canary the target revision must remove the note.
  void EndCanary(const std::string& why, Time now);
  /// Call when the job of a new replica was submitted but could not be stored. The replica is forgotten.
  void OnStartLost(std::int64_t replica);
  /// Call when no job could be submitted for a replica of this revision; `why` is the reason.
  void OnStartRefused(std::int64_t revision, const std::string& why, Time now);
  void OnParked(std::int64_t replica, const Status& done, Time now);
  void OnWoken(std::int64_t replica, const Status& done, Time now);

  /// Tells whether the replicas report the metric by which the service is scaled, if its settings name one.
  void OnMetric(bool is_known);

  /// Returns the state of the service: "cold", "parked", "starting", "hot", "updating", "canary", "failing",
  /// "deleting".
  std::string StateName() const;
  /// The present problem; empty if there is none.
  std::string Note() const;
  const std::string& NoteOf(std::int64_t replica) const;
  const std::string& scaled() const { return scaled_; }
  const std::deque<wire::ServiceEvent>& events() const { return events_; }
  double last_wake_s() const { return last_wake_s_; }
  /// Returns true if the replica was told to wake and is not awake yet.
  bool IsWaking(std::int64_t replica) const;
  /// Returns true if no replica is ready. Requests may then be waiting in the front, so Step should be called again
  /// soon.
  bool HasNoReady() const;
  void AddEvent(const std::string& text, Time now);

 private:
  struct Runtime {
    bool was_asked = false;     // To park or to stop.
    Time parks_from = kNoTime;  // After a failure.
    Time wakes_from = kNoTime;
    Time waking_since = kNoTime;
    std::optional<std::uint32_t> attempt;  // The launch generation of its job, as seen last.
    bool was_ready = false;
    std::string why_stopped;  // While it drains. Empty: it is not needed.
    std::string note;
  };
  using Replicas = std::vector<wire::ServiceReplica*>;

  void Set(wire::ServiceReplica& replica, std::string state, Time now);
  void ForgetEnded(const ServiceFacts& facts);
  void FollowStarts(const ServiceFacts& facts);
  void ForgetOldFailures(Time now);
  void Scale(const ServiceFacts& facts);
  void Update(const ServiceFacts& facts, std::vector<ServiceAction>& actions);
  void AdjustCanary(const ServiceFacts& facts, std::vector<ServiceAction>& actions);
  void Adjust(const ServiceFacts& facts, std::vector<ServiceAction>& actions);
  /// Wakes up to `need` replicas. Returns how many more are needed.
  int WakeParked(const Replicas& all, int need, const ServiceFacts& facts, std::vector<ServiceAction>& actions);
  void FinishParkingAndDraining(const ServiceFacts& facts, std::vector<ServiceAction>& actions);
  /// Removes the note about the last failure, but not one about a rollback.
  void ClearNote();
  void OnFailure(std::int64_t revision, const std::string& what, Time now);
  void RollBack(const std::string& why, Time now);
  void Start(int count, const std::string& reason, Time now, std::vector<ServiceAction>& actions);
  bool CanPark(const wire::ServiceReplica& replica, const ServiceFacts& facts) const;
  wire::ServiceRevision* FindRevision(std::int64_t number);
  bool IsCanary(const wire::ServiceReplica& replica) const {
    return kept_.canary_revision != 0 && replica.revision == kept_.canary_revision;
  }
  /// Returns the replicas that are not draining and do not belong to the canary: those of the target revision, or those
  /// of other revisions.
  Replicas Of(bool is_target);
  /// Returns how many of these replicas are ready or starting.
  static int HotOf(const Replicas& replicas);
  /// Returns how many replicas have this state, without those of the canary.
  int CountOf(std::string_view state) const;

  wire::KeptService& kept_;
  autoscale::Autoscaler autoscaler_;
  std::map<std::int64_t, Runtime> runtime_;
  std::deque<wire::ServiceEvent> events_;
  std::string scaled_;  // Why `wanted_` changed last.
  std::string growth_;  // Why `wanted_` grew last. Empty if it has shrunk since.
  std::string note_;
  std::string refusal_;  // Why a replica could not be submitted.
  int wanted_ = 0;       // Ready replicas that the load needs.
  bool is_metric_missing_ = false;
  int failures_ = 0;  // Failures since a replica was stable last.
  int delays_ = 0;    // How often starts were delayed in that time.
  Time failed_at_ = kNoTime;
  int canary_failures_ = 0;
  int canary_refusals_ = 0;  // Consecutive refused submissions of canary replicas; not failures of the revision.
  Time canary_retry_at_ = kNoTime;
  Time retry_at_ = kNoTime;
  Time observed_at_ = kNoTime;
  Time loaded_at_;  // When there was load last.
  double last_wake_s_ = 0;
  bool is_changed_ = false;
};

}  // namespace divvy
