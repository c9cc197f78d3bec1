// Runs tests/scenarios/cluster/**.txt. Each file shows one rule of a cluster of many nodes: commands above "----", the
// engine's output below. After every decision, the invariants hold, five more decisions at the same moment change
// nothing, examining all jobs starts none, and `why` explains every waiting job. DIVVY_REWRITE=1 writes the output into
// the files; keep a rewrite only after its difference is understood.
//
//   node [count=4] [gpus=8] [model=h100] [pool=p] [mixed=2xh100+2xa100] [cpus=64] [memory=512G] [rack=0] [block=0]
//        [gpu_memory=80G] [mig] [features=a,b] [compute=9.0]
//        [numa=4] [nvlink=2]       n0, n1, ... in order; numa=4: the first four on one NUMA node, the next on another;
//                                  nvlink=2: connected in pairs
//   features n0 a,b                replaces the node's features
//   demand 6x1:4 2x0.5             recent requests, for placement: six times 1 GPU with 4 CPUs, twice half a GPU
//   rules [fifo|small-first|fair|shortest] [backfill=none] [escalate_after=1h] [reclaims] [preempts] [consolidates]
//        [least_run=10m] [patience=1m] [grace=30s] ...: RuleTable; rules that are not named are unchanged
//   team NAME [under=TEAM] [quota=4] [limit=8] [weight=2] [priority=1] [used=9h]     used: past usage in GPU time
//   line NAME [fifo|small-first|fair|shortest] [escalate_after=1h] [tier=1]          a pool's queue and its policy
//   cap NAME limit=2
//   submit NAME [gpus=1|0.5|2x0.5] [tasks=4] [most=8] [cpus=8] [memory=64G] [type=h100>a100] [pool=p]
//        [and gpus=0 tasks=2 ...]                        another group of tasks, which starts with the first
//        [together=rack:required] [widest=block] [mixes] [placement=pack|random=DRAW] [topology=nvlink:required]
//        [slice=3g] [gpu_memory=20G] [line=NAME]
//        [constraint='a&b|c'] [nodes=n[1-3]] [exclude=n2] [compute=8.0] [vram=40G]      for all its nodes; vram:
//                                  minimum memory of each GPU
//        [limit=2h] [predicted=1h] [runs=90m] [priority=1] [team=t] [user=u] [cap=a,b] [preemptible=requeue]
//        [begin=30m] [count=10] [held] [anyway]
//        runs: the actual run time; type: the first is preferred, h100+a100 are equal, h100>a100*0.5 is half as fast on
//        the second; most: elastic, in tasks; anyway: queued although it can never run
//   adopt NAME on=n0:0-3+n1:0-3 [since=1h] [and submit's options]       is running already
//   book NAME [gpus=1] [tasks=1] [user=u|team=t] [from=1h] until=3h | unbook NAME
//   usable n0 0-3 | drain n0 | return n0 | release NAME | cancel NAME | cap NAME limit=3
//   decide                         one decision: starts and places, victims, reservations
//   advance 30m                    lets time pass: a decision first, and one after each event. Jobs end at their limits
//                                  or actual ends; victims leave after the grace period and are queued again
//   finish NAME | gone NAME        the job ends now; a victim has left. A decision follows
//   queue | teams | why NAME       output; a change that "why" suggests is made on a copy, and must start the job
//
// Members of an array are called NAME.1, NAME.2, ... in start order. "expects" is a reservation that rests on
// predictions, "awaits" a nomination.

#include <bit>
#include <sstream>

#include "base/duration_text.h"
#include "base/scenario_test_files.h"
#include "engine/core/cycle/scenario_test_world.h"
#include "engine/core/explain/explain_text.h"
#include "engine/core/explain/feasible.h"
#include "engine/core/state/queue_order.h"
#include "engine/message_text.h"

namespace divvy::core {
namespace scenario_test {

class Scenario {
 public:
  std::string Run(const std::string& commands) {
    std::istringstream lines(commands);
    for (std::string line; std::getline(lines, line);) {
      if (const std::size_t hash = line.find('#'); hash != std::string::npos) line.resize(hash);
      for (const std::string& part : SplitCommands(line)) {
        if (!Trim(part).empty()) Command(Words(Trim(part)));
        if (::testing::Test::HasFailure()) return out_.str();
      }
    }
    return out_.str();
  }

