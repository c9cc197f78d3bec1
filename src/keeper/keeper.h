// The keeper of a node's shared GPUs: joins the rules (src/sharing) with the tenants' pages and links, the driver, and
// the node that says who comes and goes. One loop and one thread; calls of the driver, looks at the GPUs and what users
// left in their folders are for helpers and other threads, which report back.
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
#include "sharing/ledger.h"

namespace divvy::keeper {

inline constexpr std::string_view kWhyLost =
    "its memory was damaged, and its CUDA calls fail until its processes have ended";

struct KeeperOptions {
  /// Expected of the first process on a GPU, in bytes, until the driver has shown one: a context on a data-centre GPU
  /// is 300 to 500 MiB.
  std::uint64_t first_residual = std::uint64_t{512} << 20;
  std::string directory;            // Of the tenants' folders, the records and the socket.
  std::int64_t node_uid = -1;       // Whose node, other than ours and root's, may connect; -1: none.
  std::string interposer;           // libdivvy_cuda.so, to be preloaded into jobs; empty: there is none.
  std::string nvml;                 // A stand-in for libnvidia-ml.so.1; empty: the driver's own.
  std::string cuda;                 // A stand-in for libcuda.so.1; empty: the driver's own.
  std::string mps_program;          // nvidia-cuda-mps-control; empty: there is none.
  std::vector<std::string> helper;  // Starts a helper (CheckpointHelperCommand).
  Duration lingers = 30s;           // Without tenants and node.
  HostMemory host;
  sharing::Settings rules;
};

class Keeper {
 public:
  /// Fails where another keeper serves the directory.
  static Result<std::unique_ptr<Keeper>> Make(KeeperOptions options);
  ~Keeper();

  /// Until nobody needs it any more, or Stop.
  void Run();
  /// From any thread.
  void Stop();

 private:
  using TenantId = sharing::TenantId;
  /// What a request of the node waits for.
  enum class Goal { kPlaced, kParked, kHere, kThere };
  struct Pending {
    std::uint64_t id = 0;
    Goal goal = Goal::kPlaced;
    std::vector<GpuIndex> to;
    Time until = kNever;  // Then it is answered by why it waits.
  };
  struct Wanted {
    Slot slot = 0;
    std::uint64_t id = 0;
    unsigned device = 0;
  };
  /// Into the MPS servers of its GPUs.
  struct MpsEntry {
    std::size_t awaited = 0;               // Servers that have not answered.
    std::string why_not;                   // Of one that said no.
    std::vector<std::string> environment;  // NAME=value.
  };
  struct Kept {
    RecordedTenant record;
    std::unique_ptr<Tenant> tenant;  // Null before it has its place.
    std::unique_ptr<Relocation> relocation;
    std::uint64_t relocation_order = 0;   // 0: a recovery.
    std::vector<sharing::Order> held_up;  // Orders that wait for the relocation's end.
    std::map<std::uint64_t, Wanted> wants;
    std::vector<Pending> pending;
    std::set<std::int64_t> escaped;
    std::map<std::int64_t, Time> strangers;  // Not escaped yet, or escaped: since when each has been seen so.
    std::set<std::int64_t> returning;        // Processes whose keeper died while they were away; they are brought back.
    bool awaits_dialling = false;            // On the host until a process of it has dialled that was to come back.
    bool is_recorded = true;
    std::string why_no_room;  // On the host, for what it has.
    std::string trouble;
    std::optional<MpsEntry> mps;
    std::map<Slot, std::uint64_t> launches;  // As of the last look.
    Time relocated = kNoTime;                // When its last relocation ended.
    std::vector<wire::KeptPassage> passages;
    std::vector<Duration> had;        // By device, a second ago.
    std::vector<GpuShare> had_share;  // Of the last second.
    /// On the host, on its way, or to be brought back: its gates are shut, and nothing it says of its use is whole.
    bool is_away() const { return record.is_parked || relocation != nullptr || !returning.empty(); }
  };
  /// A tenant with a MIG instance. It is not in the ledger.
  struct Sliced {
    enum class State { kWaiting, kMaking, kThere, kUnmaking };  // Waits for its GPU to be empty.
    RecordedTenant record;
    State state = State::kWaiting;
    Slices::Made made;                   // Without a UUID: it was not found yet.
    std::vector<std::uint64_t> pending;  // Requests.
    Bytes used;
    std::string trouble;
    bool is_adopted = false;   // Of a keeper before this one: its job may be at work in it.
    bool is_lost = false;      // What it had is not there any more.
    bool is_sought = false;    // Whether it is: the driver has been asked.
    bool is_gone = false;      // Being unmade: nothing is left but the GPU's mode.
    bool comes_again = false;  // Being unmade, and asked for anew meanwhile.
    Time used_at = kNoTime;    // When a program was seen in it last.
    GpuIndex gpu() const { return static_cast<GpuIndex>(record.gpus.front()); }
  };
  /// A request for whole GPUs that waits until its tenants have left.
  struct Take {
    std::uint64_t request = 0;
    GpuSet gpus;
    Time since = kNoTime;
    Duration bound{0};  // 0: none can be said.
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
  /// All that were to come back with it are there now.
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
  /// The pages of its processes name the GPUs of its record.
  void SetPlaces(Kept& kept);
  void WatchLeaving(TenantId id);
  std::string WhyNoHostRoom(const Kept& kept) const;
  void EndRelocation(TenantId id, Passage passage, const std::vector<int>& to, sharing::Done done);
  /// For the histories.
  void NotePassage(Kept& kept) const;
  void JoinGates(Kept& kept);
  void LeaveGates(Kept& kept);
  void EndLoss(Kept& kept);
  void SettlePending(Kept& kept);
  std::string WhyNotBack(const sharing::Tenant& tenant) const;
  void FailPending(Kept& kept, std::optional<Goal> goal, const std::string& why);
  void GiveUpPending(Kept& kept);
  std::vector<std::string> UuidsOf(const std::vector<int>& gpus) const;
  /// What a successor needs. Where it cannot be written it is tried again with each tick.
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
  void GiveWhole(JobId job);
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

