// One life of the daemon in a chaos run, from reading the store to a kill -9: the production controller and the
// production drivers of controller and node (driver/) behind fake ports. Each task of the loop, each commit and each
// timer is a separate step, so that anything may happen in between.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "control/controller/controller.h"
#include "driver/controller_driver.h"
#include "simulate/chaos/chaos_host.h"
#include "simulate/chaos/chaos_ledger.h"
#include "simulate/chaos/chaos_machine.h"
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

class DaemonLife : private NodeCommandPort {
 public:
  DaemonLife(const ChaosParts& parts, const Policy& policy, const Limits& limits);

  /// Starts the daemon: reads the store and the run records.
  void Recover();

  Controller& controller() { return controller_; }
  ControllerDriver& driver() { return driver_; }
  ChaosHost& node() { return node_; }
  Time Now() const { return clock_.Now(); }

  // --- Commands ---------------------------------------------------------------------------------------------------
  void AfterCommit(std::vector<Fact> facts, bool may_be_refused);
  bool takes_work() const { return driver_.trouble().empty(); }

  // --- The loop ---------------------------------------------------------------------------------------------------
  void Touch() { driver_.Touch(); }
  bool is_task_due() const { return !tasks_.empty(); }
  void RunTask();
  /// Returns true while a commit is being written to the store.
  bool is_writing() const { return commit_.has_value(); }
  void FinishCommit(bool is_disk_full);
  /// Returns when the daemon's next timer fires, by the simulated true time; kNever if there is none.
  Time next_timer() const;
  void FireTimer();

  // --- Its end ----------------------------------------------------------------------------------------------------
  /// Kills the daemon when it has carried out this many more effects of its commits; -1: does not kill it.
  void DieAfterEffects(int count) { effects_left_ = count; }
  bool is_dead() const { return is_dead_; }
  /// Kills the daemon while a commit is being written. `commit_lands`: the commit becomes durable nevertheless.
  void DieWriting(bool commit_lands);

 private:
  /// The wall clock as read at the start, advanced monotonically since then.
  class LifeClock final : public Clock {
   public:
    explicit LifeClock(const ChaosClock& clock) : clock_(clock), skew_(clock.skew) {}
    Time Now() const override { return clock_.true_time + skew_; }

   private:
    const ChaosClock& clock_;
    Duration skew_;
  };
  struct PendingCommit {
    std::vector<Batch> batches;
    std::function<void(Status)> done;
  };

  ControllerDriver::Ports PortsOfDriver();
  void Execute(const NodeCommand& command, std::shared_ptr<const JobSpec> spec) override;
  void OnDecided(Effects& effects);
  void BeginCommit(std::vector<Batch> batches, std::function<void(Status)> done);
  std::shared_ptr<const JobSpec> SpecOf(const JobRecord& record);
  bool DiesNow();

  ChaosParts parts_;
  LifeClock clock_;
  Controller controller_;
  ControllerDriver driver_;
  ChaosReports reports_;
  ChaosHost node_;
  std::vector<std::function<void()>> tasks_;
  std::vector<std::pair<Time, std::function<void()>>> timers_;  // By true time.
  std::optional<PendingCommit> commit_;
  int effects_left_ = -1;
  bool is_dead_ = false;
};

}  // namespace divvy::simulate