 private:
  using Action = void (Scenario::*)(const Words&);
  static const std::map<std::string, Action>& Commands() {
    static const std::map<std::string, Action> commands = {
        {"node", &Scenario::Node},       {"demand", &Scenario::Demand},     {"rules", &Scenario::SetRules},
        {"team", &Scenario::Team},       {"cap", &Scenario::Cap},           {"submit", &Scenario::Submit},
        {"adopt", &Scenario::Adopt},     {"book", &Scenario::Book},         {"unbook", &Scenario::Unbook},
        {"usable", &Scenario::Usable},   {"drain", &Scenario::Usable},      {"return", &Scenario::Usable},
        {"release", &Scenario::Release}, {"cancel", &Scenario::Cancel},     {"decide", &Scenario::DecideAloud},
        {"advance", &Scenario::Advance}, {"finish", &Scenario::Finish},     {"gone", &Scenario::Gone},
        {"queue", &Scenario::Queue},     {"teams", &Scenario::Teams},       {"why", &Scenario::Why},
        {"line", &Scenario::ClassQueue}, {"features", &Scenario::Features},
    };
    return commands;
  }

  void Command(const Words& words) {
    const auto at = Commands().find(words.Plain(0));
    ASSERT_NE(at, Commands().end()) << "no such command: " << words.text;
    (this->*at->second)(words);
    ASSERT_EQ(world_.cluster.CheckInvariants(), "") << "after: " << words.text << "\n" << out_.str();
  }

  // --- Facts --------------------------------------------------------------------------------------------------------

  void Node(const Words& words) { world_.AddNodes(words); }
  void ClassQueue(const Words& words) { world_.AddLine(words); }
  void Features(const Words& words) {
    world_.SetFeatures(world_.NodeOf(words.Plain(1)), ReadList(words.Plain(2), ','));
  }
  void Demand(const Words& words) { world_.SetDemand(words); }
  void SetRules(const Words& words) { world_.SetRules(words); }
  void Team(const Words& words) { world_.AddTeam(words); }
  void Cap(const Words& words) { world_.SetCap(words.Plain(1), words.GetInt("limit", 0)); }

  void Submit(const Words& words) {
    const std::string name = words.Plain(1);
    const JobWords job = world_.ReadJob(words);
    if (!job.refusal.empty()) {
      out_ << name << " refused: " << job.refusal << "\n";
      return;
    }
    const Cluster& cluster = world_.cluster;
    Status status = Feasible(cluster, job.ask, world_.names());
    if (status) status = FeasibleForTeam(cluster, job.ask, job.job.team, job.job.preemptible);
    if (!status && !job.is_anyway) out_ << name << " refused: " << status.error().message << "\n";
    else world_.Submit(name, job);
  }

  void Adopt(const Words& words) { world_.Adopt(words.Plain(1), world_.ReadJob(words)); }

  void Book(const Words& words) {
    const std::optional<AdvanceReservation> booking = world_.Book(words);
    out_ << Clock() << words.Plain(1);
    if (!booking) {
      out_ << " finds no room\n";
      return;
    }
    bookings_[words.Plain(1)] = booking->id;
    out_ << " keeps " << PlaceText(world_.cluster.ask(booking->ask), booking->pieces) << "\n";
  }
  void Unbook(const Words& words) {
    ASSERT_TRUE(bookings_.contains(words.Plain(1))) << words.text;
    world_.cluster.Unbook(bookings_[words.Plain(1)]);
  }

  void Usable(const Words& words) {
    const NodeIndex node = world_.NodeOf(words.Plain(1));
    const GpuSet all = GpuSet::FirstN(GpuSet::kCapacity);
    const GpuSet usable = words.Plain(0) == "usable" ? ReadGpus(words.Plain(2)) : all;
    world_.cluster.SetUsable(node, usable, words.Plain(0) != "drain");
  }

  void Release(const Words& words) {
    ASSERT_TRUE(IsWaiting(words.Plain(1))) << words.text;
    Job& job = world_.job(world_.IdOf(words.Plain(1)));
    job.is_parked = false;
    job.queued_at = world_.now;
    world_.cluster.Put(job, world_.now);
  }

  void Cancel(const Words& words) {
    ASSERT_TRUE(IsWaiting(words.Plain(1))) << words.text;
    world_.cluster.Remove(world_.IdOf(words.Plain(1)), world_.now);
  }

  // --- Decisions ----------------------------------------------------------------------------------------------------

  void DecideAloud(const Words&) { Decide(true); }

