// Moves a tenant from its GPUs to the host, back, or through the host to other GPUs, with all its processes in
// lock-step. The result is never partial: a failure on the way down (to the host) is undone, and a failure on the way
// up (to the GPUs) leaves everything on the host.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "keeper/drivers/driver_helper.h"
#include "keeper/tenants/tenant.h"
#include "sharing/action.h"

namespace divvy::keeper {

struct RelocationPlan {
  bool leaves = false;            // Moves to the host first.
  bool returns = false;           // Then returns to the GPUs `to`.
  std::vector<std::string> to;    // Target GPU UUIDs ("GPU-..."), by device.
  std::vector<std::string> from;  // Its GPUs now, or before parking.
  std::set<std::int64_t> left;    // Processes on the host before the start. None of them may be left there.
  bool uses_driver = false;       // Also saves control state through the driver, so that nothing remains on the GPU.
  std::uint64_t bytes = 0;        // Estimated bytes to move, for timeouts.
};

struct RelocationHooks {
  /// Called before each step, to write the tenant's record from which a restarted keeper would continue.
  /// `is_returning`: the step copies processes back to the GPUs `onto`. If the record cannot be written, the step is
  /// skipped, unless it leads back to the recorded state.
  std::function<Status(bool is_returning, const std::vector<std::string>& onto)> note;
  /// Called once, when the move has succeeded or failed. The callback may destroy the Relocation.
  std::function<void(sharing::Done)> ended;
};

/// One relocation. The tenant's gates must be kMoving or kParked from before Start until after `ended`.
class Relocation {
 public:
  Relocation(EventLoop& loop, Tenant& tenant, DriverHelpers& driver, RelocationPlan plan, RelocationHooks hooks);
  ~Relocation();
  Relocation(const Relocation&) = delete;
  Relocation& operator=(const Relocation&) = delete;

  /// Begins the move. First waits for processes of the tenant that have not connected to this keeper yet.
  void Start();
  /// Handles a process's message kDone: it has copied its memory to the host, or back, as it was told, or this has
  /// failed.
  void OnDone(Slot slot, const share::Message& done);
  /// Handles the end of one of the tenant's processes during the move.
  void OnGone(Slot slot);
  /// Handles a process of the tenant that connects during the move. It may have memory on the GPUs that the tenant
  /// leaves.
  void OnCame(Slot slot);
  const RelocationPlan& plan() const { return plan_; }

 private:
  // kUndo: back up to the original GPUs. kHold: down to the host again after a failure.
  enum class Way { kDown, kUp, kUndo, kHold };
  void Advance();
  void Step();
  bool is_upwards() const { return way_ == Way::kUp || way_ == Way::kUndo; }
  int Deepest(Slot slot) const;
  void OnStepEnd();
  void TurnBack();
  void StayBehindRecord(const std::string& why);
  bool BringLate();
  void End(sharing::Outcome outcome);
  void TellLibrary(Slot slot, share::Word word);
  void CountMoved(Slot slot, const share::Message& done);
  void TellDriver(Slot slot, int to);
  void CallDriver(Slot slot, int to);
  void OnDriver(Slot slot, int depth, const Status& status);
  void Fail(Slot slot, const std::string& why);
  void LookAtThoseThatStand();
  /// Returns the time to move the bytes of the plan at this rate.
  Duration TimeFor(std::uint64_t bytes_per_second) const;
  void AwaitLibraries(Duration timeout, Duration waited);
  /// Returns the CPU time, in clock ticks, of each process that has not answered its command yet.
  std::map<Slot, std::uint64_t> CpuTicksOfTold() const;
  void LookLater();
  const std::vector<std::string>& onto() const { return way_ == Way::kUp ? plan_.to : plan_.from; }

  EventLoop& loop_;
  Tenant& tenant_;
  DriverHelpers& driver_;
  RelocationPlan plan_;
  RelocationHooks hooks_;
  Way way_ = Way::kDown;
  Time began_;
  std::set<Slot> taking_part_;
  std::set<Slot> late_;        // Processes that connected while the others returned. They go down and up afterwards.
  bool is_late_pass_ = false;  // The late processes are being moved; the tenant itself has arrived.
  std::set<Slot> without_driver_;       // Unknown to the driver, so they have nothing there.
  std::map<std::uint64_t, Slot> told_;  // Unanswered orders to libraries, by id.
  std::set<Slot> with_driver_;          // Processes with a driver call in flight.
  std::set<Slot> failed_now_;           // Failures of this step.
  std::string why_;                     // First failure.
  bool has_begun_ = false;
  std::uint64_t moved_ = 0;
  int step_from_ = 0;
  std::uint64_t step_ = 0;  // Step counter, so that timers can detect that their step is over.
  std::shared_ptr<bool> is_alive_ = std::make_shared<bool>(true);
};

}  // namespace divvy::keeper