  // keeper_slices.cc, and what is shown and left of them: keeper_slices_left.cc
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
  /// Now and then: somebody may have unmade what a job has.
  void LookForSlices();
  void OnSliceLooked(TenantId id, const Status& is_there);
  void AnswerSlice(std::uint64_t id, const Sliced& sliced);
  bool RemoveSlice(TenantId id);
  void UnmakeSlice(TenantId id, Sliced& sliced);
  void OnSliceUnmade(const Slices::Unmade& unmade);
  bool HasSlices(GpuIndex gpu) const;
  /// Without a driver what is to be unmade waits for the next keeper, which reads of it.
  bool HasSlicesToKeep() const;
  /// What an earlier keeper has not unmade: its GPU is nobody's until it is.
  void FindLeftSlices();
  void HoldLeft(TenantId id, GpuIndex gpu);
  TenantId EntryOf(const Slices::Unmade& unmade);
  std::string WhyNotUnmade(const Slices::Unmade& unmade) const;
  std::optional<GpuIndex> IndexOf(const std::string& uuid) const;
  /// In a directory that is gone. False: they are gone as well, or stay for good.
  bool LeaveSlices();
  /// From the ledger: OnSliceReady follows.
  void TakeForSlices(GpuIndex gpu);
  /// To the ledger, where no slices are on it any more.
  void GiveBack(GpuIndex gpu);
  /// Until the slices on its GPUs are gone. False: there are none.
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
  /// Of a device's time, `since` the last sample, in which it had turns of so long.
  GpuShare ShareOfTime(const Kept& kept, unsigned device, Duration turns, Duration since) const;
  wire::KeeperState State() const;
  void ShowTakes(wire::KeeperState& state) const;
  wire::KeptTenant StateOf(const Kept& kept) const;
  void ShowState();

  KeeperOptions options_;
  std::unique_ptr<EventLoop> loop_;
  Records records_;
  FolderRemover remover_;
  std::map<TenantId, std::string> troubles_;  // Of those that could not be taken up when this keeper began.
  Mechanisms mechanisms_;
  DriverHelpers driver_;
  MpsServers mps_;
  sharing::Ledger ledger_;
  Gates gates_;
  std::unique_ptr<NodeDoor> door_;
  std::unique_ptr<GpuWatch> watch_;
  std::unique_ptr<Slices> slices_;
  std::map<TenantId, Sliced> sliced_;
  std::vector<std::pair<std::uint64_t, wire::KeeperTakeWhole>> postponed_takes_;
  /// Of slices on GPUs that the node does not name, by tenant and UUID: why they are still there.
  std::map<std::pair<TenantId, std::string>, std::string> left_;
  bool may_switch_mig_ = false;
  int node_version_ = wire::kFirstKeeperVersion;
  std::vector<std::string> misfortunes_;  // Of no tenant, to be told: what could not be read.
  bool has_taken_up_ = false;             // What the keeper before this one left.
  Time abandoned_at_ = kNoTime;
  RecordedNode node_;
  std::map<GpuIndex, wire::KeeperGpu> gpus_;
  std::map<GpuIndex, int> utilisation_;
  std::map<std::int64_t, wire::KeeperProcess> processes_;  // Of tenants on GPUs, by pid: what the node sees of them.
  std::map<GpuIndex, std::uint64_t> expected_residual_;    // The largest of any process so far, in bytes.
  std::map<TenantId, std::unique_ptr<Kept>> kept_;
  std::map<std::uint64_t, TenantId> wanted_by_;
  std::map<std::uint64_t, Shrinking> shrinking_;  // By the id that kShrink had.
  std::vector<CeilingOrder> refused_ceilings_;
  std::map<std::uint64_t, Take> takes_;  // By the job with whole GPUs.
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
  bool is_abandoned_ = false;  // Its directory is gone: nobody can find it any more.
};

/// `divvy keeper ...`, without the first two words.
int KeeperMain(const std::vector<std::string>& words);

}  // namespace divvy::keeper
