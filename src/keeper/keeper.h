// The keeper manages the shared GPUs of a node. It connects the sharing rules (src/sharing), the tenants' pages and
// links, the driver, and the node agent, which adds and removes tenants. It has one loop in one thread. Driver calls,
// GPU sampling and removal of users' folders run in helpers and other threads, which report back.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "keeper/drivers/driver_helper.h"
#include "keeper/drivers/event_loop.h"
#include "keeper/drivers/gpu_watch.h"
#include "keeper/drivers/host_memory.h"
#include "keeper/drivers/mechanisms.h"
#include "keeper/drivers/mps.h"
#include "keeper/drivers/slices.h"
#include "keeper/node_door.h"
#include "keeper/tenants/folder_remover.h"
#include "keeper/tenants/gates.h"
#include "keeper/tenants/record.h"
#include "keeper/tenants/relocation.h"
#include "keeper/tenants/tenant.h"
#include "sharing/planner/share_planner.h"

namespace divvy::keeper {

inline constexpr std::string_view kWhyLost =
    "its memory was damaged, and its CUDA calls fail until its processes have ended";

struct KeeperOptions {
  /// Bytes assumed for the first process on a GPU until the driver has reported one. A context on a data-centre GPU
  /// takes 300 to 500 MiB.
  std::uint64_t first_residual = std::uint64_t{512} << 20;
  std::string directory;            // Holds the tenants' folders, the records and the socket.
  std::int64_t node_uid = -1;       // This user may connect, besides root and our own user; -1: none.
  std::string interposer;           // Path of libdivvy_cuda.so, which jobs preload. Empty: not available.
  std::string nvml;                 // A stand-in for libnvidia-ml.so.1; empty: the driver's own.
  std::string cuda;                 // A stand-in for libcuda.so.1; empty: the driver's own.
  std::string mps_program;          // Path of nvidia-cuda-mps-control. Empty: not installed.
  std::vector<std::string> helper;  // Starts a helper (see CheckpointHelperCommand).
  Duration lingers = 30s;           // The keeper exits after this time without tenants and node.
  HostMemory host;
  sharing::Settings rules;
};

class Keeper {
 public:
  /// Fails if another keeper serves the directory.
  static Result<std::unique_ptr<Keeper>> Make(KeeperOptions options);
  ~Keeper();

  /// Runs until the keeper is no longer needed, or Stop.
  void Run();
  /// Thread-safe.
  void Stop();

