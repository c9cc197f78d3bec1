// Memory ledger of one node: decides which GPU each tenant is on and how much memory it may use. It also decides about
// lending, repaying, moving, parking and waking.
//
// Facts go in through the methods below, and each Decide returns the orders that follow from them. The ledger does
// nothing in between. In each iteration of its loop, the keeper applies all facts, calls Decide, executes the orders
// and reports them with OnDone. It repeats this until Decide returns no orders. An order that ends immediately, such as
// SetCeiling, is reported and followed by Decide at once. The same facts and times give the same orders.
//
// Invariants after each call (see CheckInvariants):
//  * The ceilings on a GPU, including those of tenants on their way to it, sum to at most its capacity. Only a residual
//    that the driver reports later can exceed it; that excess is repaid first.
//  * The memory and time requests on a GPU also fit, so that every request can be honoured.
//  * No new tenant is placed on a GPU that is withheld or unusable.
//  * All GPUs of one tenant are different.
//
// Repaying escalates in steps (docs/sharing-design.md): deny further loans -> lower idle ceilings -> shrink pools ->
// move a borrower -> park an idle borrower -> swap a busy borrower out for a turn -> requeue a borrower that agreed to
// it. Memory that none of these steps could reclaim is not lent.
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
  Duration least_stay = 30s;   // Minimum time between two moves of one tenant, except for a job that needs whole GPUs.
  Duration memory_turn = 10s;  // After a swap, a borrower stays out, or stays in, for at least this long.
  Duration idle_after = 1s;    // A tenant without work for this long counts as idle for repaying and moving.
  Duration wish_lasts = 10s;   // A denied loan counts for this long when idle memory is divided.
  Duration loan_waits = 5s;    // How long a loan request waits for others to get their due before it is denied.
  Duration retry_after = 60s;  // Delay before a failed move or park is retried.
  Duration slack = 2s;         // Added to the bound of a repack, for control state, orders and the driver's own time.
  // After a Pin is answered, the tenant must become bound within this time; later the pin is dropped.
  Duration binds_within = 10s;
  Duration grant_lasts = 1s;  // A grant is not lowered for this long, so that the process can use it.
  Bytes grain = 64_MiB;       // Ceilings are raised by at least this much where memory is free.
  Bytes growth;  // Loans leave this much free for each tenant on the GPU, at most 1/64 of the GPU. Loading code takes
                 // memory without a request.
  Duration stood_empty = 5s;  // A GPU left by a whole job must stay empty this long before tenants spread onto it; the
                              // next whole job may follow.
  bool can_spread = true;     // Allows moving running tenants to GPUs that became empty.
};

class SharePlanner {
 public:
  explicit SharePlanner(Settings settings = {}) : settings_(settings) {}

  // --- Facts about GPUs ----------------------------------------------------------------------------------------------

  /// Adds or updates a GPU. Add all GPUs once, before any tenant. Later calls change capacity, speed and usability of a
  /// known GPU. `whole_job` and `is_ready` are ignored.
  void SetGpu(const Gpu& gpu);
  /// Announces that `job` is about to start on all of these GPUs. Tenants are moved away, and Ready or Failed follows.
  /// After a restart, call it again for the same job: Ready is issued again.
  void AcquireExclusive(std::uint64_t job, GpuSet gpus);
  /// The job has ended, or will not start.
  void ReleaseExclusive(std::uint64_t job);

  // --- Facts about tenants -------------------------------------------------------------------------------------------

  /// Adds a new tenant: id, share, planned GPUs and reasons why it cannot move. A Place order follows, immediately or
  /// after a repack. Errors: an unknown GPU, two devices on one GPU, an invalid share, or planned requests that exceed
  /// a GPU.
  Status AddTenant(const Tenant& tenant);
  /// Adds a tenant that existed before the keeper started, in the state that its page reports. If an operation was
  /// interrupted, pass kHere (memory not evacuated yet) or kParked. Use parked_by kLedger if it shall wake by itself.
  Status LoadTenant(const Tenant& tenant);
  /// Removes a tenant whose processes have ended. Its open requests are dropped.
  void RemoveTenant(TenantId id);
  /// Changes a tenant's share; orders follow. Errors as for AddTenant, with nothing changed. A decrease takes free
  /// memory at once and the rest, borrowed from then on, as it is freed. `paper`: the new planned GPUs, as many as the
  /// tenant has devices; std::nullopt keeps the present ones.
  Status Resize(TenantId id, const Share& share, std::optional<GpuSet> paper = std::nullopt);
  /// Reports the memory in use. Call it before Want, and again when the gate closes for a move or park: that value is
  /// the amount to restore. Ignored while the tenant is on the host.
  void SetUse(TenantId id, unsigned device, Bytes used_and_residual);
  /// Reports how many bytes of a parking tenant are still on its GPU. Waiting tenants can use the freed part before
  /// parking ends. Ignored for all other tenants.
  void SetLeft(TenantId id, unsigned device, Bytes left);
  /// `is_active`: since the last call, the tenant launched work or waited for its turn. An active parked tenant wakes.
  void SetActivity(TenantId id, bool is_active, Time now);
  /// Sets why a tenant cannot move or park; empty means that it can. The library never withdraws a reason; the keeper
  /// does, after a change of backend.
  void SetCannot(TenantId id, std::string why_cannot_move, std::string why_cannot_park);
  /// Requests `bytes` beyond the present use; call SetUse first. Exactly one Answer with the same `request` follows,
  /// unless the tenant is removed before.
  void Want(TenantId id, unsigned device, Bytes bytes, std::uint64_t request);
  /// Drops a request, or a Pin, whose process has ended.
  void ForgetWant(TenantId id, std::uint64_t request);
  /// Announces a call that will bind the tenant to its GPUs permanently; the caller holds that call back. The tenant
  /// first moves to its planned GPUs, and borrowed memory is reclaimed, as far as possible. Exactly one Answer
  /// (granted) follows, unless the tenant is removed before.
  void Pin(TenantId id, std::uint64_t request);
  /// Reports a call that waits at the tenant's parked gate.
  void WantWake(TenantId id);

