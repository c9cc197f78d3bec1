// Random histories of tenants, wants, whole jobs, failures and restarts on a modelled node. After every decision the
// invariants hold in the ledger and in the pages; what is promised arrives; and in the end everything comes to rest.
#include <random>

#include "sharing/holds.h"
#include "sharing/ledger_test_world.h"

namespace divvy::sharing {
namespace {

class History {
 public:
  explicit History(unsigned seed) : draw_(seed) {
    node_.is_silent = false;
    const int gpus = 1 + Draw(4);
    for (int gpu = 0; gpu < gpus; ++gpu) {
      node_.SetGpu({.index = static_cast<GpuIndex>(gpu), .capacity = 80_GiB, .bytes_per_second = 20'000'000'000});
    }
    node_.on_order = [this](const Deed& deed) { CheckOrder(deed); };
  }

  void Run(int steps) {
    for (int step = 0; step < steps; ++step) {
      Step();
      if (::testing::Test::HasFailure()) return;
      node_.Settle();
      if (Draw(3) == 0) node_.RunUntil(node_.now + Duration(1s) * Draw(20));
      if (::testing::Test::HasFailure()) return;
    }
    ComeToRest();
  }

  const ModelledNode& node() const { return node_; }

 private:
  int Draw(int below) { return static_cast<int>(draw_() % static_cast<unsigned>(below)); }
  Bytes DrawBytes(int most_gib) { return Bytes(std::int64_t{1 + Draw(most_gib * 8)} << 27); }

  std::optional<TenantId> Any() {
    if (node_.pages.empty()) return std::nullopt;
    auto at = node_.pages.begin();
    std::advance(at, Draw(static_cast<int>(node_.pages.size())));
    return at->first;
  }

  /// Of paper, as the plan of the cluster counts it.
  bool HasPaperTenants(GpuIndex gpu) const {
    for (const auto& [id, tenant] : node_.ledger.tenants()) {
      for (const Device& device : tenant.devices) {
        if (device.paper == gpu) return true;
      }
    }
    return false;
  }

  void Step() {
    switch (Draw(16)) {
      case 0:
      case 1: return Add();
      case 2: return TakeOrGive();
      case 3: return RemoveOne();
      case 4:
      case 5:
      case 6: return Allocate();
      case 7: return FreeSome();
      case 8: return SetActive();
      case 9: return Park();
      case 10: return Call();
      case 11: return Resize();
      case 12: return DrawFate();
      case 13: return Restart();
      case 14: return MoveOne();
      default: return node_.RunUntil(node_.now + Duration(1s) * Draw(60));
    }
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
      if (node_.ledger.gpus().at(gpu).whole_job != 0) return;  // The plan would not.
      tenant.devices.push_back({.paper = gpu});
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
      ready_by_.erase(job);
      return node_.ledger.GiveWhole(job);
    }
    GpuSet set;
    for (const auto& [index, gpu] : node_.ledger.gpus()) {
      if (gpu.whole_job == 0 && !HasPaperTenants(index) && Draw(2) == 0) set.Insert(index);
    }
    if (set.empty()) return;
    const std::uint64_t job = ++jobs_;
    const Duration bound = node_.ledger.RepackBound(set);
    // The bound speaks of moves that succeed, of a node on which nothing else is asked for meanwhile.
    if (bound != Duration::max() && node_.fates.empty() && IsQuiet()) {
      const Time asked = node_.now;
      node_.wholes[job] = set;
      node_.ledger.TakeWhole(job, set);
      node_.RunUntil(node_.now + bound);
      const GpuIndex first = static_cast<GpuIndex>(set.ToVector().front());
      EXPECT_TRUE(node_.ledger.gpus().at(first).is_ready)
          << "an arrival waited longer than " << ToSeconds(bound) << " s, since " << ToSeconds(asked) << "\n" << node_.log_text();
      ++arrivals;
      return;
    }
    node_.wholes[job] = set;
    node_.ledger.TakeWhole(job, set);
  }
  bool IsQuiet() const {
    return node_.under_way.empty() && node_.asked.empty() &&
           std::none_of(node_.ledger.tenants().begin(), node_.ledger.tenants().end(), [](const auto& entry) {
             return entry.second.is_lost || entry.second.state == State::kParked || entry.second.state == State::kArriving;
           });
  }
  void RemoveOne() {
    if (const auto id = Any()) node_.Remove(*id);
  }
  void Allocate() {
    const auto id = Any();
    if (!id) return;
    const auto device = static_cast<unsigned>(Draw(static_cast<int>(node_.pages.at(*id).devices.size())));
    if (node_.ledger.Find(*id)->is_lost) return;
    node_.Allocate(*id, device, DrawBytes(30));
  }
  void FreeSome() {
    const auto id = Any();
    if (!id || !node_.pages.at(*id).is_placed || node_.pages.at(*id).is_on_host || node_.IsUnderWay(*id)) return;
    if (node_.ledger.Find(*id)->is_lost) return;
    Bytes& used = node_.pages.at(*id).devices[0].used;
    node_.pages.at(*id).devices[0].pooled = {};
    node_.SetUse(*id, 0, Bytes(used.count() / (1 + Draw(4))));
    node_.pages.at(*id).devices[0].pooled = Bytes(used.count() / (1 + Draw(8)));
  }
  void SetActive() {
    if (const auto id = Any()) node_.ledger.SetActivity(*id, Draw(2) == 0, node_.now);
  }
  void Park() {
    if (const auto id = Any()) (void)node_.ledger.ParkByUser(*id).has_value();
  }
  void Call() {
    if (const auto id = Any()) node_.ledger.WantWake(*id);
  }
  void Resize() {
    if (const auto id = Any()) (void)node_.ledger.Resize(*id, DrawShare()).has_value();
  }
  void DrawFate() {
    if (Draw(4) != 0) return;
    node_.fates.push_back({Draw(3) == 0 ? Outcome::kParked : Outcome::kUnchanged, "bad luck"});
  }
  void Restart() {
    const bool is_lost = std::any_of(node_.ledger.tenants().begin(), node_.ledger.tenants().end(),
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
    (void)node_.ledger.MoveByUser(*id, to).has_value();
  }

  void CheckOrder(const Deed& deed) {
    const auto is_open = [&](GpuIndex gpu) {
      const Gpu& at = node_.ledger.gpus().at(gpu);
      return at.whole_job == 0 && at.why_unusable.empty();
    };
    const auto check = [&](TenantId id, const std::vector<GpuIndex>& to) {
      const std::vector<GpuIndex> from = GpusOf(*node_.ledger.Find(id));
      for (std::size_t i = 0; i < to.size(); ++i) {
        const bool stays = !std::holds_alternative<Place>(deed) && !std::holds_alternative<Wake>(deed) && to[i] == from[i];
        EXPECT_TRUE(stays || is_open(to[i])) << node_.NameOf(id) << " comes to a withheld GPU\n" << node_.log_text();
      }
      CheckRequests(id, to);
    };
    if (const auto* place = std::get_if<Place>(&deed)) check(place->tenant, place->to);
    if (const auto* wake = std::get_if<Wake>(&deed)) check(wake->tenant, wake->to);
    if (const auto* move = std::get_if<Move>(&deed)) {
      EXPECT_EQ(node_.ledger.Find(move->tenant)->why_cannot_move, "");
      check(move->tenant, move->to);
    }
    if (const auto* park = std::get_if<Park>(&deed)) EXPECT_EQ(node_.ledger.Find(park->tenant)->why_cannot_park, "");
    if (const auto* requeue = std::get_if<Requeue>(&deed)) {
      EXPECT_TRUE(node_.ledger.Find(requeue->borrower)->share.can_be_requeued);
      ++requeues;
    }
  }
  /// Nobody comes where the requests do not fit.
  void CheckRequests(TenantId newcomer, const std::vector<GpuIndex>& to) {
    for (const GpuIndex gpu : to) {
      Bytes requests;
      for (const auto& [id, tenant] : node_.ledger.tenants()) {
        const bool is_there = Holds(tenant, gpu) || id == newcomer;
        if (is_there) requests += tenant.share.memory_request;
      }
      const std::vector<GpuIndex> from = GpusOf(*node_.ledger.Find(newcomer));
      const bool was_there = std::count(from.begin(), from.end(), gpu) > 0;
      EXPECT_TRUE(was_there || requests <= node_.gpus.at(gpu).capacity) << "requests on GPU " << int(gpu) << "\n" << node_.log_text();
    }
  }

  /// With nothing more asked, nobody is under way, every right was answered, and five rounds more change nothing.
  void ComeToRest() {
    node_.fates.clear();
    for (const auto& [job, set] : node_.wholes) node_.ledger.GiveWhole(job);
    node_.wholes.clear();
    for (const auto& [id, page] : node_.pages) node_.ledger.SetActivity(id, false, node_.now);
    node_.RunUntil(node_.now + 300s);
    if (::testing::Test::HasFailure()) return;
    EXPECT_TRUE(node_.under_way.empty()) << node_.log_text();
    EXPECT_TRUE(node_.asked.empty()) << "an unanswered want of " << node_.NameOf(node_.asked.begin()->second.first) << "\n" << node_.log_text();
    for (const auto& [id, tenant] : node_.ledger.tenants()) {
      EXPECT_NE(tenant.state, State::kArriving) << node_.NameOf(id) << " has no GPU: " << node_.ledger.WhyWaits(id) << "\n" << node_.log_text();
      const bool is_stuck = tenant.state == State::kParked && tenant.wants_to_wake;
      EXPECT_FALSE(is_stuck) << node_.NameOf(id) << ": " << node_.ledger.WhyWaits(id) << "\n" << node_.log_text();
    }
    const std::string before = node_.log_text();
    for (int round = 0; round < 5; ++round) node_.RunUntil(node_.now + 60s);
    EXPECT_EQ(node_.log_text().substr(before.size()), "") << before;
  }

 public:
  int arrivals = 0;
  int restarts = 0;
  int requeues = 0;
  int refused = 0;

 private:
  std::mt19937 draw_;
  ModelledNode node_;
  std::uint64_t jobs_ = 0;
  std::map<std::uint64_t, Time> ready_by_;
};

TEST(LedgerProperties, HoldOverRandomHistories) {
  int arrivals = 0;
  int restarts = 0;
  int moves = 0;
  const char* one = std::getenv("DIVVY_SEED");
  const unsigned first = one == nullptr ? 1 : static_cast<unsigned>(std::atoi(one));
  const unsigned last = one == nullptr ? 600 : first;
  for (unsigned seed = first; seed <= last; ++seed) {
    SCOPED_TRACE("DIVVY_SEED=" + std::to_string(seed));
    History history(seed);
    history.Run(80);
    ASSERT_FALSE(HasFailure());
    arrivals += history.arrivals;
    restarts += history.restarts;
    moves += history.node().moves;
  }
  if (one != nullptr) return;
  EXPECT_GT(arrivals, 100);
  EXPECT_GT(restarts, 1000);
  EXPECT_GT(moves, 500);
}

TEST(LedgerProperties, TheSameFactsGiveTheSameOrders) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    History first(seed);
    History second(seed);
    first.Run(60);
    second.Run(60);
    EXPECT_EQ(first.node().log_text(), second.node().log_text());
  }
}

}  // namespace
}  // namespace divvy::sharing
