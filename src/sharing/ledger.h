// Who is where on one node, who may have how much memory there, who lends, repays, moves, parks and comes back.
//
// Facts go in by the methods below, and each Decide returns what is to be done about them. Nothing happens in between:
// a keeper applies all facts of one turn of its loop, calls Decide, carries the orders out, and reports with OnDone,
// until Decide has no more to say (an order that ends at once, as SetCeiling does, is reported and decided upon at
// once). The same facts and times give the same orders.
//
// What holds after each call, whatever comes (CheckInvariants):
//  * the ceilings on a GPU sum up to no more than its capacity, those that are on their way to it included; only a
//    residual that the driver reports afterwards can exceed it, and is repaid first;
//  * the requests there, of memory and of time, fit as well, so that every request can be honoured;
//  * no new tenant comes to a GPU that is withheld or unusable;
//  * the GPUs of one tenant are different ones.
//
// Repaying goes by rungs (docs/sharing.md): deny more -> lower idle ceilings -> shrink -> move a borrower -> park an
// idle borrower -> swap a busy one out for a turn -> requeue one who agreed. What could not be taken back in one of
// those ways is not lent.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "sharing/facts.h"
#include "sharing/order.h"

namespace divvy::sharing {

struct Settings {
  Duration least_stay = 30s;    // Between two moves of one tenant, but for the arrival of a whole job.
  Duration memory_turn = 10s;   // A borrower that was swapped out stays out, and one that came back stays, for so long.
  Duration idle_after = 1s;     // Without work for so long, a tenant counts as idle for repaying and moving.
  Duration wish_lasts = 10s;    // For how long a denied loan counts when idle memory is divided.
  Duration loan_waits = 5s;     // A loan is denied after so long, where it is others' turn to have what they are due.
  Duration retry_after = 60s;   // After a move or park that failed, before the same is tried again.
  Duration slack = 2s;          // Added to the bound of a repack: control state, orders, the driver's own time.
  Duration binds_within = 10s;  // Who was answered a Pin is bound by then, and the page says so; or it came to nothing.
  Duration grant_lasts = 1s;    // What was granted is not lowered for so long, so that its process can use it.
  Bytes grain = 64_MiB;         // Ceilings are raised by at least so much where it is free.
  Bytes growth;                 // Loans leave so much free for each tenant there, at most 1/64 of the GPU: code that it
                                // loads takes memory that nobody asks for.
  Duration stood_empty = 5s;    // A GPU that a whole job left is spread onto after so long: the next may be on its way.
  bool can_spread = true;       // Running tenants are moved to GPUs that became empty.
};

class Ledger {
 public:
  explicit Ledger(Settings settings = {}) : settings_(settings) {}

  // --- Facts of GPUs ------------------------------------------------------------------------------------------------

  /// All GPUs, once, before tenants; later calls change capacity, speed and usability of those that are known.
  /// `whole_job` and `is_ready` are not read from it.
  void SetGpu(const Gpu& gpu);
  /// A job that has these GPUs whole is about to start: they are emptied of tenants, and Ready or Failed follows. Said
  /// again for the same job (after a restart): Ready again.
  void TakeWhole(std::uint64_t job, GpuSet gpus);
  /// The job has gone, or will not come.
  void GiveWhole(std::uint64_t job);

  // --- Facts of tenants ---------------------------------------------------------------------------------------------