 private:
  using TenantId = sharing::TenantId;
  /// The state that a pending request of the node waits for.
  enum class Goal { kPlaced, kParked, kHere, kThere };
  struct Pending {
    std::uint64_t id = 0;
    Goal goal = Goal::kPlaced;
    std::vector<GpuIndex> to;
    Time until = kNever;  // Afterwards the request fails with the reason of the wait.
  };
  struct Wanted {
    Slot slot = 0;
    std::uint64_t id = 0;
    unsigned device = 0;
  };
  /// Progress of a tenant's start as an MPS client on its GPUs.
  struct MpsEntry {
    std::size_t awaited = 0;               // Number of servers that have not answered.
    std::string why_not;                   // Error of a server that refused.
    std::vector<std::string> environment;  // NAME=value.
  };
  struct Kept {
    RecordedTenant record;
    std::unique_ptr<Tenant> tenant;  // Null until the tenant has been placed.
    std::unique_ptr<Relocation> relocation;
    std::uint64_t relocation_order = 0;   // 0: a recovery, without an order.
    std::vector<sharing::Order> held_up;  // Orders that wait until the relocation ends.
    std::map<std::uint64_t, Wanted> wants;
    std::vector<Pending> pending;
    std::set<std::int64_t> escaped;
    // When each unknown process on the GPU was first seen, whether or not it counts as escaped yet.
    std::map<std::int64_t, Time> strangers;
    std::set<std::int64_t> returning;  // Processes that were away when the previous keeper ended, to be brought back.
    bool awaits_dialling = false;      // On the host; wakes once its missing processes have dialled.
    bool is_recorded = true;
    std::string why_no_room;  // The host has no room for its memory.
    std::string trouble;
    std::optional<MpsEntry> mps;
    std::map<Slot, std::uint64_t> launches;  // Launch counters at the last tick.
    Time relocated = kNoTime;                // When its last relocation ended.
    std::vector<wire::KeptPassage> passages;
    std::vector<Duration> had;        // GPU time per device at the last sample, a second ago.
    std::vector<GpuShare> had_share;  // Share of GPU time per device in the last second.
    /// True while parked, moving or being brought back. Its gates are shut then, and its reported use is incomplete.
    bool is_away() const { return record.is_parked || relocation != nullptr || !returning.empty(); }
  };
  /// A tenant with a MIG instance, which the ledger does not know.
  struct Sliced {
    // kWaiting: until its GPU is empty.
    enum class State { kWaiting, kMaking, kThere, kUnmaking };
    RecordedTenant record;
    State state = State::kWaiting;
    Slices::Made made;                   // Without a UUID: not found yet.
    std::vector<std::uint64_t> pending;  // Ids of requests that wait for the instance.
    Bytes used;
    std::string trouble;
    bool is_adopted = false;   // From an earlier keeper, so its job may be running in it.
    bool is_lost = false;      // Its instance has disappeared.
    bool is_sought = false;    // The driver has been asked whether the instance exists.
    bool is_gone = false;      // Being destroyed: the instance is gone, only the GPU's MIG mode is left.
    bool comes_again = false;  // Requested again while it is being destroyed.
    Time used_at = kNoTime;    // When a program was last seen in it.
    GpuIndex gpu() const { return static_cast<GpuIndex>(record.gpus.front()); }
  };
  /// A request for whole GPUs that waits until the tenants have left.
  struct Take {
    std::uint64_t request = 0;
    GpuSet gpus;
    Time since = kNoTime;
    Duration bound{0};  // 0: no bound is known.
  };
  struct Shrinking {
    TenantId tenant;
    unsigned device = 0;
    std::uint64_t order = 0;
    std::set<Slot> awaited;
  };
  struct CeilingOrder {
    std::uint64_t id = 0;
    sharing::SetCeiling deed;
  };

  Keeper(KeeperOptions options, std::unique_ptr<EventLoop> loop);

  // keeper.cc
  void AfterEach();
  void SettleLedger();
  void OnTick();
  void OnCame(TenantId id, Slot slot);
  void OnSaid(TenantId id, Slot slot, const share::Message& message);
  void OnGone(TenantId id, Slot slot);
  /// Wakes the tenant if all its missing processes have dialled.
  void WakeIfWhole(Kept& kept);
  std::optional<std::uint64_t> NumberFor(Kept& kept, Slot slot, const share::Message& message);
  void OnWant(Kept& kept, Slot slot, const share::Message& message);
  void OnPin(Kept& kept, Slot slot, const share::Message& message);
  void RefreshUse(Kept& kept);
  void LookWhetherNeeded();
  bool LookWhetherReachable();
  Kept* Find(TenantId id);
  TenantEvents EventsOf(TenantId id);

  // keeper_orders.cc
  void CarryOut(const sharing::Order& order);
  void OnPlace(const sharing::Place& place);
  void OnSetCeiling(std::uint64_t id, const sharing::SetCeiling& deed);
  void OnAnswer(const sharing::Answer& answer);
  void OnShrink(std::uint64_t id, const sharing::Shrink& shrink);
  void EndShrink(std::uint64_t number);
  void OnFailed(const sharing::Failed& failed);
  void OnReady(std::uint64_t job);
  void OnRequeue(const sharing::Requeue& requeue);
  void RetryCeilings();

