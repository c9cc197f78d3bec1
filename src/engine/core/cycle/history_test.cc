// Random histories on random clusters. After each decision: the invariants hold; a second decision changes nothing;
// examining all jobs starts none that examining only the changes missed; no reservation is postponed without a cause;
// teams, caps and advance reservations are respected. In the end every job has run.
//
// DIVVY_SEEDS=first..last runs those seeds instead of the usual few. DIVVY_DUMP=FILE writes every plan to a file, which
// must be identical for every compiler (scripts/determinism). So no two draws are arguments of one call, because the
// compiler chooses their order.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "engine/core/place/caps.h"
#include "engine/core/state/state.h"
#include "engine/core/state/test_world.h"

namespace divvy::core {
namespace history_test {

using std::chrono::minutes;

struct Kind {
  bool is_calm = false;  // All jobs have a limit and use it fully, nodes stay, and there are no priorities.
  bool has_teams = false;
  bool has_advance_reservations = false;
  bool has_gpu_caps = false;
  bool has_components = false;
  bool has_uneven_nodes = false;
  int first_gpu = 0;  // On each node, GPUs below this one are out of service.
};

// GPU numbers in the output are relative to `first_gpu`.

std::string TextOf(const std::vector<TaskPlacement>& placements, int first_gpu) {
  std::ostringstream out;
  for (const TaskPlacement& placed : placements) {
    out << " " << placed.node << "/" << std::hex << (placed.place.gpus.bits() >> first_gpu) << std::dec;
  }
  return out.str();
}

std::string TextOf(const std::vector<BackfillReservation>& reservations, Time now, int first_gpu) {
  std::ostringstream out;
  for (const BackfillReservation& reservation : reservations) {
    out << "reservation " << reservation.entry.value() << " ";
    if (reservation.start == kNever) out << "drains";
    else out << (reservation.start - now).count();
    out << TextOf(reservation.placements, first_gpu) << "\n";
  }
  return out.str();
}

std::string TextOf(const Plan& plan, Time now, int first_gpu) {
  std::ostringstream out;
  for (const Start& start : plan.starts) {
    out << "start " << start.job.value() << " of " << start.entry.value() << TextOf(start.placements, first_gpu)
        << " passes " << start.passed.value() << "\n";
  }
  for (const Growth& growth : plan.growths)
    out << "growth " << growth.job.value() << TextOf(growth.placements, first_gpu) << "\n";
  if (plan.next_wakeup == kNever) out << "sleeps\n";
  else out << "wakes " << (plan.next_wakeup - now).count() << "\n";
  return out.str();
}

class History {
 public:
  History(std::uint64_t seed, Kind kind) : draws_(seed), kind_(kind), cluster_(MakeRandomCluster()) {
    cap_ = cluster_.AddCap("group", 1 + draws_.Below(4));
    if (kind_.has_gpu_caps) MakeGpuCaps();
    if (kind_.has_teams) MakeTeams();
    for (int i = 0; i < 6; ++i) asks_.push_back(RandomRequest());
  }

  /// Returns "", or what went wrong.
  std::string Run(int steps) {
    for (int step = 0; step < steps; ++step) {
      const int next = now_ + draws_.Below(300);
      if (kind_.is_calm) {
        if (std::string wrong = GoTo(next); !wrong.empty()) return "step " + std::to_string(step) + ": " + wrong;
      }
      now_ = next;
      Happen();
      if (std::string wrong = Decide(); !wrong.empty()) return "step " + std::to_string(step) + ": " + wrong;
    }
    return RunOut();
  }

  const std::string& dump() const { return dump_; }

 private:
  Cluster MakeRandomCluster() {
    Rules rules;
    rules.order = kind_.is_calm ? QueuePolicy::kFifo : static_cast<QueuePolicy>(draws_.Below(4));
    rules.escalate_after = minutes(1 + draws_.Below(60));
    if (rules.order == QueuePolicy::kFifo && !kind_.is_calm && draws_.Below(3) == 0) rules.backfill = Backfill::kNone;
    nodes_ = 1 + draws_.Below(6);
    Cluster cluster = MakeCluster(nodes_, kind_.first_gpu + (1 << draws_.Below(4)), rules);
    for (NodeIndex node = 0; node < cluster.node_count(); ++node) cluster.SetUsable(node, InService(), true);
    if (draws_.Below(2) == 0) cluster.SetScorer(placement::MakeScorer("pack", {}, 0, {}));
    return cluster;
  }

