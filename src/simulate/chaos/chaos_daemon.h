// One life of the daemon in a chaos run, from reading the store to a kill -9. It follows the rules of
// daemon/core.{h,cc} for the controller's effects: apply, then persist, then send and answer. Each turn of the loop is
// a separate step, so that anything may happen in between. Keep it in sync with that code, which has the explanations.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "control/controller/controller.h"
#include "simulate/chaos/chaos_ledger.h"
#include "simulate/chaos/chaos_machine.h"
#include "simulate/chaos/chaos_node.h"
#include "store/store_fake.h"

namespace divvy::simulate {

/// The state that all parts of one world share.
struct ChaosParts {
  ChaosClock& clock;
  Random& random;
  ChaosTrace& trace;
  ChaosFigures& figures;
  ChaosMachine& machine;
  MemoryStore& store;
  ChaosLedger& ledger;
  ChaosMutation mutation = ChaosMutation::kNone;
};

class ChaosDaemon {
 public:
  ChaosDaemon(const ChaosParts& parts, const Policy& policy, const Limits& limits);

  /// Reads the store and the run records.
  void Recover();

  Controller& controller() { return controller_; }
  ChaosNode& node() { return node_; }
  /// The wall clock as read at the start, advanced monotonically since then.
  Time Now() const { return parts_.clock.true_time + skew_; }

  // --- Commands ---------------------------------------------------------------------------------------------------
  void AfterCommit(std::vector<Fact> facts, bool may_be_refused);
  FindOutcome Outcomes();
  std::shared_ptr<const JobSpec> NewestSpecOf(const JobRecord& record);
  bool takes_work() const { return !has_trouble_; }

  // --- The loop ---------------------------------------------------------------------------------------------------
  void Touch() { is_turn_due_ = true; }
  bool is_turn_due() const { return is_turn_due_; }
  void EndTurn();
  /// Whether a commit is being written.
  bool is_writing() const { return is_committing_ && !retry_at_; }
  void FinishCommit(bool is_disk_full);
  /// True time of the next try after a full disk. kNever: the disk is not full.
  Time retry_at() const { return retry_at_.value_or(kNever); }
  void Retry();
  /// True time of the next plan that is due without an event.
  Time next_wakeup() const;

  // --- Its end ----------------------------------------------------------------------------------------------------
  /// Kills the daemon after this many more effects of commits.
  void DieAfterEffects(int count) { effects_left_ = count; }
  bool is_dead() const { return is_dead_; }
  /// kill -9 while a commit is being written. `commit_lands`: the commit becomes durable nevertheless.
  void DieWriting(bool commit_lands);

 private:
  struct Turn {
    Effects effects;
    struct Pending {
      std::vector<Fact> facts;
      bool may_be_refused = false;
    };
    std::vector<Pending> answers;
  };

  void Gather();
  void StartCommit();
  void OnCommitted(bool is_disk_full);
  void OnDiskFull();
  void Withdraw(std::deque<Turn>& turns);
  void SendStops(std::deque<Turn>& turns);
  void Carry(Turn& turn);
  bool DiesNow();
  std::vector<Batch> Batches();
  std::shared_ptr<const JobSpec> SpecOf(const JobRecord& record);
  std::shared_ptr<const JobSpec> UnstoredSpecOf(const JobRecord& record) const;
  void RememberSpec(JobId id, std::shared_ptr<const JobSpec> spec);
  std::optional<JobRecord> FindLive(JobId job) const;
  const JobRecord* FindEnded(JobId job) const;

  ChaosParts parts_;
  Duration skew_;
  Controller controller_;
  ChaosNode node_;
  std::deque<Turn> gathered_;
  std::vector<Turn> committing_;
  std::vector<Turn::Pending> answers_;  // Answers of the current turn.
  bool is_turn_due_ = false;
  bool is_committing_ = false;
  std::optional<Time> retry_at_;
  bool has_trouble_ = false;
  std::deque<std::pair<JobId, std::shared_ptr<const JobSpec>>> array_specs_;
  int effects_left_ = -1;
  bool is_dead_ = false;
};

}  // namespace divvy::simulate
