// Joins the controller with the store and the node: everything that arrives is applied at once, made durable in groups,
// and only then sent and answered. Runs on the loop's thread; where the store's commits run, the committer decides.
//
// One commit is under way at a time. What arrives meanwhile gathers for the next one, so the busier the daemon is, the
// more a commit carries.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "control/controller/controller.h"
#include "daemon/runtime/counters.h"
#include "daemon/runtime/order_port.h"
#include "platform/os/clock.h"
#include "store/store.h"

namespace divvy {

class Core {
 public:
  /// What the loop offers: `post` runs a closure on the loop's thread, later and from any thread; `commit` makes
  /// batches durable elsewhere and then posts the outcome.
  struct Ports {
    std::function<void(std::function<void()>)> post;
    std::function<void(std::vector<Batch>, std::function<void(Status)>)> commit;
    std::function<void(Duration, std::function<void()>)> after;
    /// The store is broken in a way that a restart may mend: says so and ends the process.
    std::function<void(const Error&)> give_up;
    /// trouble() has begun, is another one, or is over (empty). May be null.
    std::function<void(const std::string& trouble)> on_trouble;
    /// Adds to a step's effects what is to be durable with them; and says that they are. May be null.
    std::function<void(Effects&)> complete;
    std::function<void(const Effects&)> on_durable;
  };

  Core(Controller& controller, Store& store, const Clock& clock, OrderPort& orders, Ports ports);

  Controller& controller() { return controller_; }
  Store& store() { return store_; }
  Time Now() const { return clock_.Now(); }
  const Clock& clock() const { return clock_; }
  /// Clock::Latest: for what expires.
  Time Latest() const { return clock_.Latest(); }

  /// To be called after anything was applied to the controller: plans and commits at the end of this turn of the loop.
  void Touch();
  using Answer = std::function<void(const Status&)>;
  /// `answer` is called when all that is applied so far is durable. While the disk is full, every answer waits, but for
  /// one that may be refused, which gets the error: that of a submission, which is undone then, or of one who need not
  /// know.
  void AfterCommit(Answer answer, bool may_be_refused = false);

  /// Calls back with the final record; at once when it is final already. kNotFound for an unknown job. The id that is
  /// returned takes the call back.
  using OnFinal = std::function<void(const JobRecord&)>;
  Result<std::uint64_t> WaitFor(JobId job, OnFinal on_final);
  void StopWaiting(JobId job, std::uint64_t waiter);

  /// Every change, after it is durable.
  using OnChanges = std::function<void(const std::vector<Change>&, Time)>;
  std::uint64_t Subscribe(OnChanges on_changes);
  void Unsubscribe(std::uint64_t subscriber) { subscribers_.erase(subscriber); }

  /// Live or from the store.
  Result<JobRecord> FindJob(JobId job);
  /// What FindJob finds without the store: live, or ended and not durable yet. If nothing, only the store may know it.
  std::optional<JobRecord> FindUnstored(JobId job);
  /// Jobs that are no longer live and not in the store as ended yet.
  std::vector<JobRecord> EndedUnstored();
  Result<std::shared_ptr<const JobSpec>> SpecOf(const JobRecord& record);
  /// What SpecOf finds without the store; null if only that may know it.
  std::shared_ptr<const JobSpec> UnstoredSpecOf(const JobRecord& record) const;
  /// The same as SpecOf, with what this very turn has changed: what the next change builds upon.
  Result<std::shared_ptr<const JobSpec>> NewestSpecOf(const JobRecord& record);
  /// For dependencies: how a job that is no longer live ended.
  FindOutcome Outcomes();
  /// Empty, or why no new work is taken: "the disk is full ...".
  const std::string& trouble() const { return trouble_; }
  /// How long it took since we began to decide who starts, and to make changes durable.
  const TimesTaken& decisions() const { return decisions_; }
  const TimesTaken& commits() const { return commits_; }

 private:
  struct Turn {
    Effects effects;
    struct Pending {
      Answer answer;
      bool may_be_refused = false;
    };
    std::vector<Pending> answers;
  };

  void EndTurn();
  /// Takes over what the controller has changed so far, so that this turn's ends can be found before it is over.
  void Gather();
  std::optional<JobRecord> FindLive(JobId job) const;
  /// Ended, and not durable as such.
  const JobRecord* FindEnded(JobId job) const;
  void StartCommit();
  void OnCommitted(Status status);
  void OnDiskFull(const Error& error);
  void Withdraw(std::deque<Turn>& turns, const Error& error);
  void SendStops(std::deque<Turn>& turns);
  void SetTrouble(std::string trouble);
  /// In place of what `id` had before.
  /// How the element of a sweep is called (--name-template); as its array where that is not known.
  std::string NameOf(const JobRecord& element);
  void RememberSpec(JobId id, std::shared_ptr<const JobSpec> spec);
  void Carry(Turn& turn);
  void ArmWakeup();

  Controller& controller_;
  Store& store_;
  const Clock& clock_;
  OrderPort& orders_;
  Ports ports_;
  std::deque<Turn> gathered_;
  std::vector<Turn> committing_;
  std::vector<Turn::Pending> answers_;  // Of this turn.
  bool is_turn_due_ = false;
  bool is_committing_ = false;
  Time armed_for_ = kNever;
  TimesTaken decisions_{TimesTaken::kQuick};
  TimesTaken commits_{TimesTaken::kQuick};
  Time commit_began_ = kNoTime;
  std::string trouble_;
  std::map<JobId, std::map<std::uint64_t, OnFinal>> waiters_;
  std::map<std::uint64_t, OnChanges> subscribers_;
  std::uint64_t next_handle_ = 1;
  /// Specs of arrays that start elements now, and changed ones; anything else is launched with the batch that inserted
  /// it, or read. What is here is the newest.
  std::deque<std::pair<JobId, std::shared_ptr<const JobSpec>>> array_specs_;
};

}  // namespace divvy