  GpuSet InService() const { return GpuSet::FirstN(GpuSet::kCapacity) - GpuSet::FirstN(kind_.first_gpu); }

  // Decides at every end and wake-up until then, so no end is noticed late.
  std::string GoTo(int until) {
    while (true) {
      int next = wakeup_ == kNever ? until : static_cast<int>((wakeup_ - At(0)) / std::chrono::seconds(1));
      for (const auto& [id, end] : ends_) next = std::min(next, end);
      if (next >= until) return "";
      now_ = std::max(next, now_);
      EndDue();
      if (std::string wrong = Decide(); !wrong.empty()) return wrong;
    }
  }

  void MakeTeams() {
    std::vector<TeamSpec> specs;
    const int count = 2 + draws_.Below(4);
    for (int i = 0; i < count; ++i) {
      TeamSpec spec;
      spec.name = "team " + std::to_string(i);
      spec.parent = static_cast<TeamIndex>(draws_.Below(i + 1));
      if (draws_.Below(2) == 0) spec.quota_parts = placement::kGpuParts * (1 + draws_.Below(6));
      if (draws_.Below(3) == 0) spec.limit_parts = placement::kGpuParts * (2 + draws_.Below(8));
      spec.weight = static_cast<std::uint64_t>(1 + draws_.Below(3));
      specs.push_back(spec);
    }
    teams_ = count;
    cluster_.teams().Reset(std::move(specs));
    cluster_.RecountTeams(At(now_));
  }

  // Caps on GPUs for a group and for each user; some also limit the number of jobs.
  void MakeGpuCaps() {
    for (int i = 0; i < 4; ++i) {
      const std::int64_t parts = RandomGpuCap();
      const int jobs = draws_.Below(4) == 0 ? 1 + draws_.Below(4) : 0;
      gpu_caps_.push_back(cluster_.AddCap("cap " + std::to_string(i), jobs, parts));
    }
  }
  std::int64_t RandomGpuCap() { return placement::kGpuParts / 2 * (1 + draws_.Below(16)); }

  ResourceRequest RandomGpuRequest() {
    const int tasks = 1 + (draws_.Below(3) == 0 ? draws_.Below(3) : 0);
    return GpuRequest(draws_.Below(5), tasks);
  }

  ResourceRequest RandomComponents() {
    ResourceRequest request;
    const int count = 2 + draws_.Below(2);
    for (int i = 0; i < count; ++i) {
      ResourceRequest one = draws_.Below(4) == 0 ? ShareRequest(1000 * (1 + draws_.Below(9))) : RandomGpuRequest();
      one.groups.front().anti_affinity = draws_.Below(2) == 0;
      one.groups.front().component = static_cast<std::uint8_t>(i);
      request.groups.push_back(one.groups.front());
    }
    return request;
  }

  // Some nodes give one GPU less than the others.
  ResourceRequest RandomUneven() {
    const int full = 1 + draws_.Below(2);
    const int less = 1 + draws_.Below(2);
    const int gpus = 2 + draws_.Below(3);
    ResourceRequest request = GpuRequest(gpus, full);
    request.groups.push_back(GpuRequest(gpus - 1, less).groups.front());
    for (TaskGroup& group : request.groups) group.anti_affinity = true;
    request.locality = Locality::kRack;
    return request;
  }

  ResourceRequest RandomRequest() {
    if (kind_.has_components && draws_.Below(2) == 0) return RandomComponents();
    ResourceRequest request = draws_.Below(4) == 0 ? ShareRequest(1000 * (1 + draws_.Below(9))) : RandomGpuRequest();
    if (draws_.Below(3) == 0) request.locality = static_cast<Locality>(draws_.Below(4));
    request.requires_locality = draws_.Below(3) == 0;
    if (draws_.Below(5) == 0 && !kind_.is_calm) request.groups.front().most += 2;
    if (kind_.has_uneven_nodes && draws_.Below(2) == 0) return RandomUneven();
    return request;
  }