  // keeper_moves.cc
  void Relocate(Kept& kept, std::uint64_t order, Passage passage, const std::vector<GpuIndex>& to);
  void StartRelocation(Kept& kept, Passage passage, RelocationPlan plan, const std::vector<int>& to);
  /// Writes the GPUs of the tenant's record to its page.
  void SetPlaces(Kept& kept);
  void WatchLeaving(TenantId id);
  std::string WhyNoHostRoom(const Kept& kept) const;
  void EndRelocation(TenantId id, Passage passage, const std::vector<int>& to, sharing::Done done);
  /// Records the move, park or wake for the histories.
  void NotePassage(Kept& kept) const;
  void JoinGates(Kept& kept);
  void LeaveGates(Kept& kept);
  void EndLoss(Kept& kept);
  void SettlePending(Kept& kept);
  std::string WhyNotBack(const sharing::Tenant& tenant) const;
  void FailPending(Kept& kept, std::optional<Goal> goal, const std::string& why);
  void GiveUpPending(Kept& kept);
  std::vector<std::string> UuidsOf(const std::vector<int>& gpus) const;
  /// Writes the record that a successor needs. A failed write is repeated at each tick.
  Status TryToRecord(Kept& kept);
  void Record(Kept& kept) { [[maybe_unused]] const Status written = TryToRecord(kept); }

  // keeper_recovery.cc
  Status Recover();
  void TakeUpTenants();
  void TakeUpWholes(const wire::KeeperHello& hello);
  Status AdoptTenant(const RecordedTenant& record);
  static void ExpectAway(const Kept& kept);
  void BringBack(Kept& kept);
  void SetNode(const std::vector<wire::KeeperGpu>& gpus);
  void RecordNode();

  // keeper_requests.cc
  void OnRequest(const wire::KeeperRequest& request);
  void ReleaseExclusive(JobId job);
  void OnHello(std::uint64_t id, const wire::KeeperHello& hello);
  void OnAdd(std::uint64_t id, const wire::KeeperAdd& add);
  void AnswerAdded(std::uint64_t id, Kept& kept);
  bool HasEnteredMps(Kept& kept);
  void OnRemove(const wire::KeeperRemove& remove);
  Duration BoundOf(GpuSet gpus);
  void OnTakeWhole(std::uint64_t id, const wire::KeeperTakeWhole& take);
  void OnCommand(std::uint64_t id, JobId job, Goal goal, const std::vector<int>& to);
  Status Resize(JobId job, const wire::ShareTerms& share, const std::vector<int>& paper);
  TenantId LatestOf(JobId job) const;
  std::vector<std::string> EnvironmentOf(const Kept& kept) const;

  // keeper_slices.cc; the parts about status and leftover instances are in keeper_slices_left.cc
  static bool IsOfSlices(std::uint64_t job);
  Slices::Events SliceEvents();
  void AddSlice(std::uint64_t id, const wire::KeeperAdd& add);
  void AdoptSlice(const RecordedTenant& record);
  void MakeSlices(GpuIndex gpu);
  void OnSliceReady(std::uint64_t job);
  void OnSliceFailed(std::uint64_t job, const std::string& why);
  void FailSlice(TenantId id, Sliced& sliced, const Error& why);
  void AddSliceAgain(std::uint64_t id, const wire::KeeperAdd& add, Sliced& known);
  void OnSliceMade(TenantId id, const Result<Slices::Made>& made);
  void OnAdoptedNotMade(Sliced& sliced, const Error& why);
  /// Checks periodically whether the instances still exist; another program may have destroyed them.
  void LookForSlices();
  void OnSliceLooked(TenantId id, const Status& is_there);
  void AnswerSlice(std::uint64_t id, const Sliced& sliced);
  bool RemoveSlice(TenantId id);
  void UnmakeSlice(TenantId id, Sliced& sliced);
  void OnSliceUnmade(const Slices::Unmade& unmade);
  bool HasSlices(GpuIndex gpu) const;
  /// Instances that wait to be destroyed do not count without a driver: the next keeper finds them in the record.
  bool HasSlicesToKeep() const;
  /// Finds instances that an earlier keeper has not destroyed. Their GPUs stay reserved until they are gone.
  void FindLeftSlices();
  void HoldLeft(TenantId id, GpuIndex gpu);
  TenantId EntryOf(const Slices::Unmade& unmade);
  std::string WhyNotUnmade(const Slices::Unmade& unmade) const;
  std::optional<GpuIndex> IndexOf(const std::string& uuid) const;
  /// Handles the instances after the directory was deleted. Returns false once none has to be waited for: all are gone,
  /// or cannot be destroyed.
  bool LeaveSlices();
  /// Takes the GPU from the ledger; OnSliceReady follows.
  void TakeForSlices(GpuIndex gpu);
  /// Returns the GPU to the ledger if it has no instances left.
  void GiveBack(GpuIndex gpu);
  /// Postpones a request for whole GPUs until the instances on them are gone. Returns false if there are none.
  bool PostponeTake(std::uint64_t id, const wire::KeeperTakeWhole& take);
  wire::KeptTenant StateOf(const Sliced& sliced) const;
  void ShowSlices(wire::KeeperState& state) const;
  std::string WhySlicesStay(GpuIndex gpu) const;
  void OnSliceSight(const GpuSight& sight);