  /// A new tenant: id, share, paper GPUs, what is known of why it cannot move. Place follows, at once or after a
  /// repack. Refused: an unknown GPU, two devices on one, wrong shares, requests on paper that exceed a GPU.
  Status AddTenant(const Tenant& tenant);
  /// One that was here before the keeper started: as the pages say. What was under way is kHere (not evacuated yet) or
  /// kParked (parked_by kLedger if it is to come back by itself).
  Status LoadTenant(const Tenant& tenant);
  /// Its processes have gone. Open wants of it are forgotten.
  void RemoveTenant(TenantId id);
  /// Refused as AddTenant; nothing has changed then. Lower: at once for what is free, the rest as it is freed (its
  /// borrowed bytes then). `paper`: the GPUs that the plan counts it on from now on, as many as it has; nothing: as
  /// before. Orders follow.
  Status Resize(TenantId id, const Share& share, std::optional<GpuSet> paper = std::nullopt);
  /// Say it before Want, and once more when the gate is shut for a move or park: that is what comes back. Ignored while
  /// it is on the host.
  void SetUse(TenantId id, unsigned device, Bytes used_and_residual);
  /// Of one that is being parked: so much of it is still on its GPU. What has left is for who waits there, before all
  /// has. Ignored of others.
  void SetLeft(TenantId id, unsigned device, Bytes left);
  /// `is_active`: it launched something, or waits for its turn, since the last look. An active parked tenant wakes.
  void SetActivity(TenantId id, bool is_active, Time now);
  /// Empty: can. Reasons are never taken back by the library, but by the keeper (another backend).
  void SetCannot(TenantId id, std::string why_cannot_move, std::string why_cannot_park);
  /// It needs `bytes` beyond what it uses (say SetUse before). Answer follows, exactly once unless it is removed
  /// before. `request` is given back.
  void Want(TenantId id, unsigned device, Bytes bytes, std::uint64_t request);
  /// A process that asked has gone.
  void ForgetWant(TenantId id, std::uint64_t request);
  /// A call that it holds will pin it to its GPUs for good. It is brought to its paper GPUs first, and what it borrowed
  /// is taken back, as far as that can be; Answer (granted) follows, exactly once unless it is removed before.
  void Pin(TenantId id, std::uint64_t request);
  /// A call waits at its parked gate.
  void WantWake(TenantId id);

  // --- Commands of users: refused with what is wrong and what helps
  // ---------------------------------------------------

  Status ParkByUser(TenantId id);
  Status WakeByUser(TenantId id);
  /// `to`: as many GPUs as it has devices, each usable, not withheld, of the same kind, with room for its request.
  Status MoveByUser(TenantId id, const std::vector<GpuIndex>& to);

  // --- What is to be done
  // ---------------------------------------------------------------------------------------------

  void OnDone(std::uint64_t order, const Done& done, Time now);
  /// The processes of a lost tenant have ended, and what was damaged with them: it has nothing, is on the host, and is
  /// given a place as whoever wakes. Nothing for one that is not lost.
  void OnLostEnded(TenantId id, Time now);
  std::vector<Order> Decide(Time now);
  /// When to decide again though no fact came; kNever: no need.
  Time next_decision() const { return next_decision_; }

  // --- Questions
  // ------------------------------------------------------------------------------------------------------

  const std::map<TenantId, Tenant>& tenants() const { return tenants_; }
  const Tenant* Find(TenantId id) const;
  const std::map<GpuIndex, Gpu>& gpus() const { return gpus_; }
  /// Bytes above its request that it uses on a device.
  static Bytes Borrowed(const Tenant& tenant, unsigned device);
  /// Of a GPU: capacity less all ceilings.
  Bytes Free(GpuIndex gpu) const;
  /// How long at most an arrival that takes these GPUs whole waits for tenants to leave: their bytes by the speed of
  /// the way, to the host and back, and Settings::slack. Duration::max(): somebody there cannot leave.
  Duration RepackBound(GpuSet gpus) const;
  /// Why a parked or arriving tenant is not on a GPU, or an open want has no answer yet; "" if it is not so.
  std::string WhyWaits(TenantId id) const;
  /// Somebody is moved, parked, brought back or asked to give memory back: what waits may have its room soon.
  bool IsAtWork() const { return !in_flight_.empty(); }
  /// "" or what is broken. Re-derives every sum from the tenants.
  std::string CheckInvariants() const;

 private:
  struct OpenWant {
    TenantId tenant;
    unsigned device = 0;
    Bytes bytes;
    std::uint64_t request = 0;
    Time waits_until = kNoTime;  // For others to have what they are due; not set: it has not had to.
  };
  using DeviceKey = std::pair<TenantId, unsigned>;
  struct Until {
    Bytes need;
    Time until = kNoTime;
  };
  struct Refusal {
    Time until = kNoTime;
    std::string why;
  };
  struct InFlight {
    Deed deed;
    ParkedBy parked_by = ParkedBy::kNobody;  // Of Park.
  };
  struct Load {
    Bytes ceilings;
    Bytes requests;
    std::int32_t compute = 0;
    int tenants = 0;
  };
  /// Of making room: it is there; orders for it are under way; or there is no way.
  enum class Room { kReady, kUnderWay, kNone };
  enum class Right { kLoan, kRequest };

