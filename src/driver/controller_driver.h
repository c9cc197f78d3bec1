// Connects the controller with the store and the nodes. Every event is applied at once, made durable in groups, and
// only then sent on and answered. Runs on the loop's thread; the committer decides where the store's commits run.
//
// Only one commit is under way at a time. Changes that arrive meanwhile wait for the next one, so the busier the daemon
// is, the more each commit carries.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "control/controller/controller.h"
#include "driver/node_command_port.h"
#include "driver/times_taken.h"
#include "store/store.h"

namespace divvy {

class ControllerDriver {
 public:
  /// Services of the loop: `post` runs a closure on the loop's thread, later, and may be called from any thread.
  /// `commit` makes batches durable and then posts the result.
  struct Ports {
    std::function<void(std::function<void()>)> post;
    std::function<void(std::vector<Batch>, std::function<void(Status)>)> commit;
    std::function<void(Duration, std::function<void()>)> after;
    /// Called when the store fails in a way that a restart may repair. It reports the error and ends the process.
    std::function<void(const Error&)> give_up;
    /// Optional. Returns false while another controller may lead. Then nothing is committed, sent to nodes or confirmed
    /// to clients.
    std::function<bool()> may_act;
    /// Optional. Called when trouble() begins, changes or ends (empty).
    std::function<void(const std::string& trouble)> on_trouble;
    /// Optional. `complete` may add store rows to the effects of a change before they are committed together;
    /// `on_durable` is called with the effects after that commit.
    std::function<void(Effects&)> complete;
    std::function<void(const Effects&)> on_durable;
  };

  ControllerDriver(Controller& controller, Store& store, const Clock& clock, NodeCommandPort& commands, Ports ports);

  Controller& controller() { return controller_; }
  Store& store() { return store_; }
  Time Now() const { return clock_.Now(); }
  const Clock& clock() const { return clock_; }
  /// Returns the latest time that it can be now (Clock::Latest). It decides whether tokens and sessions have expired.
  Time Latest() const { return clock_.Latest(); }

  /// Must be called after every change of the controller's state. At the end of this loop iteration, jobs are scheduled
  /// and the changes are committed to the store.
  void Touch();
  using Answer = std::function<void(const Status&)>;
  /// The answer to the caller of AfterCommit while nothing can be stored.
  enum class IfNotStored {
    kWait,  // None yet.
    /// The error: for a submission, which is then undone, or for a caller that does not depend on durability.
    kRefuse,
    /// kTimedOut if the store is remote: the change stays, and is stored if the database answers again before
    /// another controller leads. None yet if the disk of a local store is full.
    kReport,
  };
  /// Calls `answer` when everything applied so far is durable. Errors come after a few seconds (kNewWorkWaits).
  void AfterCommit(Answer answer, IfNotStored otherwise = IfNotStored::kWait);
  /// Returns true if a change would wait now for a remote store, or for the lease.
  bool IsStoreAway() const;
  /// Calls `task` as soon as the store is not away, at once if it is not now. After a few seconds, calls it with
  /// kUnreachable instead. For changes that must not be applied before they can be stored.
  void WhenStoreAnswers(Answer task);

  /// WaitFor calls `on_final` with the job's record once the job has ended, at once if it already has. It returns an id
  /// for StopWaiting, or kNotFound for an unknown job.
  using OnFinal = std::function<void(const JobRecord&)>;
  Result<std::uint64_t> WaitFor(JobId job, OnFinal on_final);
  void StopWaiting(JobId job, std::uint64_t waiter);

  /// Subscribe calls `on_changes` with every change of jobs once it is durable. It returns an id for Unsubscribe.
  using OnChanges = std::function<void(const std::vector<Change>&, Time)>;
  std::uint64_t Subscribe(OnChanges on_changes);
  void Unsubscribe(std::uint64_t subscriber) { subscribers_.erase(subscriber); }