  void Happen() {
    EndDue();
    for (int i = draws_.Below(4); i > 0; --i) Arrive();
    if (draws_.Below(12) == 0 && !waiting_.empty()) {
      const JobId id = waiting_.begin()->first;
      cluster_.Remove(id, At(now_));
      waiting_.erase(id);
    }
    if (kind_.has_advance_reservations && draws_.Below(10) == 0) Reserve();
    if (kind_.has_gpu_caps && draws_.Below(15) == 0) {
      const std::int64_t parts = draws_.Below(4) == 0 ? 0 : RandomGpuCap();
      const int jobs = draws_.Below(3);
      cluster_.SetCap(gpu_caps_[static_cast<std::size_t>(draws_.Below(4))], jobs, parts);
    }
    if (kind_.is_calm) return;
    if (draws_.Below(20) == 0) {
      const bool is_open = draws_.Below(3) != 0;
      const auto usable = GpuSet::FromBits(draws_.Next() << kind_.first_gpu);
      cluster_.SetUsable(static_cast<NodeIndex>(draws_.Below(nodes_)), usable, is_open);
    }
    if (draws_.Below(15) == 0 && !ends_.empty()) {
      cluster_.SetEnd(ends_.begin()->first, draws_.Below(4) == 0 ? kNever : At(now_ + 1 + draws_.Below(3000)));
    }
  }

  void Arrive() {
    Duration limit = minutes(1 + draws_.Below(90));
    if (!kind_.is_calm && draws_.Below(2) != 0) limit = Duration(0);
    Job job = MakeJob(cluster_, next_id_, asks_[static_cast<std::size_t>(draws_.Below(6))], At(now_), limit);
    if (!kind_.is_calm) {
      job.priority = draws_.Below(10) == 0 ? draws_.Below(3) : 0;
      if (draws_.Below(8) == 0) job.begin = At(now_ + draws_.Below(900));
      if (draws_.Below(6) == 0) job.caps = {cap_};
      if (draws_.Below(4) == 0) job.predicted = minutes(1 + draws_.Below(50));
    }
    if (draws_.Below(6) == 0) job.count = static_cast<std::uint32_t>(1 + draws_.Below(5));
    if (teams_ > 0) job.team = static_cast<TeamIndex>(draws_.Below(teams_ + 1));
    if (draws_.Below(3) == 0) job.preemptible = Preemptible::kRequeue;
    job.user = static_cast<UserIndex>(draws_.Below(3));
    if (kind_.has_gpu_caps) {
      if (draws_.Below(3) == 0) job.caps.push_back(gpu_caps_.front());
      if (draws_.Below(4) != 0) job.caps.push_back(gpu_caps_[1 + job.user]);
    }
    waiting_[job.id] = {now_, cluster_.waiting_count()};
    next_id_ += job.count + 1;
    cluster_.Put(job, At(now_));
  }

  void Reserve() {
    AdvanceReservation advance;
    advance.id = ++reserved_;
    advance.request = cluster_.Know(GpuRequest(1 + draws_.Below(2)));
    if (teams_ > 0 && draws_.Below(2) == 0) advance.team = static_cast<TeamIndex>(1 + draws_.Below(teams_));
    else advance.user = static_cast<UserIndex>(draws_.Below(3));
    advance.from = At(now_ + draws_.Below(2000));
    advance.until = advance.from + minutes(5 + draws_.Below(60));
    if (const auto reserved = cluster_.Reserve(advance, At(now_)))
      dump_ += "booked" + TextOf(reserved->placements, kind_.first_gpu) + "\n";
  }

  void EndDue() {
    for (auto at = ends_.begin(); at != ends_.end();) {
      if (at->second > now_) {
        ++at;
        continue;
      }
      cluster_.Finish(at->first, At(now_));
      at = ends_.erase(at);
    }
  }

  std::string Decide() {
    const Time now = At(now_);
    const std::vector<CapUse> held = HeldOfCaps();
    const Plan plan = cluster_.Decide(now);
    const std::string text = TextOf(plan, now, kind_.first_gpu) + TextOf(cluster_.reservations(), now, kind_.first_gpu);
    dump_ += text;
    trail_ = std::move(last_) + "--- at " + std::to_string(now_) + "\n" + text;
    last_ = "--- at " + std::to_string(now_) + "\n" + text;
    wakeup_ = plan.next_wakeup;
    if (std::string wrong = BeginAll(plan); !wrong.empty()) return wrong;
    if (std::string wrong = cluster_.CheckInvariants(); !wrong.empty()) return wrong;
    if (std::string wrong = CheckTeams(); !wrong.empty()) return wrong;
    if (std::string wrong = CheckCaps(held); !wrong.empty()) return wrong + "\n" + text;
    if (std::string wrong = CheckAdvanceReservations(); !wrong.empty()) return wrong;
    if (kind_.is_calm) {
      if (std::string wrong = CheckReservations(plan); !wrong.empty()) return wrong;
    }
    const std::string before = TextOf(cluster_.reservations(), now, kind_.first_gpu);
    const Plan again = cluster_.Decide(now);
    if (!again.starts.empty()) return "a second decision:\n" + TextOf(again, now, kind_.first_gpu) + trail_;
    if (TextOf(cluster_.reservations(), now, kind_.first_gpu) != before) {
      return "a second decision moves reservations:\n" + before + "---\n" +
             TextOf(cluster_.reservations(), now, kind_.first_gpu);
    }
    Cluster copy = cluster_.Copy();
    const Plan anew = copy.DecideAnew(now);
    if (!anew.starts.empty()) return "a look at everybody:\n" + TextOf(anew, now, kind_.first_gpu) + trail_;
    return "";
  }