  // ledger.cc
  Status CheckShare(const Tenant& tenant) const;
  static Status TakePaper(GpuSet paper, Tenant& tenant);
  bool IsInFlight(TenantId id) const;
  std::uint64_t Issue(Deed deed, ParkedBy parked_by = ParkedBy::kNobody);
  void Say(Deed deed) { orders_.push_back({0, std::move(deed)}); }
  void FailJob(std::uint64_t job, const std::string& why);
  void FailTenant(TenantId id, const std::string& why);
  void NoteTime(Time time) { next_decision_ = std::min(next_decision_, time); }

  // ledger_done.cc
  void OnCeiling(const SetCeiling& order, Bytes bytes);
  void OnMoved(Tenant& tenant, const Done& done, Time now);
  void OnParked(Tenant& tenant, ParkedBy by, const Done& done, Time now);
  void OnWoken(Tenant& tenant, const Done& done, Time now);
  void OnLost(Tenant& tenant, const std::string& why);
  void Measure(const Tenant& tenant, const Done& done, int ways);

  // ledger_questions.cc
  Load LoadOf(GpuIndex gpu, const Tenant* except = nullptr) const;
  bool IsOpen(GpuIndex gpu) const;  // Usable, and withheld by nobody.
  bool IsIdle(const Tenant& tenant) const;
  bool IsBorrower(const Tenant& tenant, GpuIndex gpu) const;
  bool HasStayed(const Tenant& tenant) const;
  std::string WhyStays(const Tenant& tenant) const;     // "": can be moved now.
  std::string WhyKeepsGpu(const Tenant& tenant) const;  // "": can be parked now.
  bool RequestsFit(const Tenant& tenant, const std::vector<GpuIndex>& to) const;

  // ledger_places.cc
  struct Packing;
  Packing PackingOf(GpuSet leaving, const Tenant* seeker) const;
  void EmptyWholes();
  void EmptyWithheld();
  bool LeaveWithheld(Tenant& tenant);
  void EmptyWhole(std::uint64_t job, GpuSet gpus);
  std::string WhoBlocks(GpuSet gpus) const;
  void Uncrowd();
  /// False: nothing is under way, and nothing could be.
  bool CarryOut(const Packing& packing, const std::vector<std::vector<int>>& to, GpuSet leaving, bool may_park = true);
  bool IsAnyInFlight() const;
  void ReportUnusable();
  /// FailTenant, for what its GPU is like: taken back when that is so no longer.
  void FailForGpu(TenantId id, const std::string& why);
  void TakeBackFailures();
  Room StartMove(Tenant& tenant, const std::vector<GpuIndex>& to);
  void StartPark(Tenant& tenant, ParkedBy by, const std::string& why);
  void StartWake(Tenant& tenant, const std::vector<GpuIndex>& to);
  void PlaceNew(Tenant& tenant, const std::vector<GpuIndex>& to);
  void MoveAsAsked();
  void ParkAsAsked();
  void ParkIdle();
  void Spread();
  bool IsQuiet(GpuIndex gpu);
  bool HasStoodEmpty(GpuIndex gpu);
  bool SpreadFrom(GpuIndex crowded, GpuIndex quiet);

  // ledger_seekers.cc
  void SeatSeekers(Right right);
  void Seat(Tenant& tenant, bool is_first);
  static bool IsWithinRequest(const Tenant& tenant);
  bool IsParkedWaiting() const;
  void SeatParked(Tenant& tenant, std::vector<std::vector<GpuIndex>> places);
  bool SwapIn(Tenant& tenant, const std::vector<GpuIndex>& to);
  std::vector<Tenant*> WhoMakesWay(GpuIndex gpu, Bytes needed);

