// A tenant leaves its GPUs for the host, comes back, or both in one go onto other GPUs; all of its processes in
// lock-step. Never half: what fails on the way down is undone, and what fails on the way up ends on the host, whole.
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
#include "sharing/order.h"

namespace divvy::keeper {

struct RelocationPlan {
  bool leaves = false;            // First down to the host;
  bool returns = false;           // then up again, onto
  std::vector<std::string> to;    // these GPUs ("GPU-..."), by device.
  std::vector<std::string> from;  // Where it is, or was before it was parked.
  std::set<std::int64_t> left;    // Processes that are on the host before it begins: none is left behind there.
  bool uses_driver = false;       // Its control state goes as well, so that nothing is left on the GPU.
  std::uint64_t bytes = 0;        // About so many are moved: for how long to wait.
};

struct RelocationHooks {
  /// Before each step: what a successor needs is to be written. `is_returning`: processes come up onto `onto`. Where it
  /// cannot be, the step is not taken, unless it is one back to what was written last.
  std::function<Status(bool is_returning, const std::vector<std::string>& onto)> note;
  /// Once; the relocation may be destroyed in it.
  std::function<void(sharing::Done)> ended;
};

/// The gates of the tenant are kMoving or kParked from before Start until after `ended`.
class Relocation {
 public:
  Relocation(EventLoop& loop, Tenant& tenant, DriverHelpers& driver, RelocationPlan plan, RelocationHooks hooks);
  ~Relocation();
  Relocation(const Relocation&) = delete;
  Relocation& operator=(const Relocation&) = delete;

  /// Waits first for processes that live and have not dialled this keeper yet.
  void Start();
  /// A process said kDone.
  void OnDone(Slot slot, const share::Message& done);
  void OnGone(Slot slot);
  /// A process that was not there when it began: it may have something on the GPUs that are left.
  void OnCame(Slot slot);
  const RelocationPlan& plan() const { return plan_; }

 private:
  enum class Way { kDown, kUp, kUndo, kHold };  // Undo: up to where it was. Hold: down again, after a failure.
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
  void Fail(Slot slot, const std::string& what);
  void LookAtThoseThatStand();
  const std::vector<std::string>& onto() const { return way_ == Way::kUp ? plan_.to : plan_.from; }

  EventLoop& loop_;
  Tenant& tenant_;
  DriverHelpers& driver_;
  RelocationPlan plan_;
  RelocationHooks hooks_;
  Way way_ = Way::kDown;
  Time began_;
  std::set<Slot> taking_part_;
  std::set<Slot> late_;                 // Came when the others were on their way up: they go down and up after them.
  bool is_late_pass_ = false;           // That is under way; the tenant itself is there.
  std::set<Slot> without_driver_;       // The driver does not know them: they have nothing there.
  std::map<std::uint64_t, Slot> told_;  // Orders to libraries that are not answered, by their ids.
  std::set<Slot> with_driver_;          // Calls to the driver that are under way.
  std::set<Slot> failed_now_;           // In this step.
  std::string why_;                     // What failed first.
  bool has_begun_ = false;
  std::uint64_t moved_ = 0;
  int step_from_ = 0;
  std::uint64_t step_ = 0;  // Counts: timers know whether they are of this one.
  std::shared_ptr<bool> is_alive_ = std::make_shared<bool>(true);
};

}  // namespace divvy::keeper