  std::string Begin(const Start& start) {
    const core::Run* run = cluster_.running(start.job);
    int end = now_ + 1 + draws_.Below(4000);
    const auto at = waiting_.find(start.entry);
    if (run->end != kNever && (kind_.is_calm || draws_.Below(4) != 0)) {
      const Duration limit = run->end - At(now_);
      end = std::min(end, now_ + static_cast<int>(limit / std::chrono::seconds(1)));
    }
    ends_[start.job] = end;
    if (kind_.is_calm && !kind_.has_advance_reservations && !kind_.has_teams) {
      // Each of the jobs ahead runs 90 minutes at most, and so did the jobs that were running at its submission.
      const auto bound = static_cast<std::int64_t>(at->second.ahead + 2) * 5400;
      if (now_ - at->second.since > bound + 5 * 5400) return "job " + std::to_string(start.job.value()) + " starved";
    }
    return "";
  }

  // Members of an array may start together, so the entry is removed only after all starts of a plan.
  std::string BeginAll(const Plan& plan) {
    for (const Start& start : plan.starts) {
      if (std::string wrong = Begin(start); !wrong.empty()) return wrong;
    }
    for (const Start& start : plan.starts) {
      if (!cluster_.is_waiting(start.entry)) waiting_.erase(start.entry);
      reserved_starts_.erase(start.entry);  // The next member of an array gets a reservation of its own.
    }
    return "";
  }

  std::string CheckTeams() const {
    const Teams& teams = cluster_.teams();
    for (TeamIndex team = 1; team < teams.size(); ++team) {
      const TeamSpec& spec = teams.spec(team);
      if (spec.limit_parts != kNoBound && teams.running(team) > spec.limit_parts)
        return spec.name + " is over its limit";
      if (spec.quota_parts != kNoBound && teams.firm(team) > spec.quota_parts) return spec.name + " is over its quota";
    }
    return "";
  }

  std::vector<CapUse> HeldOfCaps() const {
    std::vector<CapUse> held;
    for (const Cap& cap : cluster_.state().caps) held.push_back({cap.running, cap.parts});
    return held;
  }

  // If a cap is lowered below what is held, no other job starts under it.
  std::string CheckCaps(const std::vector<CapUse>& before) const {
    const std::vector<CapUse> after = HeldOfCaps();
    for (CapIndex index = 0; index < after.size(); ++index) {
      const Cap& cap = cluster_.state().caps[index];
      if (cap.limit > 0 && after[index].jobs > std::max<std::int64_t>(before[index].jobs, cap.limit))
        return cap.name + " runs more jobs than it may";
      if (cap.parts_limit > 0 && after[index].parts > std::max(before[index].parts, cap.parts_limit))
        return cap.name + " holds more GPUs than it may";
    }
    return "";
  }

  // In a calm history, started advance reservations are free of other jobs, and only their owners start there.
  std::string CheckAdvanceReservations() const {
    const ClusterState& state = cluster_.state();
    for (const AdvanceReservation& advance : state.advance_reservations) {
      if (advance.from > At(now_) || advance.until <= At(now_)) continue;
      for (const TaskPlacement& placed : advance.placements) {
        for (const RunningTask& one : state.nodes[placed.node].placements) {
          if ((one.place.gpus & placed.place.gpus).empty()) continue;
          const ClassKey& key = state.classes[state.running.at(one.job).job_class].key;
          const bool is_theirs = advance.user ? *advance.user == key.user : advance.team == key.team;
          const bool came_later = one.started >= advance.from;
          if (!is_theirs && (kind_.is_calm || came_later)) {
            return "job " + std::to_string(one.job.value()) + " runs on what is booked";
          }
        }
      }
    }
    return "";
  }