  // ledger_pins.cc
  void SettlePins();
  bool IsSettled(Tenant& tenant);
  bool IsAboutToBeBound(TenantId id) const;
  bool IsComingHome(Tenant& tenant);
  bool IsRepaying(Tenant& tenant);

  // ledger_room.cc
  Room MakeRoom(GpuIndex gpu, Bytes needed, const Tenant* owner, Right right, std::string* why);
  bool IsBeingFreed(GpuIndex gpu) const;
  bool IsMoreComing(GpuIndex gpu, const Tenant* except) const;
  Bytes FloorOf(const Tenant& tenant, unsigned device) const;
  Bytes Slack(GpuIndex gpu, const Tenant* except) const;
  void LowerIdle(GpuIndex gpu, Bytes needed, const Tenant* except);
  void Lower(Tenant& tenant, unsigned device, Bytes bytes);
  void LowerLeaving();
  void KeepBounds();
  bool ShrinkBorrowers(GpuIndex gpu, Bytes needed, const Tenant* owner);
  bool MoveBorrower(GpuIndex gpu, Bytes needed, const Tenant* owner);
  bool ParkBorrower(GpuIndex gpu, Bytes needed, const Tenant* owner, bool is_idle);
  bool IsRequeued(GpuIndex gpu, const Tenant* owner);
  bool RequeueBorrower(GpuIndex gpu, const Tenant* owner);
  std::vector<Tenant*> BorrowersOf(GpuIndex gpu, const Tenant* except);

  // ledger_wants.cc
  void AnswerWants(Right right);
  Bytes NeedOf(const OpenWant& want) const;
  bool AnswerWant(OpenWant& want);
  bool AnswerRight(const OpenWant& want, Tenant& tenant, Bytes need);
  bool AnswerLoan(OpenWant& want, Tenant& tenant, Bytes need);
  Bytes GrowthRoom(GpuIndex gpu) const;
  void Grant(const OpenWant& want, Tenant& tenant, Bytes need, Bytes most);
  bool Deny(const OpenWant& want, std::string why);
  Bytes LoanPart(const Tenant& tenant, GpuIndex gpu, Bytes need) const;

  Settings settings_;
  std::map<GpuIndex, Gpu> gpus_;
  std::map<TenantId, Tenant> tenants_;
  std::map<std::uint64_t, GpuSet> wholes_;
  std::map<GpuIndex, Time> left_at_;  // When a whole job left it last; kNoTime: since the last decision.
  std::vector<OpenWant> wants_;
  std::map<std::uint64_t, TenantId> pins_;  // By their requests.
  std::map<TenantId, Time> binding_;  // Pins that were answered: until when it may still be unsaid that they bind.
  std::map<TenantId, std::vector<GpuIndex>> asked_moves_;
  std::set<TenantId> asked_parks_;

  std::uint64_t next_order_ = 1;
  std::map<std::uint64_t, InFlight> in_flight_;
  std::set<DeviceKey> lowering_;
  std::map<DeviceKey, Bytes> left_;  // SetLeft.
  std::vector<Order> orders_;
  Time now_ = kNoTime;
  Time next_decision_ = kNever;

  std::map<DeviceKey, Until> granted_;    // Not lowered again before its process could use it.
  std::map<DeviceKey, Until> wishes_;     // Loans that were denied lately.
  std::map<TenantId, Refusal> refusals_;  // Moves and parks that failed lately.
  std::map<TenantId, Time> shrunk_;       // When it was asked to shrink last.
  std::set<TenantId> requeued_;
  std::map<TenantId, std::string> waits_;  // WhyWaits.
  std::set<GpuIndex> pushed_over_;         // By what came unasked: residuals, a changed capacity, what pages said.
  std::set<GpuIndex> claimed_;             // Here a request waits for room: nothing is lent.
  std::map<std::uint64_t, std::string> said_of_jobs_;
  std::map<TenantId, std::string> said_of_tenants_;
  std::set<TenantId> failed_for_gpu_;  // In the decision before,
  std::set<TenantId> fails_for_gpu_;   // and in the one under way.
};

}  // namespace divvy::sharing