  void Decide(bool shows_promises) {
    const Plan plan = world_.Decide();
    ASSERT_FALSE(::testing::Test::HasFatalFailure()) << "at " << Clock() << "after:\n" << out_.str();
    for (const Carving& carving : plan.carvings) {
      out_ << Clock() << world_.cluster.node(carving.node).name << " GPU " << carving.gpu
           << (carving.is_merge ? " is merged" : " is carved") << " for " << NameOf(carving.taker) << "\n";
    }
    for (const Start& start : plan.starts) {
      out_ << Clock() << NameOf(start.job) << " starts on " << PlaceOf(start.job, start.pieces);
      if (start.is_backfilled) out_ << ", passing " << NameOf(start.passed);
      out_ << "\n";
    }
    for (const Growth& growth : plan.growths) {
      out_ << Clock() << NameOf(growth.job) << " grows by " << PlaceOf(growth.job, growth.pieces) << "\n";
    }
    for (const Preemption& preemption : plan.preemptions) {
      out_ << Clock() << NameOf(preemption.job) << (preemption.is_all ? " makes room on " : " gives back ")
           << PlaceOf(preemption.job, preemption.pieces) << " for " << NameOf(preemption.taker) << "\n";
    }
    for (const Move& move : plan.moves) {
      out_ << Clock() << NameOf(move.job) << " moves from " << PlaceOf(move.job, move.from) << " to "
           << PlaceOf(move.job, move.to) << " for " << NameOf(move.taker) << "\n";
    }
    for (const BackfillReservation& reservation : world_.cluster.reservations()) {
      if (shows_promises) Tell(reservation);
    }
  }

  void Tell(const BackfillReservation& reservation) {
    out_ << Clock() << NameOf(reservation.entry);
    const std::string place = PlaceOf(reservation.entry, reservation.pieces);
    if (reservation.is_claim) out_ << " awaits " << place << "\n";
    else if (reservation.start == kNever) out_ << " drains " << place << "\n";
    else
      out_ << (reservation.is_sure ? " is promised " : " expects ") << place << " in "
           << DurationText(reservation.start - world_.now) << "\n";
  }

  void Advance(const Words& words) {
    const Time end = world_.now + ReadDuration(words.Plain(1));
    Decide(false);
    while (world_.NextEvent() <= end && !::testing::Test::HasFailure()) {
      world_.now = std::max(world_.now, world_.NextEvent());
      for (const JobId id : world_.Due()) {
        out_ << Clock() << NameOf(id) << " ends\n";
        world_.Finish(id);
      }
      for (const JobId id : world_.DueToLeave()) Leave(id);
      Decide(false);
    }
    world_.now = end;
    Decide(false);
  }

  void Finish(const Words& words) {
    ASSERT_TRUE(IsRunning(words.Plain(1))) << words.text << ", after:\n" << out_.str();
    world_.Finish(world_.IdOf(words.Plain(1)));
    Decide(false);
  }

  void Gone(const Words& words) {
    ASSERT_TRUE(IsRunning(words.Plain(1)) && world_.IsToldToLeave(world_.IdOf(words.Plain(1)))) << words.text;
    Leave(world_.IdOf(words.Plain(1)));
    Decide(false);
  }

  void Leave(JobId id) {
    const bool is_all = world_.Leave(id);
    out_ << Clock() << NameOf(id) << (is_all ? " has left and is queued again\n" : " has given it back\n");
  }

  // --- Questions ----------------------------------------------------------------------------------------------------

  void Queue(const Words&) {
    out_ << Clock() << "queue:";
    for (const JobId id : QueueOrder(world_.cluster, world_.now, 0)) out_ << " " << NameOf(id);
    out_ << "\n";
  }

  void Teams(const Words&) {
    const core::Teams& teams = world_.cluster.teams();
    for (TeamIndex team = 1; team < teams.size(); ++team) {
      out_ << Clock() << teams.spec(team).name << " runs " << GpuText(teams.running(team));
      if (teams.worth(team) != teams.running(team)) out_ << " (worth " << GpuText(teams.worth(team)) << ")";
      out_ << " of a share of " << GpuText(teams.FairShare(team)) << "\n";
    }
  }