  // Under first come, first served with exact limits, a reservation is postponed only by an earlier job that starts, or
  // gets a reservation, as soon as it fits anywhere.
  std::string CheckReservations(const Plan& plan) {
    std::map<JobId, Reserved> reserved_starts;
    std::optional<JobId> first_moved;
    for (const BackfillReservation& reservation : cluster_.reservations()) {
      const auto before = reserved_starts_.find(reservation.entry);
      const bool is_late = before != reserved_starts_.end() && reservation.start > before->second.start;
      const bool has_cause =
          HasStartedBefore(reservation.entry, plan) || (first_moved && *first_moved < reservation.entry);
      if (is_late && !kind_.has_advance_reservations && !kind_.has_teams && !has_cause) {
        return "the start of job " + std::to_string(reservation.entry.value()) + " was put off\n" + trail_;
      }
      Reserved now{reservation.start, reservation.placements};
      const bool has_moved = before == reserved_starts_.end() || !(before->second == now);
      if (has_moved && (!first_moved || reservation.entry < *first_moved)) first_moved = reservation.entry;
      reserved_starts[reservation.entry] = std::move(now);
    }
    reserved_starts_ = std::move(reserved_starts);
    return "";
  }

  static bool HasStartedBefore(JobId id, const Plan& plan) {
    return std::any_of(plan.starts.begin(), plan.starts.end(), [&](const Start& start) { return start.entry < id; });
  }

  // Without further arrivals, every job that can run does.
  std::string RunOut() {
    for (NodeIndex node = 0; node < cluster_.node_count(); ++node) cluster_.SetUsable(node, InService(), true);
    reserved_starts_.clear();
    kind_.is_calm = false;
    for (int step = 0; step < 4000; ++step) {
      if (std::string wrong = DecideOnce(); !wrong.empty()) return wrong;
      if (ends_.empty() && wakeup_ == kNever) break;
      int next = now_ + 1'000'000;
      for (const auto& [id, end] : ends_) next = std::min(next, end);
      if (wakeup_ != kNever)
        next = std::min(next, now_ + static_cast<int>((wakeup_ - At(now_)) / std::chrono::seconds(1)));
      now_ = std::max(next, now_ + 1);
      EndDue();
    }
    if (!ends_.empty() || wakeup_ != kNever) {
      return "it does not come to an end: " + std::to_string(ends_.size()) + " run, wakes " +
             std::to_string((wakeup_ - At(now_)).count()) + "\n" +
             TextOf(cluster_.reservations(), At(now_), kind_.first_gpu);
    }
    const ClusterState& state = cluster_.state();
    for (const auto& [id, entry] : state.waiting) {
      const ClassKey& key = state.classes[entry.job_class].key;
      const std::int64_t parts = state.classes[entry.job_class].least_parts;
      const bool is_firm = key.preemptible == Preemptible::kNever;
      const bool is_barred = state.teams.OverLimit(key.team, parts) != kRootTeam ||
                             (is_firm && state.teams.OverFirmQuota(key.team, parts) != kRootTeam) ||
                             RefusedBy(state, key.caps, parts);
      // Under strict order, a job that cannot start blocks all behind it.
      const bool is_strict = cluster_.rules().backfill == Backfill::kNone;
      if (!is_barred && !is_strict && CouldRunAlone(id)) return "job " + std::to_string(id.value()) + " never started";
    }
    return "";
  }

  std::string DecideOnce() {
    const Plan plan = cluster_.Decide(At(now_));
    wakeup_ = plan.next_wakeup;
    if (std::string wrong = BeginAll(plan); !wrong.empty()) return wrong;
    return cluster_.CheckInvariants();
  }

  bool CouldRunAlone(JobId id) const {
    Cluster copy = cluster_.Copy();
    ClusterState& state = copy.state();
    std::vector<JobId> others;
    for (const auto& [other, entry] : state.waiting) {
      if (other != id) others.push_back(other);
    }
    for (const JobId other : others) copy.Remove(other, At(now_));
    copy.SetRules(copy.rules());  // Drops the reservations and the knowledge about blocked jobs.
    return !copy.Decide(At(now_)).starts.empty();
  }

  struct Since {
    int since = 0;
    std::uint64_t ahead = 0;
  };