  // --- User commands: errors name the problem and a remedy -----------------------------------------------------------

  Status ParkByUser(TenantId id);
  Status WakeByUser(TenantId id);
  /// Requires as many GPUs as the tenant has devices. Each GPU that changes must be usable, not withheld, of the same
  /// kind and have room for the request.
  Status MoveByUser(TenantId id, const std::vector<GpuIndex>& to);

  // --- Decisions -----------------------------------------------------------------------------------------------------

  void OnDone(std::uint64_t order, const Done& done, Time now);
  /// The processes of a lost tenant have ended and the damaged memory is gone. The tenant is now on the host without
  /// memory, and is placed like a waking tenant. Ignored if the tenant is not lost.
  void OnLostEnded(TenantId id, Time now);
  std::vector<Order> Decide(Time now);
  /// When to call Decide again without new facts; kNever if not needed.
  Time next_decision() const { return next_decision_; }

  // --- Queries -------------------------------------------------------------------------------------------------------

  const std::map<TenantId, Tenant>& tenants() const { return tenants_; }
  const Tenant* Find(TenantId id) const;
  const std::map<GpuIndex, Gpu>& gpus() const { return gpus_; }
  /// Returns the bytes that the tenant uses on this device above its request.
  static Bytes Borrowed(const Tenant& tenant, unsigned device);
  /// Returns the GPU's capacity minus all ceilings on it.
  Bytes Free(GpuIndex gpu) const;
  /// Returns the longest time that a job waits until tenants have left these GPUs. It covers copying their bytes to the
  /// host and back, plus Settings::slack. Returns Duration::max() if a tenant cannot leave.
  Duration RepackBound(GpuSet gpus) const;
  /// Returns why a parked or arriving tenant is not on a GPU, or why a request has no answer yet; "" if neither
  /// applies.
  std::string WhyWaits(TenantId id) const;
  /// Returns true while a move, park, wake or shrink is in flight, which may soon make room for waiting tenants.
  bool IsAtWork() const { return !in_flight_.empty(); }
  /// Returns "" or a description of the violation. Re-derives every sum from the tenants.
  std::string CheckInvariants() const;

 private:
  struct OpenWant {
    TenantId tenant;
    unsigned device = 0;
    Bytes bytes;
    std::uint64_t request = 0;
    Time waits_until = kNoTime;  // When waiting for others to get their due ends. kNoTime: not waiting.
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
    ParkedBy parked_by = ParkedBy::kNobody;  // Reason of a Park order.
  };
  struct Load {
    Bytes ceilings;
    Bytes requests;
    std::int32_t compute = 0;
    int tenants = 0;
  };
  /// Result of making room: done, orders in flight, or impossible.
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
  bool IsOpen(GpuIndex gpu) const;  // Usable, not withheld and without a whole job.
  bool IsIdle(const Tenant& tenant) const;
  bool IsBorrower(const Tenant& tenant, GpuIndex gpu) const;
  bool HasStayed(const Tenant& tenant) const;
  std::string WhyStays(const Tenant& tenant) const;     // "" if it can be moved now.
  std::string WhyKeepsGpu(const Tenant& tenant) const;  // "" if it can be parked now.
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
  /// Returns false if no order is in flight and none can be issued.
  bool CarryOut(const Packing& packing, const std::vector<std::vector<int>>& to, GpuSet leaving, bool may_park = true);
  bool IsAnyInFlight() const;
  void ReportUnusable();
  /// Like FailTenant, for a problem of the tenant's GPU. TakeBackFailures withdraws it when the problem is gone.
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
  std::map<GpuIndex, Time> left_at_;  // When a whole job last left the GPU; kNoTime: since the last Decide.
  std::vector<OpenWant> wants_;
  std::map<std::uint64_t, TenantId> pins_;  // Keyed by request.
  std::map<TenantId, Time> binding_;        // Answered pins: until when the page may still not report the binding.
  std::map<TenantId, std::vector<GpuIndex>> asked_moves_;
  std::set<TenantId> asked_parks_;

  std::uint64_t next_order_ = 1;
  std::map<std::uint64_t, InFlight> in_flight_;
  std::set<DeviceKey> lowering_;
  std::map<DeviceKey, Bytes> left_;  // Set by SetLeft.
  std::vector<Order> orders_;
  Time now_ = kNoTime;
  Time next_decision_ = kNever;

  std::map<DeviceKey, Until> granted_;    // Not lowered before the process had time to use it.
  std::map<DeviceKey, Until> wishes_;     // Recently denied loans.
  std::map<TenantId, Refusal> refusals_;  // Recently failed moves and parks.
  std::map<TenantId, Time> shrunk_;       // When the tenant was last asked to shrink.
  std::set<TenantId> requeued_;
  std::map<TenantId, std::string> waits_;  // Texts for WhyWaits.
  std::set<GpuIndex> pushed_over_;         // GPUs over capacity due to residuals, a changed capacity, or loaded pages.
  std::set<GpuIndex> claimed_;             // A request waits for room here, so nothing is lent.
  std::map<std::uint64_t, std::string> said_of_jobs_;
  std::map<TenantId, std::string> said_of_tenants_;
  std::set<TenantId> failed_for_gpu_;  // Failures for GPU problems in the previous Decide.
  std::set<TenantId> fails_for_gpu_;   // The same for the Decide in progress.
};

}  // namespace divvy::sharing