  /// Looks the job up among live jobs and in the store.
  Result<JobRecord> FindJob(JobId job);
  /// Like FindJob, but without reading the store: finds live jobs and ended ones that are not durable yet. If it
  /// returns nullopt, the job may still be in the store.
  std::optional<JobRecord> FindUnstored(JobId job);
  /// Returns the jobs that have ended and whose end is not in the store yet.
  std::vector<JobRecord> EndedUnstored();
  Result<std::shared_ptr<const JobSpec>> SpecOf(const JobRecord& record);
  /// Like SpecOf, but without reading the store. If it returns null, the specification may still be in the store.
  std::shared_ptr<const JobSpec> UnstoredSpecOf(const JobRecord& record) const;
  /// Like SpecOf, but includes changes made in this loop iteration. A further change of the specification starts from
  /// this one.
  Result<std::shared_ptr<const JobSpec>> NewestSpecOf(const JobRecord& record);
  /// Returns a function that looks up how a job has ended, for the dependencies of other jobs.
  FindOutcome Outcomes();
  /// False while another controller may lead (Ports::may_act).
  bool may_act() const { return !ports_.may_act || ports_.may_act(); }
  /// Empty, or the reason why no new work is accepted: "the disk is full ...".
  const std::string& trouble() const { return trouble_; }
  /// Durations of scheduling decisions and of commits since the start.
  const TimesTaken& decisions() const { return decisions_; }
  const TimesTaken& commits() const { return commits_; }

 private:
  struct Turn {
    Effects effects;
    struct Pending {
      Answer answer;
      IfNotStored otherwise = IfNotStored::kWait;
    };
    std::vector<Pending> answers;
  };

  void EndTurn();
  /// Collects what the controller has changed so far, so that jobs that ended in this loop iteration can be found
  /// before it is over.
  void Gather();
  std::optional<JobRecord> FindLive(JobId job) const;
  /// Returns the record of a job that has ended and whose end is not durable yet; null if there is none.
  const JobRecord* FindEnded(JobId job) const;
  void StartCommit();
  void OnCommitted(Status status);
  /// Calls `task` once may_act returns true. If that takes long, new work is refused meanwhile. Requires:
  /// is_committing_ is true until `task` is called.
  void WhenMayAct(std::function<void()> task);
  /// Refuses new work that has waited too long for a commit to end. Only a commit to a remote store takes that long.
  void WatchCommit();
  void AwaitStore(Time end, Answer task);
  /// Returns true if new work that waits for a remote store may wait longer.
  bool MayWait();
  void OnDiskFull(const Error& error);
  void Withdraw(std::deque<Turn>& turns, const Error& error);
  /// Gives the error to all answers with kReport.
  template <typename Turns>
  void Report(Turns& turns, const Error& error);
  void SendStops(std::deque<Turn>& turns);
  /// Sends the launch command to its node, later: once the job's specification can be read from the store.
  void LaunchLater(const LaunchCommand& command);
  void SetTrouble(std::string trouble);
  /// Returns the name of an array element or sweep element (--name-template); the array's name if the specification
  /// cannot be read.
  std::string NameOf(const JobRecord& element);
  /// Replaces the specification that is kept for `id`.
  void RememberSpec(JobId id, std::shared_ptr<const JobSpec> spec);
  void Carry(Turn& turn);
  void ArmWakeup();

  Controller& controller_;
  Store& store_;
  const Clock& clock_;
  NodeCommandPort& commands_;
  Ports ports_;
  std::deque<Turn> gathered_;
  std::vector<Turn> committing_;
  std::vector<Turn::Pending> answers_;  // Answers of this loop iteration.
  bool is_turn_due_ = false;
  bool is_committing_ = false;
  bool is_commit_watched_ = false;
  Time armed_for_ = kNever;
  TimesTaken decisions_{TimesTaken::kQuick};
  TimesTaken commits_{TimesTaken::kQuick};
  Time commit_began_ = kNoTime;
  Time waits_since_ = kNoTime;  // Since when nothing could be committed. kNoTime: the last commit was done.
  std::string trouble_;
  std::map<JobId, std::map<std::uint64_t, OnFinal>> waiters_;
  std::map<std::uint64_t, OnChanges> subscribers_;
  std::uint64_t next_handle_ = 1;
  /// A cache of the newest specifications: of arrays that start elements now, and of changed jobs. All other jobs are
  /// launched with the batch that inserted them, or their specification is read from the store.
  std::deque<std::pair<JobId, std::shared_ptr<const JobSpec>>> array_specs_;
};

}  // namespace divvy
