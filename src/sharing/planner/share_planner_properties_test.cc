// Random histories of tenants, requests, whole jobs, failures and restarts on a simulated node. The invariants hold in
// the planner and in the pages after every decision, guarantees are kept, and in the end nothing is left in flight.
#include <random>

#include "sharing/occupied_gpus.h"
#include "sharing/planner/share_planner_test_world.h"

namespace divvy::sharing {
namespace share_planner_properties_test {

class History {
 public:
  explicit History(unsigned seed) : draw_(seed) {
    node_.is_silent = false;
    const int gpus = 1 + Draw(4);
    for (int gpu = 0; gpu < gpus; ++gpu) {
      node_.SetGpu({.index = static_cast<GpuIndex>(gpu), .capacity = 80_GiB, .bytes_per_second = 20'000'000'000});
    }
    node_.on_action = [this](const Action& action) { CheckAction(action); };
  }

  void Run(int steps) {
    for (int step = 0; step < steps; ++step) {
      has_user_moved_ &= !node_.under_way.empty();
      Step();
      if (::testing::Test::HasFailure()) return;
      node_.Settle();
      RemoveRequeued();
      if (Draw(3) == 0) node_.RunUntil(node_.now + Duration(1s) * Draw(20));
      if (::testing::Test::HasFailure()) return;
    }
    ComeToRest();
  }

  ModelledNode& node() { return node_; }

 private:
  int Draw(int below) { return static_cast<int>(draw_() % static_cast<unsigned>(below)); }
  Bytes DrawBytes(int most_gib) { return Bytes(std::int64_t{1 + Draw(most_gib * 8)} << 27); }

  std::optional<TenantId> Any() {
    if (node_.pages.empty()) return std::nullopt;
    auto at = node_.pages.begin();
    std::advance(at, Draw(static_cast<int>(node_.pages.size())));
    return at->first;
  }

  /// Returns true if a tenant is planned on this GPU, as the cluster's plan counts it.
  bool HasPlannedTenants(GpuIndex gpu) const {
    for (const auto& [id, tenant] : node_.planner.tenants()) {
      for (const Device& device : tenant.devices) {
        if (device.planned_gpu == gpu) return true;
      }
    }
    return false;
  }

  void Step() {
    const int kind = Draw(100);
    if (kind < 14) return Add();
    if (kind < 20) return TakeOrGive();
    if (kind < 24) return RemoveOne();
    if (kind < 54) return Allocate();
    if (kind < 60) return FreeSome();
    if (kind < 74) return SetActive();
    if (kind < 78) return ParkOne();
    if (kind < 82) return Call();
    if (kind < 85) return Resize();
    if (kind < 87) return DrawFate();
    if (kind < 90) return Restart();
    if (kind < 93) return MoveOne();
    if (kind < 96) return LetLeave();
    node_.RunUntil(node_.now + Duration(1s) * Draw(60));
  }

  Share DrawShare() {
    static const std::vector<int> kParts = {1000, 2000, 2500, 5000, 7500};
    Share share;
    const int request = kParts[static_cast<std::size_t>(Draw(5))];
    const int limit = request + Draw((10000 - request) / 1000 + 1) * 1000;
    share.memory_request = Bytes((80_GiB).count() / 10000 * request);
    share.memory_limit = Bytes((80_GiB).count() / 10000 * limit);
    share.compute_request = GpuShare(request);
    share.compute_limit = GpuShare(limit);
    share.idle_park = Draw(4) == 0 ? Duration(20s) : Duration(0);
    share.is_interactive = Draw(3) == 0;
    share.can_be_requeued = Draw(4) == 0;
    return share;
  }

  void Add() {
    Tenant tenant;
    tenant.id = {++jobs_, 1};
    tenant.share = DrawShare();
    const int count = node_.gpus.size() > 1 && Draw(6) == 0 ? 2 : 1;
    const int first = Draw(static_cast<int>(node_.gpus.size()));
    for (int i = 0; i < count; ++i) {
      const auto gpu = static_cast<GpuIndex>((first + i) % static_cast<int>(node_.gpus.size()));
      if (node_.planner.gpus().at(gpu).whole_job != 0) return;  // The cluster's plan would not assign it.
      tenant.devices.push_back({.planned_gpu = gpu});
    }
    if (Draw(8) == 0) tenant.why_cannot_move = "uses NCCL";
    if (!tenant.why_cannot_move.empty() && Draw(2) == 0) tenant.why_cannot_park = "uses NCCL";
    if (!node_.AddTenant(tenant)) ++refused;
    node_.Settle();
  }
  void TakeOrGive() {
    if (!node_.wholes.empty() && Draw(2) == 0) {
      const std::uint64_t job = node_.wholes.begin()->first;
      node_.wholes.erase(job);
      return node_.planner.ReleaseExclusive(job);
    }
    GpuSet set;
    for (const auto& [index, gpu] : node_.planner.gpus()) {
      if (gpu.whole_job == 0 && !HasPlannedTenants(index) && Draw(2) == 0) set.Insert(index);
    }
    if (set.empty()) return;
    const std::uint64_t job = ++jobs_;
    const Duration bound = node_.planner.RepackBound(set);
    // The bound assumes that all moves succeed and that nothing else happens on the node meanwhile.
    if (bound != Duration::max() && node_.fates.empty() && IsQuiet()) {
      const Time asked = node_.now;
      node_.wholes[job] = set;
      node_.planner.AcquireExclusive(job, set);
      node_.RunUntil(node_.now + bound);
      const GpuIndex first = static_cast<GpuIndex>(set.ToVector().front());
      EXPECT_TRUE(node_.planner.gpus().at(first).is_ready)
          << "an arrival waited longer than " << ToSeconds(bound) << " s, since " << ToSeconds(asked) << "\n"
          << node_.log_text();
      ++arrivals;
      return;
    }
    node_.wholes[job] = set;
    node_.planner.AcquireExclusive(job, set);
  }
  bool IsQuiet() const {
    return node_.under_way.empty() && node_.asked.empty() &&
           std::none_of(node_.planner.tenants().begin(), node_.planner.tenants().end(), [](const auto& entry) {
             return entry.second.is_lost || entry.second.state == State::kParked ||
                    entry.second.state == State::kArriving;
           });
  }
  void RemoveRequeued() {
    for (const TenantId id : std::exchange(leaving_, {})) {
      if (node_.pages.contains(id)) node_.Remove(id);
    }
    node_.Settle();
  }
  void RemoveOne() {
    if (const auto id = Any()) node_.Remove(*id);
  }
  void Allocate() {
    const auto id = Any();
    if (!id) return;
    const auto device = static_cast<unsigned>(Draw(static_cast<int>(node_.pages.at(*id).devices.size())));
    if (node_.planner.Find(*id)->is_lost) return;
    if (Draw(16) == 0) return node_.Pin(*id);
    node_.Allocate(*id, device, DrawBytes(30));
  }
  void FreeSome() {
    const auto id = Any();
    if (!id || !node_.pages.at(*id).is_placed || node_.pages.at(*id).is_on_host || node_.IsUnderWay(*id)) return;
    if (node_.planner.Find(*id)->is_lost) return;
    Bytes& used = node_.pages.at(*id).devices[0].used;
    node_.pages.at(*id).devices[0].pooled = {};
    node_.SetUse(*id, 0, Bytes(used.count() / (1 + Draw(4))));
    node_.pages.at(*id).devices[0].pooled = Bytes(used.count() / (1 + Draw(8)));
  }
  void SetActive() {
    const auto id = Any();
    if (!id) return;
    node_.planner.SetActivity(*id, Draw(2) == 0, node_.now);
    const GpuShare used(Draw(2) == 0 ? Draw(500) : Draw(GpuShare::kWhole));
    for (int second = 0; second < 8; ++second) node_.planner.SetTimeUsed(*id, used);
  }
  void ParkOne() {
    if (const auto id = Any()) (void)node_.planner.ParkByUser(*id).has_value();
  }
  void Call() {
    if (const auto id = Any()) node_.planner.WantWake(*id);
  }
  void Resize() {
    if (const auto id = Any()) has_user_moved_ |= node_.planner.Resize(*id, DrawShare()).has_value();
  }
  void DrawFate() { node_.fates.push_back({Draw(3) == 0 ? Outcome::kParked : Outcome::kUnchanged, "bad luck"}); }
  void Restart() {
    const bool is_lost = std::any_of(node_.planner.tenants().begin(), node_.planner.tenants().end(),
                                     [](const auto& entry) { return entry.second.is_lost; });
    if (is_lost) return;
    node_.Restart([&](TenantId) { return Draw(2) == 0; });
    ++restarts;
  }
  void MoveOne() {
    const auto id = Any();
    if (!id) return;
    std::vector<GpuIndex> to;
    for (std::size_t i = 0; i < node_.pages.at(*id).devices.size(); ++i) {
      to.push_back(static_cast<GpuIndex>(Draw(static_cast<int>(node_.gpus.size()))));
    }
    has_user_moved_ |= node_.planner.MoveByUser(*id, to).has_value();
  }

  /// Some memory of the parking tenants has left their GPUs.
  void LetLeave() {
    for (auto& [id, page] : node_.pages) {
      for (unsigned device = 0; device < page.devices.size(); ++device)
        node_.Leave(id, device, Bytes(page.devices[device].used.count() * Draw(5) / 4));
    }
  }

  void CheckAction(const Action& action) {
    const auto is_open = [&](GpuIndex gpu) {
      const Gpu& at = node_.planner.gpus().at(gpu);
      return at.whole_job == 0 && at.why_unusable.empty();
    };
    ++actions[action.index()];
    const auto check = [&](TenantId id, const std::vector<GpuIndex>& to) {
      const std::vector<GpuIndex> from = GpusOf(*node_.planner.Find(id));
      for (std::size_t i = 0; i < to.size(); ++i) {
        const bool stays =
            !std::holds_alternative<Place>(action) && !std::holds_alternative<Wake>(action) && to[i] == from[i];
        EXPECT_TRUE(stays || is_open(to[i])) << node_.NameOf(id) << " comes to a withheld GPU\n" << node_.log_text();
      }
      CheckRequests(id, to);
    };
    if (const auto* place = std::get_if<Place>(&action)) check(place->tenant, place->to);
    if (const auto* wake = std::get_if<Wake>(&action)) check(wake->tenant, wake->to);
    if (const auto* move = std::get_if<Move>(&action)) {
      const Tenant& tenant = *node_.planner.Find(move->tenant);
      EXPECT_EQ(tenant.why_cannot_move, "");
      // A tenant may be moved again so soon only for whole jobs, for a request without a GPU, by a user, or before it
      // is bound to its GPU.
      const bool has_stayed = tenant.last_move == kNoTime || node_.now - tenant.last_move >= node_.settings.least_stay;
      EXPECT_TRUE(has_stayed || MayMoveAnybody()) << node_.NameOf(move->tenant) << " was moved a moment ago\n"
                                                  << node_.log_text();
      check(move->tenant, move->to);
    }
    if (const auto* park = std::get_if<Park>(&action)) {
      EXPECT_EQ(node_.planner.Find(park->tenant)->why_cannot_park, "");
    }
    if (const auto* answer = std::get_if<Answer>(&action); answer != nullptr && !answer->is_granted)
      CheckDenial(*answer);
    if (const auto* requeue = std::get_if<Requeue>(&action)) {
      EXPECT_TRUE(node_.planner.Find(requeue->borrower)->share.can_be_requeued);
      ++requeues;
      leaving_.push_back(requeue->borrower);
    }
  }
  /// A request within the guaranteed amount is not denied while a borrower arrives or leaves; it waits instead.
  void CheckDenial(const Answer& answer) {
    const Tenant& owner = *node_.planner.Find(answer.tenant);
    const Bytes bytes = node_.asked.at(answer.request).second.bytes;
    if (owner.is_lost || owner.devices[answer.device].used + bytes > owner.share.memory_request) return;
    for (const auto& [id, tenant] : node_.planner.tenants()) {
      const bool is_under_way = tenant.state != State::kHere && !tenant.is_lost;
      if (id == owner.id || !is_under_way) continue;
      ForEachOccupied(tenant, [&, &other = tenant](unsigned device, GpuIndex gpu) {
        const bool borrows = other.devices[device].used > other.share.memory_request;
        EXPECT_FALSE(borrows && gpu == owner.devices[answer.device].gpu)
            << node_.NameOf(owner.id) << " is denied its own while " << node_.NameOf(other.id)
            << " is under way: " << answer.why << "\n"
            << node_.log_text();
      });
    }
  }
  bool MayMoveAnybody() const {
    const auto& tenants = node_.planner.tenants();
    const auto& known = node_.planner.gpus();
    const bool is_pin_open = std::any_of(node_.asked.begin(), node_.asked.end(),
                                         [](const auto& entry) { return entry.second.second.bytes == Bytes(0); });
    return has_user_moved_ || is_pin_open ||
           std::any_of(known.begin(), known.end(),
                       [](const auto& entry) { return entry.second.whole_job != 0 && !entry.second.is_ready; }) ||
           std::any_of(tenants.begin(), tenants.end(), [](const auto& entry) {
             return entry.second.state == State::kArriving || entry.second.state == State::kParked;
           });
  }
  /// No tenant comes to a GPU on which the requests do not fit.
  void CheckRequests(TenantId newcomer, const std::vector<GpuIndex>& to) {
    for (const GpuIndex gpu : to) {
      Bytes requests;
      for (const auto& [id, tenant] : node_.planner.tenants()) {
        const bool is_there = Occupies(tenant, gpu) || id == newcomer;
        if (is_there && tenant.lodges_on != gpu) requests += tenant.share.memory_request;
      }
      const std::vector<GpuIndex> from = GpusOf(*node_.planner.Find(newcomer));
      const bool was_there = std::count(from.begin(), from.end(), gpu) > 0;
      EXPECT_TRUE(was_there || requests <= node_.gpus.at(gpu).capacity) << "requests on GPU " << int(gpu) << "\n"
                                                                        << node_.log_text();
    }
  }

  /// Without new events, nothing stays in flight, every guaranteed request is answered, and five more rounds change
  /// nothing.
  void ComeToRest() {
    node_.fates.clear();
    for (const auto& [job, set] : node_.wholes) node_.planner.ReleaseExclusive(job);
    node_.wholes.clear();
    for (const auto& [id, page] : node_.pages) node_.planner.SetActivity(id, false, node_.now);
    for (int second = 0; second < 300; second += 10) {
      node_.RunUntil(node_.now + 10s);
      RemoveRequeued();
    }
    if (::testing::Test::HasFailure()) return;
    EXPECT_TRUE(node_.under_way.empty()) << node_.log_text();
    // A tenant that can neither leave nor be parked can keep a borrower on the host. The borrower waits and reports
    // that.
    const bool is_any_fast = std::any_of(node_.planner.tenants().begin(), node_.planner.tenants().end(),
                                         [](const auto& entry) { return !entry.second.why_cannot_park.empty(); });
    for (const auto& [request, ask] : node_.asked) {
      const bool is_away = node_.planner.Find(ask.first)->state == State::kParked;
      EXPECT_TRUE(is_away && is_any_fast)
          << "an unanswered want of " << node_.NameOf(ask.first) << ": " << node_.planner.WhyWaits(ask.first) << "\n"
          << node_.log_text();
    }
    for (const auto& [id, tenant] : node_.planner.tenants()) {
      EXPECT_NE(tenant.state, State::kArriving)
          << node_.NameOf(id) << " has no GPU: " << node_.planner.WhyWaits(id) << "\n"
          << node_.log_text();
      const bool is_stuck = tenant.state == State::kParked && tenant.wants_to_wake;
      EXPECT_FALSE(is_stuck && !is_any_fast) << node_.NameOf(id) << ": " << node_.planner.WhyWaits(id) << "\n"
                                             << node_.log_text();
    }
    const std::string before = node_.log_text();
    for (int round = 0; round < 5; ++round) node_.RunUntil(node_.now + 60s);
    EXPECT_EQ(node_.log_text().substr(before.size()), "") << before;
  }

 public:
  int arrivals = 0;
  int restarts = 0;
  int requeues = 0;
  std::map<std::size_t, int> actions;  // Keyed by kind of order.
  int refused = 0;

 private:
  std::mt19937 draw_;
  ModelledNode node_;
  std::uint64_t jobs_ = 0;
  bool has_user_moved_ = false;
  std::vector<TenantId> leaving_;
};

TEST(SharePlannerProperties, HoldOverRandomHistories) {
  int arrivals = 0;
  int restarts = 0;
  int moves = 0;
  std::map<std::size_t, int> actions;
  const char* one = std::getenv("DIVVY_SEED");
  const unsigned first = one == nullptr ? 1 : static_cast<unsigned>(std::atoi(one));
  const char* many = std::getenv("DIVVY_SEEDS");
  const unsigned last = one != nullptr ? first : many == nullptr ? 600 : static_cast<unsigned>(std::atoi(many));
  for (unsigned seed = first; seed <= last; ++seed) {
    SCOPED_TRACE("DIVVY_SEED=" + std::to_string(seed));
    History history(seed);
    history.Run(200);
    ASSERT_FALSE(HasFailure());
    arrivals += history.arrivals;
    restarts += history.restarts;
    moves += history.node().moves;
    for (const auto& [kind, count] : history.actions) actions[kind] += count;
  }
  if (one != nullptr) return;
  EXPECT_GT(arrivals, 100);
  EXPECT_GT(restarts, 1000);
  EXPECT_GT(moves, 500);
  for (std::size_t kind = 0; kind < std::variant_size_v<Action>; ++kind) {
    EXPECT_GT(actions[kind], 0) << "no history has an order of kind " << kind;
  }
}

TEST(SharePlannerProperties, StateReadFromThePagesMatchesThePlanner) {
  int compared = 0;
  for (unsigned seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("DIVVY_SEED=" + std::to_string(seed));
    History history(seed);
    history.Run(60);  // Nothing is in flight afterwards.
    ASSERT_FALSE(HasFailure());
    ModelledNode& node = history.node();
    node.on_action = [](const Action&) {};
    const auto before = node.planner.tenants();
    const std::string log = node.log_text();
    if (std::any_of(before.begin(), before.end(), [](const auto& entry) { return entry.second.is_lost; })) continue;
    node.Restart([](TenantId) { return false; });
    EXPECT_EQ(node.planner.tenants(), before);
    node.RunUntil(node.now + 120s);
    EXPECT_EQ(node.log_text(), log + "restart\n");  // The restart leads to no further orders.
    ++compared;
  }
  EXPECT_GT(compared, 100);
}

TEST(SharePlannerProperties, TheSameFactsGiveTheSameActions) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    History first(seed);
    History second(seed);
    first.Run(60);
    second.Run(60);
    EXPECT_EQ(first.node().log_text(), second.node().log_text());
  }
}

}  // namespace share_planner_properties_test
}  // namespace divvy::sharing