  Draws draws_;
  Kind kind_;
  int nodes_ = 0;
  Cluster cluster_;
  CapIndex cap_ = 0;
  std::vector<CapIndex> gpu_caps_;  // The first is for a group, the others are for the users.
  int teams_ = 0;
  std::uint64_t reserved_ = 0;
  std::vector<ResourceRequest> asks_;
  std::map<JobId, int> ends_;
  std::map<JobId, Since> waiting_;
  struct Reserved {
    Time start = kNever;
    std::vector<TaskPlacement> placements;
    friend bool operator==(const Reserved&, const Reserved&) = default;
  };
  std::map<JobId, Reserved> reserved_starts_;
  std::uint64_t next_id_ = 1;
  int now_ = 0;
  Time wakeup_ = kNever;
  std::string dump_;
  std::string last_;   // The log of the previous decision.
  std::string trail_;  // The logs of the last two decisions, for diagnosing a failure.
};

std::pair<int, int> Seeds(int from, int until) {
  const char* text = std::getenv("DIVVY_SEEDS");
  if (text == nullptr) return {from, until};
  const std::string range = text;
  return {std::atoi(range.c_str()), std::atoi(range.substr(range.find("..") + 2).c_str()) + 1};
}

void RunAll(Kind kind, int from, int until) {
  const auto [first, end] = Seeds(from, until);
  for (int seed = first; seed < end; ++seed) {
    History history(static_cast<std::uint64_t>(seed), kind);
    const std::string wrong = history.Run(60);
    EXPECT_EQ(wrong, "") << "seed " << seed;
    if (const char* file = std::getenv("DIVVY_DUMP"))
      std::ofstream(file, std::ios::app) << "history " << seed << "\n" << history.dump() << wrong;
  }
}

TEST(History, InvariantsHoldOnRandomClusters) { RunAll({}, 0, 60); }
TEST(History, InvariantsHoldWithFewChanges) { RunAll({.is_calm = true}, 100, 160); }
TEST(History, InvariantsHoldWithTeams) { RunAll({.has_teams = true}, 200, 250); }
TEST(History, InvariantsHoldWithAdvanceReservations) {
  RunAll({.is_calm = true, .has_advance_reservations = true}, 300, 330);
}
TEST(History, InvariantsHoldWithGpuCaps) { RunAll({.has_gpu_caps = true}, 600, 640); }
TEST(History, InvariantsHoldWithGpuCapsAndTeams) { RunAll({.has_teams = true, .has_gpu_caps = true}, 700, 720); }
TEST(History, InvariantsHoldWithComponents) { RunAll({.has_components = true}, 800, 840); }
TEST(History, InvariantsHoldWithComponentsAndFewChanges) {
  RunAll({.is_calm = true, .has_components = true}, 900, 930);
}
TEST(History, InvariantsHoldWithComponentsTeamsAndAdvanceReservations) {
  RunAll({.has_teams = true, .has_advance_reservations = true, .has_components = true}, 1000, 1030);
}
TEST(History, InvariantsHoldWithUnevenNodes) { RunAll({.has_uneven_nodes = true}, 1200, 1240); }
TEST(History, InvariantsHoldWithUnevenNodesAndFewChanges) {
  RunAll({.is_calm = true, .has_uneven_nodes = true}, 1300, 1330);
}
TEST(History, InvariantsHoldWithUnevenNodesAndComponents) {
  RunAll({.has_components = true, .has_uneven_nodes = true}, 1400, 1420);
}
TEST(History, InvariantsHoldWithTeamsAndAdvanceReservations) {
  RunAll({.has_teams = true, .has_advance_reservations = true}, 400, 440);
}

TEST(History, TheSameInputGivesTheSamePlans) {
  for (std::uint64_t seed = 500; seed < 504; ++seed) {
    History one(seed, {.has_teams = true, .has_advance_reservations = true});
    History other(seed, {.has_teams = true, .has_advance_reservations = true});
    ASSERT_EQ(one.Run(40), other.Run(40));
    ASSERT_EQ(one.dump(), other.dump());
    EXPECT_FALSE(one.dump().empty());
  }
}

// The first GPUs of a node and the last ones of a large node behave the same.
TEST(History, TheLastGpusOfALargeNodeBehaveLikeTheFirst) {
  for (const Kind kind :
       {Kind{}, Kind{.is_calm = true, .has_advance_reservations = true}, Kind{.has_components = true}}) {
    Kind last = kind;
    last.first_gpu = GpuSet::kCapacity - 8;
    for (std::uint64_t seed = 1100; seed < 1115; ++seed) {
      History one(seed, kind);
      History other(seed, last);
      ASSERT_EQ(one.Run(40), "");
      ASSERT_EQ(other.Run(40), "");
      ASSERT_EQ(one.dump(), other.dump()) << "seed " << seed;
    }
  }
}

}  // namespace history_test
}  // namespace divvy::core