  // keeper_state.cc
  void OnSights(const std::vector<GpuSight>& sights);
  void OnSight(const GpuSight& sight);
  bool IsOf(const GpuSight::Process& seen, const Kept& kept) const;
  void BearWithNewcomers(Kept& kept) const;
  void ExpectResiduals(const Kept& kept) const;
  void SetCannot(Kept& kept);
  void SampleShares(Duration since);
  /// Returns the share of the device's time since the last sample. `turns`: the length of its turns in that period.
  GpuShare ShareOfTime(const Kept& kept, unsigned device, Duration turns, Duration since) const;
  wire::KeeperState State() const;
  void ShowTakes(wire::KeeperState& state) const;
  wire::KeptTenant StateOf(const Kept& kept) const;
  void ShowState();

  KeeperOptions options_;
  std::unique_ptr<EventLoop> loop_;
  Records records_;
  FolderRemover remover_;
  std::map<TenantId, std::string> troubles_;  // Tenants that this keeper could not recover at startup, with the reason.
  Mechanisms mechanisms_;
  DriverHelpers driver_;
  MpsServers mps_;
  sharing::SharePlanner ledger_;
  Gates gates_;
  std::unique_ptr<NodeDoor> door_;
  std::unique_ptr<GpuWatch> watch_;
  std::unique_ptr<Slices> slices_;
  std::map<TenantId, Sliced> sliced_;
  std::vector<std::pair<std::uint64_t, wire::KeeperTakeWhole>> postponed_takes_;
  /// Remaining instances on GPUs that the node does not list, by tenant and UUID, with the reason.
  std::map<std::pair<TenantId, std::string>, std::string> left_;
  bool may_switch_mig_ = false;
  int node_version_ = wire::kFirstKeeperVersion;
  std::vector<std::string> misfortunes_;  // General problems to report, such as unreadable files.
  bool has_taken_up_ = false;             // The state left by the previous keeper was recovered.
  Time abandoned_at_ = kNoTime;
  RecordedNode node_;
  std::map<GpuIndex, wire::KeeperGpu> gpus_;
  std::map<GpuIndex, int> utilisation_;
  std::map<std::int64_t, wire::KeeperProcess> processes_;  // Tenants' processes on GPUs as the node sees them, by pid.
  std::map<GpuIndex, std::uint64_t> expected_residual_;    // Largest residual of any process so far, in bytes.
  std::map<TenantId, std::unique_ptr<Kept>> kept_;
  std::map<std::uint64_t, TenantId> wanted_by_;
  std::map<std::uint64_t, Shrinking> shrinking_;  // Keyed by the id of kShrink.
  std::vector<CeilingOrder> refused_ceilings_;
  std::map<std::uint64_t, Take> takes_;  // Keyed by the job that takes the GPUs.
  std::uint64_t next_number_ = 1;
  std::optional<EventLoop::TimerId> ledger_alarm_;
  std::string shown_;
  Time shown_at_ = kNoTime;
  Time sampled_at_ = kNoTime;
  Time slices_looked_for_at_ = kNoTime;
  Time needed_at_ = kNoTime;
  std::uint64_t moves_ = 0;
  std::uint64_t parks_ = 0;
  bool is_ledger_changed_ = true;
  bool has_probed_ = false;
  bool may_end_ = false;
  bool is_abandoned_ = false;  // Its directory is gone, so no process can reach it any more.
};

/// Entry point of `divvy keeper ...`; `words` are the arguments after these two words.
int KeeperMain(const std::vector<std::string>& words);

}  // namespace divvy::keeper
