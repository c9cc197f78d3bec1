// One controller on a machine of its own in a chaos run: its clocks, and its process, which may be down, stopped, or
// alive as a standby or leader. The lease keeper, the rule for commits with an unknown outcome (store/writer_term.h),
// the controller and its driver are production code. Requests to the database are steps: each may be lost on its way,
// or its answer may, and a lost one may still be executed later.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "driver/lease_keeper.h"
#include "simulate/chaos/chaos_trace.h"
#include "simulate/controllers/controllers_chaos.h"
#include "simulate/controllers/leader_life.h"
#include "simulate/controllers/modelled_database.h"
#include "simulate/traces/random.h"
#include "store/writer_term.h"

namespace divvy::simulate {

/// The parts that all controllers of a world share.
struct ControllersParts {
  ChaosClock& clock;  // Its wall clock is not used: each machine has its own.
  Random& random;
  ChaosTrace& trace;
  ControllersChaosFigures& figures;
  ModelledDatabase& database;
  std::vector<NodeRow>& nodes;
  ControllersMutation mutation = ControllersMutation::kNone;
  /// Checks the state that a new leader has read from the database. Returns false if a guarantee is broken.
  std::function<bool(const Store::Loaded&)> check_loaded;
  /// Requests to the database that their senders no longer wait for, and that may still be executed.
  std::vector<std::function<void()>>& late_requests;
};

class ModelledController {
 public:
  ModelledController(const ControllersParts& parts, std::size_t index, Duration boot_time, double rate);
  ~ModelledController();

  // --- Faults ------------------------------------------------------------------------------------------------------
  void Start(bool yields = false);
  void Kill();
  bool is_up() const { return process_ != nullptr; }
  /// Stops the controller's process, as SIGSTOP does. `freezes_clocks`: its clocks stop too, as in a virtual machine
  /// that is paused.
  void Stop(bool freezes_clocks);
  void Continue();
  bool is_stopped() const { return is_stopped_; }
  void JumpWallClock(Duration by) { wall_skew_ += by; }
  /// Cuts (or restores) the network between this machine and the database.
  void CutDatabase(bool is_cut) { is_cut_ = is_cut; }
  bool is_cut() const { return is_cut_; }
  /// Ends the controller's connections to the database; all that is under way on them is lost.
  void DropConnections();
  void StepDown();

  // --- Steps -------------------------------------------------------------------------------------------------------
  std::size_t CountReady() const;
  /// Makes the step number `nth` (from 0) of the CountReady() steps that can happen now.
  void Advance(std::size_t nth);
  /// Returns when the next event of this controller is due, by the simulated true time; kNever if there is none.
  Time next_due() const;

  /// Returns the leader's part of this controller; null if it does not lead, or has not read the state from the
  /// database yet.
  LeaderLife* life();
  std::uint64_t process_id() const { return process_id_; }
  bool may_act() const;
  std::int64_t epoch() const;

 private:
  /// A request to the database.
  struct Call {
    std::uint64_t session = 0;  // 0: over the connection of the lease.
    bool is_executed = false;
    Time began;
    std::function<void()> execute;
    std::function<void(bool is_lost)> done;
  };
  class MachineClock final : public Clock {
   public:
    explicit MachineClock(const ModelledController& machine) : machine_(machine) {}
    Time Now() const override { return machine_.Wall(); }

   private:
    const ModelledController& machine_;
  };
  struct Process;

  Time Wall() const { return (is_frozen_ ? frozen_at_ : parts_.clock.true_time) + wall_skew_; }
  Duration SinceBoot() const;
  /// Returns the simulated true time at which this machine's clock since boot reaches `at`.
  Time TrueTimeOf(Duration at) const;
  void AskAboutLease();
  void Begin(std::optional<Call>& call, std::uint64_t session, std::function<void()> execute,
             std::function<void(bool)> done);
  void AdvanceCall(std::optional<Call>& call, Duration patience);
  bool CanMove(const Call& call, Duration patience) const;
  void Lose(std::optional<Call>& call);
  void OnElected(std::int64_t epoch);
  // The writer, as PostgresWriter.
  void ReadState();
  void Lead(Store::Loaded loaded);
  void Write(std::vector<Batch> batches, std::function<void(Status)> done);
  void Connect();
  void TakeEpoch();
  void Transact();
  void OnConnected(bool is_lost);
  void FinishWrite(Status status);
  void RestartIfDue();

  ControllersParts parts_;
  const ControllerSelf self_;
  const double rate_;  // The speed of its clocks, compared with the true time.
  Time boot_base_;
  Duration boot_offset_;
  Duration wall_skew_{0};
  bool is_stopped_ = false;
  bool is_frozen_ = false;
  Time frozen_at_ = kNoTime;
  bool is_cut_ = false;
  std::uint64_t process_id_ = 0;
  std::unique_ptr<Process> process_;
};

}  // namespace divvy::simulate