  void Why(const Words& words) {
    const std::string name = words.Plain(1);
    ASSERT_TRUE(world_.Knows(name)) << words.text;
    const Explanation answer = Explain(world_.cluster, world_.IdOf(name), world_.now, world_.names());
    out_ << Clock() << "why " << name << ": ";
    if (!answer.is_waiting) {
      out_ << "does not wait\n";
      return;
    }
    if (answer.is_in_line) out_ << "number " << answer.position << ", " << GpuText(answer.ahead_parts) << " ahead";
    else out_ << "not in line";
    out_ << " (" << answer.key << ")\n";
    for (const Blocker& blocker : answer.blockers) Tell(blocker);
    out_ << "  starts " << When(answer.start.typical);
    const bool has_latest = answer.start.latest != kNever && answer.start.latest != answer.start.typical;
    if (has_latest) out_ << ", at the latest " << When(answer.start.latest);
    out_ << ": " << answer.start.basis << "\n";
    if (!answer.change) return;
    out_ << "  would start now with " << answer.change->text << "\n";
    CheckChange(name, *answer.change);
  }

  void Tell(const Blocker& blocker) {
    out_ << "  " << blocker.text;
    if (!blocker.rule.empty()) out_ << " [" << blocker.rule << "]";
    for (const Holder& holder : blocker.holders) {
      out_ << "; " << (holder.job.is_set() ? NameOf(holder.job) : "a reservation") << " has ";
      if (holder.job.is_set()) out_ << PlaceOf(holder.job, holder.pieces);
      else out_ << holder.pieces.size() << " of its places";
      if (holder.until != kNever) out_ << " for " << DurationText(holder.until - world_.now);
    }
    out_ << "\n";
  }

  std::string When(Time time) const { return time == kNever ? "?" : "in " + DurationText(time - world_.now); }

  void CheckChange(const std::string& name, const Change& change) {
    Cluster copy = world_.cluster.Copy();
    Job job = world_.job(world_.IdOf(name));
    job.ask = copy.Know(change.ask);
    job.limit = change.limit;
    job.preemptible = change.preemptible;
    copy.Put(job, world_.now);
    const Plan plan = copy.Decide(world_.now);
    const bool starts = std::any_of(plan.starts.begin(), plan.starts.end(),
                                    [&](const Start& start) { return start.entry == world_.IdOf(name); });
    ASSERT_TRUE(starts) << name << " does not start with " << change.text;
  }

  // --- Names --------------------------------------------------------------------------------------------------------

  bool IsWaiting(const std::string& name) const {
    return world_.Knows(name) && world_.cluster.is_waiting(world_.IdOf(name));
  }
  bool IsRunning(const std::string& name) const {
    return world_.Knows(name) && world_.cluster.running(world_.IdOf(name)) != nullptr;
  }
  std::string NameOf(JobId id) const { return world_.NameOf(id); }

  std::string Clock() const {
    const Duration since = world_.now - At(0);
    return since == Duration(0) ? "0: " : DurationText(since) + ": ";
  }

  std::string PlaceOf(JobId id, const std::vector<TaskPlacement>& pieces) const {
    return PlaceText(world_.cluster.ask(world_.job(id).ask), pieces);
  }

  /// Task by task: "n0 GPUs 0-3, n1 GPUs 0-3", "0.4 of n0 GPU 1", "n2" for a task without GPUs.
  std::string PlaceText(const Ask& ask, const std::vector<TaskPlacement>& pieces) const {
    std::vector<std::string> places;
    for (const TaskPlacement& piece : pieces) {
      const Shape& shape = ShapeOf(ask, piece);
      std::string place = world_.cluster.node(piece.node).name;
      if (!piece.place.gpus.empty()) place += " " + GpusText(piece.place.gpus);
      if (shape.slice) {
        const int slice = std::countr_zero(piece.place.slices);
        place = std::string(MigProfileName(*shape.slice)) + " at " + std::to_string(slice) + " of " + place;
      } else if (shape.gpus > 0 && shape.parts < placement::kGpuParts) {
        place = GpusFlag(shape) + " of " + place;
      }
      places.push_back(std::move(place));
    }
    return Join(places, ", ");
  }

  ScenarioWorld world_;
  std::map<std::string, std::uint64_t> bookings_;
  std::ostringstream out_;
};

class ClusterScenarios : public ::testing::TestWithParam<std::string> {};

TEST_P(ClusterScenarios, MatchTheirExpectedPlans) {
  ShowScenario(GetParam(), [](const std::string& commands) { return Scenario().Run(commands); });
}

INSTANTIATE_TEST_SUITE_P(, ClusterScenarios, ::testing::ValuesIn(ScenarioFiles("cluster")), ScenarioName);

}  // namespace scenario_test
}  // namespace divvy::core
