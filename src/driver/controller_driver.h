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
    /// The store is broken in a way that a restart may repair: reports the error and ends the process.
    std::function<void(const Error&)> give_up;
    /// Optional. False while another controller may lead: nothing is committed, sent or confirmed then.
    std::function<bool()> may_act;
    /// Optional. Called when trouble() begins, changes or ends (empty).
    std::function<void(const std::string& trouble)> on_trouble;
    /// Optional. `complete` adds rows to a step's effects that must be durable with them; `on_durable` reports that
    /// they are.
    std::function<void(Effects&)> complete;
    std::function<void(const Effects&)> on_durable;
  };

  ControllerDriver(Controller& controller, Store& store, const Clock& clock, NodeCommandPort& commands, Ports ports);

  Controller& controller() { return controller_; }
  Store& store() { return store_; }
  Time Now() const { return clock_.Now(); }
  const Clock& clock() const { return clock_; }
  /// Clock::Latest, for expiry times.
  Time Latest() const { return clock_.Latest(); }

  /// Must be called after every change of the controller. Plans and commits at the end of this loop iteration.
  void Touch();
  using Answer = std::function<void(const Status&)>;
  /// The caller of AfterCommit, while nothing can be stored.
  enum class IfNotStored {
    kWait,
    /// Gets the error: for a submission, which is then undone, or for a caller that does not depend on durability.
    kRefuse,
    /// Gets kTimedOut if the store is remote: the change stays, and is stored if the database answers again before
    /// another controller leads. Waits if the disk of a local store is full.
    kReport,
  };
  /// Calls `answer` when everything applied so far is durable. Errors come after a few seconds (kNewWorkWaits).
  void AfterCommit(Answer answer, IfNotStored otherwise = IfNotStored::kWait);
  /// Returns true if a change would wait now for a remote store, or for the lease.
  bool IsStoreAway() const;
  /// Calls `task` as soon as the store is not away, at once if it is not now. After a few seconds, calls it with
  /// kUnreachable instead. For changes that must not be applied before they can be stored.
  void WhenStoreAnswers(Answer task);

  /// Calls back with the final record, at once if the job is already final. Returns an id for StopWaiting, or kNotFound
  /// for an unknown job.
  using OnFinal = std::function<void(const JobRecord&)>;
  Result<std::uint64_t> WaitFor(JobId job, OnFinal on_final);
  void StopWaiting(JobId job, std::uint64_t waiter);

  /// Subscribes to every change, after it is durable.
  using OnChanges = std::function<void(const std::vector<Change>&, Time)>;
  std::uint64_t Subscribe(OnChanges on_changes);
  void Unsubscribe(std::uint64_t subscriber) { subscribers_.erase(subscriber); }

  /// Looks the job up among live jobs and in the store.
  Result<JobRecord> FindJob(JobId job);
  /// Like FindJob, but without reading the store: finds live jobs and ended ones that are not durable yet. If it
  /// returns nullopt, the job may still be in the store.
  std::optional<JobRecord> FindUnstored(JobId job);
  /// Jobs that are no longer live and not yet in the store as ended.
  std::vector<JobRecord> EndedUnstored();
  Result<std::shared_ptr<const JobSpec>> SpecOf(const JobRecord& record);
  /// Like SpecOf, but without reading the store. If it returns null, the specification may still be in the store.
  std::shared_ptr<const JobSpec> UnstoredSpecOf(const JobRecord& record) const;
  /// Like SpecOf, but includes changes of this loop iteration, which the next change must build on.
  Result<std::shared_ptr<const JobSpec>> NewestSpecOf(const JobRecord& record);
  /// For dependencies: returns how a job that is no longer live ended.
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
  /// Finds a job that has ended and is not yet durable as ended.
  const JobRecord* FindEnded(JobId job) const;
  void StartCommit();
  void OnCommitted(Status status);
  /// Calls `task` once may_act is true. Until then is_committing_ must be true. After a while, new work is refused.
  void WhenMayAct(std::function<void()> task);
  /// Refuses new work that waits behind a commit that does not end, which only a remote store's can.
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
  /// Sends the command once its specification can be read.
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
