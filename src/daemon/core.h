// Joins the controller with the store and the node: everything that arrives is applied at once, made durable in groups,
// and only then sent and answered. Runs on the loop's thread; the store's commits run on the writer's.
//
// One commit is under way at a time. What arrives meanwhile gathers for the next one, so the busier the daemon is, the
// more a commit carries.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "control/controller.h"
#include "platform/clock.h"
#include "store/store.h"

namespace divvy {

/// Where orders go once they are durable. The real one is Node (daemon/node.h).
class OrderPort {
 public:
  virtual ~OrderPort() = default;
  virtual void Execute(const Order& order, std::shared_ptr<const JobSpec> spec) = 0;
};

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
  };

  Core(Controller& controller, Store& store, const Clock& clock, OrderPort& orders, Ports ports);

  Controller& controller() { return controller_; }
  Store& store() { return store_; }
  Time Now() const { return clock_.Now(); }

  /// To be called after anything was applied to the controller: plans and commits at the end of this turn of the loop.
  void Touch();
  using Answer = std::function<void(const Status&)>;
  /// `answer` is called when all that is applied so far is durable. A submission that could not be kept is undone and
  /// answered with the error; every other answer waits until it could.
  void AfterCommit(Answer answer, bool is_submission = false);

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
  Result<std::shared_ptr<const JobSpec>> SpecOf(const JobRecord& record);
  /// For dependencies: how a job that is no longer live ended.
  FindOutcome Outcomes();
  /// Empty, or why no new work is taken: "the disk is full ...".
  const std::string& trouble() const { return trouble_; }

 private:
  struct Turn {
    Effects effects;
    struct Pending {
      Answer answer;
      bool is_submission = false;
    };
    std::vector<Pending> answers;
  };

  void EndTurn();
  void StartCommit();
  void OnCommitted(Status status);
  void OnDiskFull(const Error& error);
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
  std::string trouble_;
  std::map<JobId, std::map<std::uint64_t, OnFinal>> waiters_;
  std::map<std::uint64_t, OnChanges> subscribers_;
  std::uint64_t next_handle_ = 1;
  /// Specs of arrays that start elements now; anything else is launched with the batch that inserted it, or read.
  std::deque<std::pair<JobId, std::shared_ptr<const JobSpec>>> array_specs_;
};

}  // namespace divvy
