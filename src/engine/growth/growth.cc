#include "engine/growth/growth.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "engine/growth/packing.h"

namespace divvy::growth {
namespace {

using placement::Fits;
using placement::NodeState;
using placement::Shape;

/// Offers that are compared for one job: those with the best price per GPU.
constexpr std::size_t kMostCandidates = 64;
/// Other demands that are considered to share a new node.
constexpr std::size_t kLookahead = 16;
/// Part of a new node's spare room that jobs which have not arrived yet can be expected to use at best.
constexpr double kMostFill = 0.8;
/// Nodes of which whole periods are billed are returned this long before a period ends, or a tenth of it if that is
/// less.
constexpr Duration kPeriodMargin = 2min;
constexpr int kMostDoublings = 8;
constexpr int kAnyClass = -1;
constexpr Money kPlenty{std::numeric_limits<std::int64_t>::max() / 4};

bool Contains(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

/// Whether a node that exists until `until` is suitable.
bool OutlivesJob(const Demand& demand, Time start, Time until) {
  if (until == kNever || demand.can_requeue) return true;
  return demand.time_limit > Duration(0) && AddSaturating(start, demand.time_limit) <= until;
}

/// How much more a provider may have. Amounts can be negative if its limits were lowered.
struct Allowance {
  bool is_open = false;
  std::int64_t nodes = 0;
  std::int64_t gpus = 0;
  Money hourly;

  bool HasRoomFor(std::int64_t more_nodes, std::int64_t more_gpus, Money more_hourly) const {
    return is_open && more_nodes <= nodes && more_gpus <= gpus && more_hourly <= hourly;
  }
};

/// A node on which jobs are planned: an existing one, one on its way or a new one.
struct Bin {
  NodeState room;
  const OwnedNode* node = nullptr;  // Null: requested now.
  std::optional<OfferIndex> offer;
  Time ready{};  // When `room` is free.
  Time expires = kNever;
  std::size_t next_release = 0;  // Earlier ones are part of `room`.
  Duration stay{0};              // A new node: until its last job is expected to end, from its start.
  bool is_used = false;

  bool is_ready_now() const { return node != nullptr && node->phase == NodePhase::kReady; }
};

class Planner {
 public:
  explicit Planner(const GrowthInput& input) : in_(input), catalogue_(*input.catalogue) {
    out_.verdicts.resize(in_.demands.size());
    left_.resize(in_.demands.size());
    alone_.resize(in_.demands.size());
    for (std::size_t i = 0; i < in_.demands.size(); ++i) left_[i] = in_.demands[i].jobs;
    team_left_ = in_.team_hourly;
  }

  GrowthDecision Run() {
    CountUsage();
    ReturnForced();
    MakeBins();
    for (std::size_t i = 0; i < in_.demands.size(); ++i) CoverOnExisting(i);
    ListOffers();
    for (std::size_t i = 0; i < in_.demands.size(); ++i) {
      if (left_[i] > 0) Open(i);
    }
    ReturnIdle();
    return std::move(out_);
  }

 private:
  // --- Limits

  void CountUsage() {
    allowances_.resize(catalogue_.providers().size());
    spending_.resize(allowances_.size());
    std::vector<std::int64_t> nodes(allowances_.size()), gpus(allowances_.size());
    for (const OwnedNode& node : in_.nodes) {
      if (!node.offer) continue;
      const Offer& offer = catalogue_.offers()[*node.offer];
      nodes[offer.provider] += 1;
      gpus[offer.provider] += offer.node.gpus;
      spending_[offer.provider] += offer.hourly;
    }
    for (std::size_t p = 0; p < allowances_.size(); ++p) {
      const Provider& provider = catalogue_.providers()[p];
      const ProviderLimits& limits = provider.limits;
      Allowance& allowance = allowances_[p];
      allowance.is_open = provider.is_enabled && in_.now >= in_.providers[p].down_until;
      if (provider.is_enabled && !allowance.is_open) WakeAt(in_.providers[p].down_until);
      constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();
      allowance.nodes = limits.nodes ? *limits.nodes - nodes[p] : kNoLimit;
      allowance.gpus = limits.gpus ? *limits.gpus - gpus[p] : kNoLimit;
      allowance.hourly = limits.hourly ? *limits.hourly - spending_[p] : kPlenty;
      if (!limits.monthly) continue;
      // The hourly cost at which the reserve still lasts.
      const double hours = ToSeconds(in_.rules.budget_reserve) / 3600;
      const double rate = (*limits.monthly - in_.providers[p].spent_this_month).units() / hours;
      const Money monthly(static_cast<std::int64_t>(std::clamp(rate, -1e9, 1e9) * 1e6));
      allowance.hourly = std::min(allowance.hourly, monthly - spending_[p]);
    }
  }

  Money TeamLeft(const std::string& team) const {
    const auto known = team_left_.find(team);
    return known == team_left_.end() ? kPlenty : known->second;
  }

  /// Whether the job's own limits allow nodes of this price.
  bool MaySpend(const Demand& demand, Money hourly) const {
    return hourly <= TeamLeft(demand.team) && (!demand.max_hourly || hourly <= *demand.max_hourly);
  }

  bool MayRequest(const Offer& offer) const {
    return allowances_[offer.provider].HasRoomFor(1, offer.node.gpus, offer.hourly);
  }

  // --- Existing nodes

  Time ExpiryOf(const OwnedNode& node) const {
    if (!node.offer) return kNever;
    const Duration lifetime = catalogue_.offers()[*node.offer].max_lifetime;
    return lifetime == Duration(0) ? kNever : AddSaturating(node.created, lifetime);
  }

  void ReturnForced() {
    for (const OwnedNode& node : in_.nodes) {
      if (!node.offer || node.phase == NodePhase::kReturning) continue;
      const Offer& offer = catalogue_.offers()[*node.offer];
      const ProviderLimits& limits = catalogue_.providers()[offer.provider].limits;
      const Time expires = ExpiryOf(node);
      if (expires != kNever && in_.now >= expires - in_.rules.warning) {
        Return(node, ReturnReason::kLifetime, true);
        continue;
      }
      if (expires != kNever) WakeAt(expires - in_.rules.warning);
      if (!limits.monthly) continue;
      const Money left = *limits.monthly - in_.providers[offer.provider].spent_this_month;
      const Money rate = spending_[offer.provider];
      if (left <= CostOf(rate, in_.rules.warning)) {
        Return(node, ReturnReason::kBudget, true);
      } else if (rate > Money()) {
        // The earliest moment at which the rest is used up.
        const double hours = (left - CostOf(rate, in_.rules.warning)).units() / rate.units();
        WakeAt(AddSaturating(
            in_.now, std::chrono::ceil<std::chrono::seconds>(TimeFromSeconds(hours * 3600).time_since_epoch())));
      }
    }
  }

  void Return(const OwnedNode& node, ReturnReason reason, bool is_forced) {
    out_.returns.push_back({node.id, reason, is_forced, node.was_used});
  }

  bool IsReturned(const OwnedNode& node) const {
    return node.phase == NodePhase::kReturning ||
           std::ranges::binary_search(out_.returns, node.id, {}, &NodeReturn::node);
  }

  void MakeBins() {
    Duration longest{0};
    for (const OfferIndex offer : catalogue_.by_startup())
      longest = std::max(longest, catalogue_.offers()[offer].startup);
    latest_ = AddSaturating(in_.now, longest);
    for (const OwnedNode& node : in_.nodes) {
      if (IsReturned(node)) continue;
      Bin bin;
      bin.room = node.room;
      bin.node = &node;
      bin.offer = node.offer;
      bin.ready = node.phase == NodePhase::kComing ? std::max(node.ready, in_.now) : in_.now;
      bin.expires = ExpiryOf(node);
      const bool changes_soon = !node.releases.empty() && node.releases.front().time <= latest_;
      if (node.phase == NodePhase::kComing || changes_soon) dated_.push_back(bins_.size());
      bins_.push_back(std::move(bin));
    }
  }

  bool IsAllowedOn(const Bin& bin, const Demand& demand) const {
    if (bin.offer && PermissionOf(catalogue_, demand, *bin.offer) != OfferFit::kFits) return false;
    return OutlivesJob(demand, bin.ready, bin.expires);
  }

  /// Makes room for `shape` by waiting for ends until `horizon` at the latest. False: `bin` is unchanged.
  static bool MakeFit(Bin& bin, const Shape& shape, Time horizon) {
    if (Fits(bin.room, shape)) return true;
    if (bin.node == nullptr) return false;
    const std::vector<Release>& releases = bin.node->releases;
    if (bin.next_release == releases.size() || releases[bin.next_release].time > horizon) return false;
    NodeState room = bin.room;
    for (std::size_t i = bin.next_release; i < releases.size() && releases[i].time <= horizon; ++i) {
      placement::Release(room, releases[i].shape, releases[i].place);
      if (!Fits(room, shape)) continue;
      bin.room = std::move(room);
      bin.ready = std::max(bin.ready, releases[i].time);
      bin.next_release = i + 1;
      return true;
    }
    return false;
  }

  /// A quick check before a bin is copied: false only if MakeFit would fail.
  static bool MayFit(const Bin& bin, const Shape& shape, Time horizon) {
    if (Fits(bin.room, shape)) return true;
    if (bin.node == nullptr || bin.room.gpus < shape.gpus || (shape.models >> bin.room.model & 1) == 0) return false;
    const std::vector<Release>& releases = bin.node->releases;
    return bin.next_release < releases.size() && releases[bin.next_release].time <= horizon;
  }

  bool PlaceOn(Bin& bin, const Shape& shape, Time horizon, const Demand& demand) {
    const bool is_coming = !bin.is_ready_now();
    if (!is_coming && bin.ready > horizon) return false;
    if (!IsAllowedOn(bin, demand) || !MakeFit(bin, shape, horizon)) return false;
    TakeRoom(bin.room, shape);
    bin.is_used = true;
    return true;
  }

  /// Until when the demand waits for expected ends: half as long as a new node would have taken, because expected ends
  /// are often wrong, and the new node then comes later. If no offer fits: any.
  Time HorizonOf(const Demand& demand) const {
    for (const OfferIndex offer : catalogue_.by_startup()) {
      if (!allowances_[catalogue_.offers()[offer].provider].is_open) continue;
      if (FitOf(catalogue_, demand, offer) == OfferFit::kFits)
        return AddSaturating(demand.waiting_since == kNoTime ? in_.now : std::min(demand.waiting_since, in_.now),
                             catalogue_.offers()[offer].startup / 2);
    }
    return latest_;
  }

  void Count(std::size_t demand, const Bin& bin) {
    Verdict& verdict = out_.verdicts[demand];
    left_[demand] -= 1;
    (bin.node == nullptr ? verdict.on_new : bin.is_ready_now() ? verdict.on_existing : verdict.on_coming) += 1;
    verdict.expected = std::min(verdict.expected, bin.ready);
  }

  void CoverOnExisting(std::size_t i) {
    const Demand& demand = in_.demands[i];
    if (!IsSingle(demand)) {
      while (left_[i] > 0 && CoverGang(i)) continue;
      return;
    }
    if (dated_.empty()) return;
    const Time horizon = HorizonOf(demand);
    const Shape& shape = demand.tasks.front().shape;
    for (const std::size_t at : dated_) {
      Bin& bin = bins_[at];
      // The node has room for the job now, but the scheduler keeps it for other jobs. More room that becomes free there
      // would not start the job, so this node does not count, and another one may be requested.
      if (bin.is_ready_now() && Fits(bin.node->room, shape)) continue;
      while (left_[i] > 0 && PlaceOn(bin, shape, horizon, demand)) Count(i, bin);
      if (left_[i] == 0) return;
    }
  }

  // --- Gangs

  /// Changes to bins that can be undone.
  class Undo {
   public:
    explicit Undo(std::vector<Bin>& bins) : bins_(bins) {}
    /// Returns whether it was not kept before.
    bool Keep(std::size_t bin) {
      if (std::ranges::any_of(saved_, [bin](const auto& one) { return one.first == bin; })) return false;
      saved_.emplace_back(bin, bins_[bin]);
      return true;
    }
    void Restore() {
      for (auto& [at, bin] : saved_) bins_[at] = std::move(bin);
      saved_.clear();
    }
    void Forget(std::size_t bin) {
      std::erase_if(saved_, [bin](const auto& one) { return one.first == bin; });
    }
    const std::vector<std::pair<std::size_t, Bin>>& saved() const { return saved_; }

   private:
    std::vector<Bin>& bins_;
    std::vector<std::pair<std::size_t, Bin>> saved_;
  };

  /// Places as many tasks of one job as possible on nodes of class `node_class`, and returns the others.
  std::vector<TaskNeed> FillGang(const Demand& demand, int node_class, Time horizon, Undo& undo) {
    std::vector<TaskNeed> rest;
    for (TaskNeed need : LargestFirst(demand.tasks)) {
      for (std::size_t at = 0; at < bins_.size() && need.count > 0; ++at) {
        Bin& bin = bins_[at];
        if (node_class != kAnyClass && bin.room.model != node_class) continue;
        if (need.is_apart && std::ranges::any_of(undo.saved(), [at](const auto& one) { return one.first == at; }))
          continue;
        if (!MayFit(bin, need.shape, horizon)) continue;
        const bool is_first = undo.Keep(at);
        bool is_placed = false;
        while (need.count > 0 && PlaceOn(bin, need.shape, horizon, demand)) {
          is_placed = true;
          need.count -= 1;
          if (need.is_apart) break;
        }
        if (!is_placed && is_first) undo.Forget(at);
      }
      if (need.count > 0) rest.push_back(need);
    }
    return rest;
  }

  /// The node classes on which the gang may run: one at a time, because its GPUs must be of one model.
  std::vector<int> ClassesFor(const Demand& demand) const {
    if (GpusOf(demand) == 0) return {kAnyClass};
    std::uint64_t classes = 0;
    for (const Bin& bin : bins_) classes |= std::uint64_t{1} << bin.room.model;
    for (const OfferIndex offer : catalogue_.by_value())
      classes |= std::uint64_t{1} << catalogue_.offers()[offer].node.model;
    for (const TaskNeed& need : demand.tasks) classes &= need.shape.models;
    std::vector<int> list;
    for (; classes != 0; classes &= classes - 1) list.push_back(std::countr_zero(classes));
    return list;
  }

  /// The bin of the gang that is ready last decides when it starts.
  void CountGang(std::size_t i, const Undo& undo) {
    const Bin* last = nullptr;
    for (const auto& [at, saved] : undo.saved()) {
      const Bin& bin = bins_[at];
      const bool is_later = last == nullptr || bin.ready > last->ready ||
                            (bin.ready == last->ready && last->is_ready_now() && !bin.is_ready_now());
      if (is_later) last = &bin;
    }
    Count(i, *last);
  }

  bool CoverGang(std::size_t i) {
    const Demand& demand = in_.demands[i];
    const Time horizon = HorizonOf(demand);
    for (const int node_class : ClassesFor(demand)) {
      Undo undo(bins_);
      const bool is_whole = FillGang(demand, node_class, horizon, undo).empty();
      // All nodes that the gang would need have room now, but the scheduler keeps it for other jobs.
      const bool is_held = std::ranges::all_of(undo.saved(), [&](const auto& one) {
        return bins_[one.first].is_ready_now() && bins_[one.first].ready <= in_.now;
      });
      if (is_whole && !is_held) {
        CountGang(i, undo);
        return true;
      }
      undo.Restore();
    }
    return false;
  }

  enum class Opening { kDone, kRefused, kDeferred };

  /// Requests the nodes that one job lacks.
  Opening OpenGang(std::size_t i) {
    const Demand& demand = in_.demands[i];
    const Time horizon = HorizonOf(demand);
    std::optional<std::vector<PackedNode>> best;
    int best_class = kAnyClass;
    bool fills_others = false;
    Money best_hourly;
    for (const int node_class : ClassesFor(demand)) {
      Undo undo(bins_);
      const std::vector<TaskNeed> rest = FillGang(demand, node_class, horizon, undo);
      undo.Restore();
      // If the gang would fit on the present nodes and still waits, the scheduler keeps the room for other jobs. So
      // nodes are requested for all of its tasks.
      auto nodes = CheapestFor(demand, rest.empty() ? demand.tasks : rest, node_class);
      if (!nodes) continue;
      const Money hourly = HourlyOf(catalogue_, *nodes);
      if (best && hourly >= best_hourly) continue;
      best = std::move(nodes);
      best_class = node_class;
      fills_others = !rest.empty();
      best_hourly = hourly;
    }
    if (!best) return Opening::kRefused;
    if (!out_.requests.empty() && out_.requests.size() + best->size() > in_.rules.most_requests)
      return Opening::kDeferred;
    Undo undo(bins_);
    if (fills_others) FillGang(demand, best_class, horizon, undo);
    const std::uint32_t set = next_set_++;
    for (PackedNode& node : *best) undo.Keep(AddBin(node.offer, std::move(node.room), set, i));
    CountGang(i, undo);
    return Opening::kDone;
  }

  std::optional<std::vector<PackedNode>> CheapestFor(const Demand& demand, const std::vector<TaskNeed>& tasks,
                                                     int node_class) const {
    std::optional<std::vector<PackedNode>> best;
    Money best_hourly;
    std::size_t tried = 0;
    for (const OfferIndex index : usable_) {
      const Offer& offer = catalogue_.offers()[index];
      if (node_class != kAnyClass && offer.node.model != node_class) continue;
      if (!MayRequest(offer) || FitOf(catalogue_, demand, index) != OfferFit::kFits) continue;
      if (++tried > kMostCandidates) break;
      const auto is_allowed = [&](OfferIndex other) {
        return MayRequest(catalogue_.offers()[other]) && PermissionOf(catalogue_, demand, other) == OfferFit::kFits;
      };
      auto nodes = PackTasks(catalogue_, index, tasks, allowances_[offer.provider].nodes, is_allowed);
      if (!nodes) continue;
      const Money hourly = HourlyOf(catalogue_, *nodes);
      std::int64_t gpus = 0;
      for (const PackedNode& node : *nodes) gpus += catalogue_.offers()[node.offer].node.gpus;
      const auto count = static_cast<std::int64_t>(nodes->size());
      if (!allowances_[offer.provider].HasRoomFor(count, gpus, hourly) || !MaySpend(demand, hourly)) continue;
      if (best && hourly >= best_hourly) continue;
      best_hourly = hourly;
      best = std::move(nodes);
    }
    return best;
  }

  // --- New nodes

  bool MayGrow(const Demand& demand) const { return demand.may_grow && in_.now >= demand.not_before; }

  void ListOffers() {
    for (const OfferIndex index : catalogue_.by_value()) {
      if (MayRequest(catalogue_.offers()[index])) usable_.push_back(index);
    }
    by_price_ = usable_;
    std::ranges::stable_sort(by_price_, {}, [this](OfferIndex index) { return catalogue_.offers()[index].hourly; });
    for (const OfferIndex index : usable_) quickest_ = std::min(quickest_, catalogue_.offers()[index].startup);
    for (const Bin& bin : bins_) {
      if (bin.room.gpus > 0) spare_gpus_ += static_cast<double>(bin.room.gpu_free) / placement::kGpuParts;
    }
  }

  void Open(std::size_t i) {
    const Demand& demand = in_.demands[i];
    Verdict& verdict = out_.verdicts[i];
    const bool is_single = IsSingle(demand);
    if (demand.may_grow) WakeAt(demand.not_before);
    if (is_single) {
      for (const std::size_t at : new_bins_) Join(at, i);
    }
    while (left_[i] > 0) {
      Opening opening = Opening::kRefused;
      if (MayGrow(demand) && !usable_.empty()) {
        const bool is_full = out_.requests.size() >= in_.rules.most_requests;
        opening = is_full ? Opening::kDeferred : is_single ? OpenSingle(i) : OpenGang(i);
      }
      if (opening == Opening::kDone) continue;
      (opening == Opening::kDeferred ? verdict.deferred : verdict.refused) = std::exchange(left_[i], 0);
      if (opening == Opening::kDeferred) WakeAt(in_.now + 1s);
    }
  }

  /// Places jobs of a demand on a new node, unless they would keep it longer than they are worth.
  void Join(std::size_t at, std::size_t i) {
    const Bin& bin = bins_[at];
    const Demand& demand = in_.demands[i];
    if (!Fits(bin.room, demand.tasks.front().shape)) return;
    const Duration longer = RunTimeOf(in_, demand) - bin.stay;
    if (longer > Duration(0)) {
      const Offer& offer = catalogue_.offers()[*bin.offer];
      const double fits =
          std::max(1.0, std::floor(bin.room.gpu_free / std::max(GpusOf(demand), 0.01) / placement::kGpuParts));
      const double value = std::min<double>(left_[i], fits) * AloneCost(i);
      if (CostOf(offer.hourly, longer).units() > value) return;
    }
    Share(at, i);
  }

  /// The same for demands for which the node was chosen too.
  void Share(std::size_t at, std::size_t i) {
    Bin& bin = bins_[at];
    const Demand& demand = in_.demands[i];
    while (left_[i] > 0 && PlaceOn(bin, demand.tasks.front().shape, kNever, demand)) {
      bin.stay = std::max(bin.stay, RunTimeOf(in_, demand));
      Count(i, bin);
    }
  }

  /// Adds a node, with `room` left on it, and returns its bin.
  std::size_t AddBin(OfferIndex index, NodeState room, std::uint32_t set, std::size_t demand) {
    const Offer& offer = catalogue_.offers()[index];
    out_.requests.push_back({index, set, static_cast<std::uint32_t>(demand)});
    Allowance& allowance = allowances_[offer.provider];
    allowance.nodes -= 1;
    allowance.gpus -= offer.node.gpus;
    allowance.hourly -= offer.hourly;
    if (const auto team = team_left_.find(in_.demands[demand].team); team != team_left_.end())
      team->second -= offer.hourly;
    if (allowance.nodes <= 0 || allowance.gpus <= 0 || allowance.hourly <= Money()) {
      for (std::vector<OfferIndex>* list : {&usable_, &by_price_})
        std::erase_if(*list, [&](OfferIndex other) { return catalogue_.offers()[other].provider == offer.provider; });
    }
    Bin bin;
    bin.room = std::move(room);
    bin.offer = index;
    bin.ready = AddSaturating(in_.now, offer.startup);
    if (offer.max_lifetime > Duration(0)) bin.expires = AddSaturating(in_.now, offer.max_lifetime);
    bin.is_used = true;
    bin.stay = RunTimeOf(in_, in_.demands[demand]);
    spare_gpus_ += static_cast<double>(bin.room.gpu_free) / placement::kGpuParts;
    // The rest of a new node counts as room for further jobs only if it has free GPUs, or is a node without GPUs.
    if (bin.room.gpu_free > 0 || bin.room.gpus == 0) new_bins_.push_back(bins_.size());
    bins_.push_back(std::move(bin));
    return bins_.size() - 1;
  }

  /// The cost of a job on nodes of its own.
  double AloneCost(std::size_t i) {
    if (!alone_[i]) {
      double best = std::numeric_limits<double>::infinity();
      const Demand& demand = in_.demands[i];
      const Duration run_time = RunTimeOf(in_, demand);
      for (const OfferIndex index : by_price_) {
        const Offer& offer = catalogue_.offers()[index];
        // This one and all that follow cost more, however quickly they start.
        if (best <= CostOf(offer.hourly, quickest_ + run_time).units()) break;
        if (FitOf(catalogue_, demand, index) != OfferFit::kFits) continue;
        best = std::min(best, CostOf(offer.hourly, offer.startup + run_time).units());
      }
      alone_[i] = best;
    }
    return *alone_[i];
  }

  struct Choice {
    OfferIndex offer = 0;
    std::uint32_t jobs = 0;  // Jobs of the demand on one node.
    std::size_t until = 0;   // Demands before this one share the node.
    double ratio = 0;        // Its cost relative to nodes of their own for all jobs that it is expected to run.
  };

  /// The average part of `idle` GPUs, of a node that stays for `stay`, that jobs will use which have not arrived yet.
  double ExpectedFill(double idle, Duration stay) const {
    const double arriving = in_.gpus_per_hour * ToSeconds(stay) / 3600;
    const double ahead = spare_gpus_ + idle;
    if (arriving <= 0 || ahead <= 0) return 0;
    const double fill = arriving >= ahead ? 1 - ahead / arriving / 2 : arriving / ahead / 2;
    return kMostFill * fill;
  }

  Choice Rate(std::size_t i, OfferIndex index) {
    const Offer& offer = catalogue_.offers()[index];
    const Demand& demand = in_.demands[i];
    const Shape& shape = demand.tasks.front().shape;
    Choice choice{index, 0, i + 1, 0};
    NodeState room = offer.node;
    while (choice.jobs < left_[i] && Fits(room, shape)) {
      TakeRoom(room, shape);
      choice.jobs += 1;
    }
    Duration stay = RunTimeOf(in_, demand);
    double value = choice.jobs * AloneCost(i);
    double used = choice.jobs * GpusOf(shape) * ToSeconds(stay);
    const double per_gpu_second = shape.gpus > 0 ? AloneCost(i) / (GpusOf(shape) * ToSeconds(stay + offer.startup)) : 0;
    const auto ratio = [&] {
      const double idle = std::max(0.0, offer.node.gpus * ToSeconds(stay) - used);
      const double credit = ExpectedFill(idle / std::max(ToSeconds(stay), 1.0), stay) * idle * per_gpu_second;
      return CostOf(offer.hourly, offer.startup + stay).units() / (value + credit);
    };
    choice.ratio = ratio();
    std::size_t seen = 0;
    for (std::size_t j = i + 1; j < in_.demands.size() && seen < kLookahead && room.gpu_free > 0; ++j) {
      const Demand& other = in_.demands[j];
      if (left_[j] == 0 || !IsSingle(other) || !MayGrow(other)) continue;
      ++seen;
      const Shape& its = other.tasks.front().shape;
      if (!Fits(room, its) || FitOf(catalogue_, other, index) != OfferFit::kFits) continue;
      for (std::uint32_t k = 0; k < left_[j] && Fits(room, its); ++k) {
        TakeRoom(room, its);
        value += AloneCost(j);
        used += GpusOf(its) * ToSeconds(RunTimeOf(in_, other));
      }
      stay = std::max(stay, RunTimeOf(in_, other));
      if (const double shared = ratio(); shared < choice.ratio) {
        choice.ratio = shared;
        choice.until = j + 1;
      }
    }
    return choice;
  }

  Opening OpenSingle(std::size_t i) {
    const Demand& demand = in_.demands[i];
    std::optional<Choice> best;
    OfferIndex cheapest = 0;
    double cheapest_cost = std::numeric_limits<double>::infinity();
    std::size_t tried = 0;
    const auto consider = [&](OfferIndex index) {
      const Choice choice = Rate(i, index);
      const auto key = [this](const Choice& one) {
        return std::tuple(one.ratio, catalogue_.offers()[one.offer].hourly, one.offer);
      };
      if (!best || key(choice) < key(*best)) best = choice;
    };
    for (const OfferIndex index : usable_) {
      const Offer& offer = catalogue_.offers()[index];
      if (FitOf(catalogue_, demand, index) != OfferFit::kFits || !MayRequest(offer) || !MaySpend(demand, offer.hourly))
        continue;
      const double cost = CostOf(offer.hourly, offer.startup + RunTimeOf(in_, demand)).units();
      if (cost < cheapest_cost) {
        cheapest_cost = cost;
        cheapest = index;
      }
      if (++tried <= kMostCandidates) consider(index);
    }
    if (!best) return Opening::kRefused;
    if (tried > kMostCandidates) consider(cheapest);
    const Shape& shape = demand.tasks.front().shape;
    std::uint32_t nodes = std::max(1U, left_[i] / best->jobs);
    const Offer& offer = catalogue_.offers()[best->offer];
    for (; nodes > 0 && left_[i] > 0; --nodes) {
      if (!MayRequest(offer) || !MaySpend(demand, offer.hourly)) break;
      if (out_.requests.size() >= in_.rules.most_requests) break;
      NodeState room = offer.node;
      std::uint32_t jobs = 0;
      for (; jobs < std::min(best->jobs, left_[i]); ++jobs) TakeRoom(room, shape);
      const std::size_t at = AddBin(best->offer, std::move(room), next_set_++, i);
      for (; jobs > 0; --jobs) Count(i, bins_[at]);
      if (left_[i] > 0) continue;
      for (std::size_t j = i + 1; j < best->until; ++j) {
        const Demand& other = in_.demands[j];
        if (left_[j] > 0 && IsSingle(other) && MayGrow(other)) Share(at, j);
      }
    }
    return Opening::kDone;
  }

  // --- Returns

  void WakeAt(Time time) {
    if (time > in_.now) out_.next_wakeup = std::min(out_.next_wakeup, time);
  }

  /// The next time at which the node may be returned without losing what is paid for.
  Time NextBoundary(const OwnedNode& node, const Provider& provider) const {
    const Duration period = provider.billing_period;
    if (period <= Duration(0)) return in_.now;
    const Duration margin = std::min(kPeriodMargin, period / 10);
    const Duration age = in_.now - node.created;
    const Duration until_end = period - age % period;
    return until_end <= margin ? in_.now : in_.now + until_end - margin;
  }

  void ReturnIdle() {
    struct Idle {
      const Bin* bin;
      double per_gpu;
    };
    std::vector<Idle> idle;
    double spare = 0;
    for (const Bin& bin : bins_) {
      const bool is_idle = bin.is_ready_now() && bin.offer && bin.node->idle_since != kNever && !bin.is_used;
      if (!is_idle) {
        spare += bin.room.gpus > 0 ? static_cast<double>(bin.room.gpu_free) / placement::kGpuParts : 0;
        continue;
      }
      const Offer& offer = catalogue_.offers()[*bin.offer];
      idle.push_back({&bin, offer.hourly.units() / std::max<int>(offer.node.gpus, 1)});
    }
    // Orders idle nodes so that the cheapest ones are kept longest; of equally expensive ones, those that were used
    // last.
    std::ranges::stable_sort(idle, [](const Idle& a, const Idle& b) {
      return a.per_gpu != b.per_gpu ? a.per_gpu < b.per_gpu : a.bin->node->idle_since > b.bin->node->idle_since;
    });
    for (const Idle& one : idle) {
      spare += one.bin->room.gpus;
      ConsiderReturn(*one.bin, spare);
    }
    std::ranges::sort(out_.returns, {}, &NodeReturn::node);
  }

  /// How long a node stays idle unless its provider says so: GrowthRules::settle for the cheapest one with GPUs, and
  /// shorter by the square root of the price for dearer ones, because a small job that starts there keeps all of it.
  /// But not shorter than another node needs to start, so that nodes do not come and go between two jobs.
  Duration SettleOf(const Offer& offer) {
    if (offer.node.gpus == 0) return in_.rules.settle;
    if (!cheapest_) {
      cheapest_ = offer.hourly;
      for (const OfferIndex index : catalogue_.by_value()) {
        const Offer& other = catalogue_.offers()[index];
        const bool is_enabled = catalogue_.providers()[other.provider].is_enabled;
        if (is_enabled && other.node.gpus > 0) cheapest_ = std::min(*cheapest_, other.hourly);
      }
    }
    const double part = std::min(1.0, std::sqrt(cheapest_->units() / offer.hourly.units()));
    const Duration shorter =
        std::chrono::round<std::chrono::seconds>(std::chrono::duration<double>(ToSeconds(in_.rules.settle) * part));
    return std::max(shorter, std::min(offer.startup, in_.rules.settle));
  }

  /// `spare`: GPUs that arriving jobs use before the last one of this node.
  void ConsiderReturn(const Bin& bin, double spare) {
    const OwnedNode& node = *bin.node;
    const Offer& offer = catalogue_.offers()[*bin.offer];
    const Provider& provider = catalogue_.providers()[offer.provider];
    if (!provider.is_enabled) return Return(node, ReturnReason::kDisabled, false);
    const Time settled =
        std::max(node.idle_since + provider.idle.value_or(SettleOf(offer)), node.created + provider.min_lifetime);
    if (in_.now < settled) return WakeAt(settled);
    const Time boundary = NextBoundary(node, provider);
    if (in_.now < boundary) return WakeAt(boundary);
    const Duration patience = in_.rules.keep_idle;
    const double expected_seconds =
        in_.gpus_per_hour > 0 ? spare / in_.gpus_per_hour * 3600 : std::numeric_limits<double>::infinity();
    const Time last = node.idle_since + in_.rules.longest_idle;
    const bool is_expected = expected_seconds <= ToSeconds(patience) && in_.now < last;
    if (!is_expected) return Return(node, ReturnReason::kIdle, false);
    WakeAt(std::min(last, in_.now + std::max<Duration>(patience, 1s)));
  }

  const GrowthInput& in_;
  const Catalogue& catalogue_;
  GrowthDecision out_;
  std::vector<std::uint32_t> left_;           // Jobs of each demand that have no place yet.
  std::vector<std::optional<double>> alone_;  // AloneCost, by demand.
  std::vector<Allowance> allowances_;         // By provider.
  std::vector<Money> spending_;               // Per hour, by provider.
  std::map<std::string, Money> team_left_;
  std::vector<Bin> bins_;
  std::vector<std::size_t> dated_;       // Existing nodes on which single tasks can be expected to fit later.
  std::vector<std::size_t> new_bins_;    // With room.
  std::vector<OfferIndex> usable_;       // By value; of providers that may have another node.
  std::vector<OfferIndex> by_price_;     // The same, the lowest price first.
  Duration quickest_ = Duration::max();  // Their shortest start-up time.
  std::optional<Money> cheapest_;        // The price of the cheapest enabled node with GPUs, if it was needed.
  double spare_gpus_ = 0;
  Time latest_ = kNever;
  std::uint32_t next_set_ = 0;
};

std::size_t HashOf(const Demand& demand) {
  std::size_t hash = 0;
  const auto mix = [&hash](std::uint64_t value) { hash = (hash ^ value) * 0x9e3779b97f4a7c15 + (hash >> 29); };
  for (const TaskNeed& need : demand.tasks) {
    mix(static_cast<std::uint64_t>(need.shape.cpu_milli));
    mix(static_cast<std::uint64_t>(need.shape.memory_mib));
    mix(static_cast<std::uint64_t>(need.shape.gpu_parts()));
    mix(need.shape.models);
    mix(static_cast<std::uint64_t>(need.count));
  }
  mix(static_cast<std::uint64_t>(demand.run_time.count()));
  mix(static_cast<std::uint64_t>(demand.time_limit.count()));
  mix(std::hash<std::string>()(demand.team));
  mix(std::hash<std::string>()(demand.pool));
  return hash;
}

}  // namespace

GrowthDecision DecideGrowth(const GrowthInput& input) { return Planner(input).Run(); }

MergedDemands MergeDemands(std::vector<Demand> demands) {
  MergedDemands merged;
  std::unordered_multimap<std::size_t, std::uint32_t> known;
  struct Total {
    std::uint32_t jobs = 0;
    Time since{};
  };
  std::vector<Total> totals;  // By group. Left out of the comparison.
  for (Demand& demand : demands) {
    const std::size_t hash = HashOf(demand);
    const auto [from, to] = known.equal_range(hash);
    const std::uint32_t jobs = std::exchange(demand.jobs, 0);
    const Time since = std::exchange(demand.waiting_since, kNoTime);
    const auto same = std::find_if(from, to, [&](const auto& one) { return merged.demands[one.second] == demand; });
    const std::uint32_t group = same != to ? same->second : static_cast<std::uint32_t>(merged.demands.size());
    merged.group_of.push_back(group);
    if (same == to) {
      known.emplace(hash, group);
      merged.demands.push_back(std::move(demand));
      totals.push_back({0, since});
    }
    totals[group].jobs += jobs;
    totals[group].since = std::min(totals[group].since, since);
  }
  for (std::size_t i = 0; i < totals.size(); ++i) {
    merged.demands[i].jobs = totals[i].jobs;
    merged.demands[i].waiting_since = totals[i].since;
  }
  return merged;
}

std::optional<AloneChoice> CheapestAlone(const GrowthInput& input, const Demand& demand) {
  const Catalogue& catalogue = *input.catalogue;
  std::optional<AloneChoice> best;
  Money best_cost;
  for (const OfferIndex index : catalogue.by_value()) {
    if (FitOf(catalogue, demand, index) != OfferFit::kFits) continue;
    const auto is_allowed = [&](OfferIndex other) { return PermissionOf(catalogue, demand, other) == OfferFit::kFits; };
    const auto nodes = PackTasks(catalogue, index, demand.tasks, std::numeric_limits<std::int32_t>::max(), is_allowed);
    if (!nodes) continue;
    AloneChoice choice;
    choice.hourly = HourlyOf(catalogue, *nodes);
    for (const PackedNode& node : *nodes) {
      choice.nodes.push_back(node.offer);
      choice.startup = std::max(choice.startup, catalogue.offers()[node.offer].startup);
    }
    const Money cost = CostOf(choice.hourly, choice.startup + RunTimeOf(input, demand));
    if (best && cost >= best_cost) continue;
    best_cost = cost;
    best = std::move(choice);
  }
  return best;
}

OfferFit PermissionOf(const Catalogue& catalogue, const Demand& demand, OfferIndex index) {
  const Offer& offer = catalogue.offers()[index];
  const Provider& provider = catalogue.provider_of(index);
  if (!demand.providers.empty() && !Contains(demand.providers, provider.name)) return OfferFit::kNotAllowed;
  if (!provider.teams.empty() && !Contains(provider.teams, demand.team)) return OfferFit::kNotAllowed;
  if (!provider.pools.empty() && !Contains(provider.pools, demand.pool)) return OfferFit::kNotAllowed;
  if (demand.can_requeue) return OfferFit::kFits;
  if (offer.is_spot) return OfferFit::kSpot;
  if (offer.max_lifetime == Duration(0)) return OfferFit::kFits;
  const bool is_long_enough =
      demand.time_limit > Duration(0) && demand.time_limit <= offer.max_lifetime - offer.startup;
  return is_long_enough ? OfferFit::kFits : OfferFit::kLifetime;
}

OfferFit FitOf(const Catalogue& catalogue, const Demand& demand, OfferIndex index) {
  const Offer& offer = catalogue.offers()[index];
  for (const TaskNeed& need : demand.tasks) {
    if (!Fits(offer.node, need.shape)) return OfferFit::kNoShape;
  }
  return PermissionOf(catalogue, demand, index);
}

Time RetryAfterUnused(int times, Time now) {
  return AddSaturating(now, 5min * (1 << std::clamp(times - 1, 0, kMostDoublings)));
}

}  // namespace divvy::growth
