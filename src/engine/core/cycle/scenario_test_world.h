// The cluster of a scenario (scenario_test.cc) in virtual time. Jobs end at their actual ends; victims leave after the
// grace period and are queued again. After every decision it is checked that a repeated decision changes nothing.
#pragma once

#include <functional>
#include <set>

#include "engine/core/cycle/scenario_test_words.h"
#include "engine/core/explain/explain.h"
#include "engine/core/explain/kind_words.h"
#include "engine/core/state/test_world.h"

namespace divvy::core {

inline const WordTable<Rules>& RuleTable() {
  static const WordTable<Rules> table = {
      {"small-first", [](Rules& rules, const std::string&) { rules.order = Order::kSmallFirst; }},
      {"fifo", [](Rules& rules, const std::string&) { rules.order = Order::kFifo; }},
      {"fair", [](Rules& rules, const std::string&) { rules.order = Order::kFair; }},
      {"shortest", [](Rules& rules, const std::string&) { rules.order = Order::kShortest; }},
      {"backfill",
       [](Rules& rules, const std::string& text) {
         rules.backfill = ReadOneOf<Backfill>(
             text, {{"reserved", Backfill::kReserved}, {"none", Backfill::kNone}, {"anything", Backfill::kAnything}});
       }},
      {"escalate_after", [](Rules& rules, const std::string& text) { rules.escalate_after = ReadDuration(text); }},
      {"tier", [](Rules& rules, const std::string& text) { rules.tier = ReadInt(text); }},
      {"ageing", [](Rules& rules, const std::string& text) { rules.ageing = std::strtod(text.c_str(), nullptr); }},
      {"fair_is_fifo", [](Rules& rules, const std::string&) { rules.fair_is_fifo = true; }},
      {"without_predictions", [](Rules& rules, const std::string&) { rules.uses_predictions = false; }},
      {"cpu_jobs_pass", [](Rules& rules, const std::string&) { rules.cpu_jobs_pass = true; }},
      {"reclaims", [](Rules& rules, const std::string&) { rules.reclaims = true; }},
      {"preempts", [](Rules& rules, const std::string&) { rules.preempts = true; }},
      {"consolidates", [](Rules& rules, const std::string&) { rules.consolidates = true; }},
      {"least_run", [](Rules& rules, const std::string& text) { rules.least_run = ReadDuration(text); }},
      {"patience", [](Rules& rules, const std::string& text) { rules.patience = ReadDuration(text); }},
      {"grace", [](Rules& rules, const std::string& text) { rules.grace = ReadDuration(text); }},
  };
  return table;
}

struct TeamWords {
  TeamSpec spec;
  std::string under;
  std::optional<Duration> used;  // In GPU time.
};

inline const WordTable<TeamWords>& TeamTable() {
  static const WordTable<TeamWords> table = {
      {"under", [](TeamWords& team, const std::string& text) { team.under = text; }},
      {"quota", [](TeamWords& team, const std::string& text) { team.spec.quota_parts = ReadParts(text); }},
      {"limit", [](TeamWords& team, const std::string& text) { team.spec.limit_parts = ReadParts(text); }},
      {"weight",
       [](TeamWords& team, const std::string& text) { team.spec.weight = static_cast<std::uint64_t>(ReadInt(text)); }},
      {"priority", [](TeamWords& team, const std::string& text) { team.spec.priority = ReadInt(text); }},
      {"used", [](TeamWords& team, const std::string& text) { team.used = ReadDuration(text); }},
  };
  return table;
}

struct BookWords {
  std::string gpus = "1";
  std::string tasks = "1";
  std::string user;
  std::string team;
  Duration from{0};
  Duration until{0};
};

inline const WordTable<BookWords>& BookTable() {
  static const WordTable<BookWords> table = {
      {"gpus", [](BookWords& book, const std::string& text) { book.gpus = text; }},
      {"tasks", [](BookWords& book, const std::string& text) { book.tasks = text; }},
      {"user", [](BookWords& book, const std::string& text) { book.user = text; }},
      {"team", [](BookWords& book, const std::string& text) { book.team = text; }},
      {"from", [](BookWords& book, const std::string& text) { book.from = ReadDuration(text); }},
      {"until", [](BookWords& book, const std::string& text) { book.until = ReadDuration(text); }},
  };
  return table;
}

class ScenarioWorld {
 public:
  // --- Facts --------------------------------------------------------------------------------------------------------

  void AddNodes(const Words& words) {
    NodeWords node;
    ReadWords(NodeTable(), words, 1, node);
    NodeFacts facts;
    facts.cpu_milli = node.cpu_milli;
    facts.memory_mib = node.memory_mib;
    facts.gpus = node.gpus;
    facts.rack = node.rack;
    facts.block = node.block;
    facts.topology = TopologyOf(node.gpus, node.numa, node.nvlink);
    if (node.gpu_memory_mib > 0) facts.gpu_memory_mib.assign(static_cast<std::size_t>(node.gpus), node.gpu_memory_mib);
    if (node.has_mig) facts.sliceable = GpuSet::FirstN(node.gpus);
    for (int i = 0; i < node.count; ++i) {
      facts.name = "n" + std::to_string(cluster.node_count());
      traits_.push_back(TraitsOf(node, facts.name));
      const Status added = book_.AddNode(traits_.back());
      ASSERT_TRUE(added) << added.error().message;
      book_.Fill(static_cast<NodeIndex>(cluster.node_count()), facts);
      cluster.AddNode(facts);
      FollowKinds();
    }
    UseDemand();
  }

  /// Replaces the features of the node.
  void SetFeatures(NodeIndex node, std::vector<std::string> features) {
    traits_[node].features = std::move(features);
    const Status set = book_.SetTraits(node, traits_[node]);
    ASSERT_TRUE(set) << set.error().message;
    FollowKinds();
  }

  /// "6x1:4 2x0.5": recently six requests for a GPU and four CPUs, and two for half a GPU.
  void SetDemand(const Words& words) {
    demand_.clear();
    for (std::size_t i = 1; i < words.all.size(); ++i) {
      const std::string& word = words.all[i].first;
      const std::size_t colon = std::min(word.find(':'), word.size());
      const std::size_t x = word.find('x') + 1;
      TaskWords task;
      TaskTable().at("gpus")(task, word.substr(x, colon - x));
      if (colon < word.size()) TaskTable().at("cpus")(task, word.substr(colon + 1));
      demand_.insert(demand_.end(), static_cast<std::size_t>(ReadInt(word)), task.shape);
    }
    UseDemand();
  }

  void SetRules(const Words& words) {
    Rules rules = cluster.rules();
    ReadWords(RuleTable(), words, 1, rules);
    cluster.SetRules(rules);
  }

  /// Adds a pool with a queue and a policy of its own.
  void AddLine(const Words& words) {
    Rules rules;
    ReadWords(RuleTable(), words, 2, rules);
    lines_[words.Plain(1)] = cluster.AddPool(rules);
  }

  void AddTeam(const Words& words) {
    TeamWords team;
    ReadWords(TeamTable(), words, 2, team);
    team.spec.name = words.Plain(1);
    team.spec.parent = team.under.empty() ? kRootTeam : TeamOf(team.under);
    specs_.push_back(team.spec);
    if (team.used) used_[static_cast<TeamIndex>(specs_.size())] = *team.used;
    cluster.teams().Reset(specs_);
    for (const auto& [index, used] : used_) {
      cluster.teams().SetUsage(index, std::chrono::duration<double>(used).count() * placement::kGpuParts, now);
    }
    cluster.RecountTeams(now);
  }

  void SetCap(const std::string& name, int limit) {
    const auto at = caps_.find(name);
    if (at == caps_.end()) caps_[name] = cluster.AddCap("group " + name, limit);
    else cluster.SetCap(at->second, limit, 0);
  }

  /// Reads the options of "submit" and "adopt".
  JobWords ReadJob(const Words& words) {
    JobWords job = core::ReadJob(words, 2);
    if (!job.on.empty() && !words.Has("tasks")) job.groups.front().tasks = static_cast<int>(job.on.size());
    if (const Status made = MakeAsk(book_, job); !made) {
      job.refusal = made.error().message;
      return job;
    }
    FollowKinds();
    job.job.id = JobId(next_id_);
    if (!job.line.empty()) {
      EXPECT_TRUE(lines_.contains(job.line)) << "no such line: " << job.line;
      job.ask.pool = lines_[job.line];
    }
    job.job.ask = cluster.Know(job.ask);
    job.job.team = job.team.empty() ? kRootTeam : TeamOf(job.team);
    job.job.user = UserOf(job.user);
    for (const std::string& cap : job.caps) {
      EXPECT_TRUE(caps_.contains(cap)) << "no such cap: " << cap;
      job.job.caps.push_back(caps_[cap]);
    }
    std::sort(job.job.caps.begin(), job.job.caps.end());
    job.job.queued_at = now - job.since;
    if (job.begin > Duration(0)) job.job.begin = now + job.begin;
    return job;
  }
  void Submit(const std::string& name, const JobWords& job) {
    Note(name, job);
    cluster.Put(job.job, now);
  }
  void Adopt(const std::string& name, JobWords job) {
    std::vector<TaskPlacement> pieces;
    for (const std::string& place : job.on) {
      const std::size_t colon = place.find(':');
      const NodeIndex node = NodeOf(place.substr(0, colon));
      pieces.push_back({node, {colon == std::string::npos ? GpuSet() : ReadGpus(place.substr(colon + 1))}, 0, 0});
    }
    ASSERT_FALSE(pieces.empty()) << name << " is adopted on no node";
    ASSERT_EQ(pieces.front().place.gpus.size(), job.ask.groups.front().alternatives.front().gpus) << name;
    Note(name, job);
    cluster.Adopt(job.job, std::move(pieces), now - job.since, now);
    Began(job.job.id);
  }
  std::optional<AdvanceReservation> Book(const Words& words) {
    BookWords book;
    ReadWords(BookTable(), words, 2, book);
    TaskWords task;
    TaskTable().at("gpus")(task, book.gpus);
    TaskTable().at("tasks")(task, book.tasks);
    Ask ask;
    ask.groups.push_back(GroupOf(task));
    AdvanceReservation booking;
    booking.id = ++bookings_;
    booking.ask = cluster.Know(ask);
    if (!book.team.empty()) booking.team = TeamOf(book.team);
    if (!book.user.empty()) booking.user = UserOf(book.user);
    booking.from = now + book.from;
    booking.until = now + book.until;
    return cluster.Book(booking, now);
  }

  // --- Time ---------------------------------------------------------------------------------------------------------

  /// Decides and applies the plan. Then five more decisions must change nothing.
  Plan Decide() {
    Plan plan = cluster.Decide(now);
    for (const Start& start : plan.starts) {
      Job member = jobs_.at(start.entry).job;
      if (start.job != start.entry) {
        names_[start.job] = names_[start.entry] + "." + std::to_string(start.job.value() - start.entry.value());
        ids_[names_[start.job]] = start.job;
        member.id = start.job;
        member.count = 1;
        JobWords words = jobs_.at(start.entry);
        words.job = member;
        jobs_[start.job] = std::move(words);
      }
      Began(start.job);
    }
    for (const Preemption& preemption : plan.preemptions) leaves_[preemption.job] = now + cluster.rules().grace;
    for (const Move& move : plan.moves) leaves_[move.job] = now + cluster.rules().grace;
    next_wakeup_ = plan.next_wakeup;
    CheckFinal();
    return plan;
  }

  /// The time of the next event that happens by itself.
  Time NextEvent() const {
    Time next = next_wakeup_;
    for (const auto& [id, end] : ends_) next = std::min(next, end);
    for (const auto& [id, at] : leaves_) next = std::min(next, at);
    return next;
  }
  std::vector<JobId> Due() const { return DueOf(ends_); }
  std::vector<JobId> DueToLeave() const { return DueOf(leaves_); }

  void Finish(JobId id) {
    cluster.Finish(id, now);
    ends_.erase(id);
    leaves_.erase(id);
  }
  bool IsToldToLeave(JobId id) const { return leaves_.contains(id); }
  /// A victim leaves: it releases everything and is queued again, or releases a part. Returns whether it was
  /// everything.
  bool Leave(JobId id) {
    const Run* run = cluster.running(id);
    leaves_.erase(id);
    if (!run->is_leaving) {
      const std::vector<TaskPlacement> part = run->leaving;
      cluster.GiveBack(id, part, now);
      return false;
    }
    Finish(id);
    cluster.Put(jobs_.at(id).job, now);
    return true;
  }

  // --- Names --------------------------------------------------------------------------------------------------------

  bool Knows(const std::string& name) const { return ids_.contains(name); }
  JobId IdOf(const std::string& name) const { return ids_.at(name); }
  std::string NameOf(JobId id) const {
    const auto at = names_.find(id);
    return at == names_.end() ? "job " + ToString(id) : at->second;
  }
  const Job& job(JobId id) const { return jobs_.at(id).job; }
  Job& job(JobId id) { return jobs_.at(id).job; }
  NodeIndex NodeOf(const std::string& name) const {
    for (NodeIndex node = 0; node < cluster.node_count(); ++node) {
      if (cluster.node(node).name == name) return node;
    }
    ADD_FAILURE() << "no such node: " << name;
    return 0;
  }
  TeamIndex TeamOf(const std::string& name) const {
    for (std::size_t i = 0; i < specs_.size(); ++i) {
      if (specs_[i].name == name) return static_cast<TeamIndex>(i + 1);
    }
    ADD_FAILURE() << "no such team: " << name;
    return kRootTeam;
  }
  Names names() const { return NamesOf(book_); }

  Cluster cluster{Rules{}};
  Time now = At(0);

 private:
  UserIndex UserOf(const std::string& name) {
    if (name.empty()) return 0;
    return users_.try_emplace(name, static_cast<UserIndex>(users_.size() + 1)).first->second;
  }

  void Note(const std::string& name, const JobWords& job) {
    ids_[name] = job.job.id;
    names_[job.job.id] = name;
    jobs_[job.job.id] = job;
    next_id_ += job.job.count > 1 ? job.job.count + 1 : 1;
  }

  // Schedules the actual end of a job that starts or runs already.
  void Began(JobId id) {
    const JobWords& job = jobs_.at(id);
    const Time started = cluster.running(id)->started;
    Time end = job.job.limit > Duration(0) ? started + job.job.limit : kNever;
    if (job.runs > Duration(0)) end = std::min(end, started + job.runs);
    if (end != kNever) ends_[id] = end;
  }

  std::vector<JobId> DueOf(const std::map<JobId, Time>& times) const {
    std::vector<JobId> due;
    for (const auto& [id, at] : times) {
      if (at <= now) due.push_back(id);
    }
    return due;
  }

  void UseDemand() { cluster.SetScorer(ScorerOfDemand()); }

  std::shared_ptr<const placement::Scorer> ScorerOfDemand() const {
    return placement::MakeScorer("default", placement::CountShapes(demand_), static_cast<double>(demand_.size()),
                                 book_.CapacityParts(), book_.Alike());
  }

  // Node kinds change while jobs run and wait; this alone must change nothing for the jobs.
  void FollowKinds() {
    const KindChange change = book_.TakeChange();
    if (!change.empty()) cluster.SetKinds(book_, change, ScorerOfDemand());
    ASSERT_EQ(book_.CheckInvariants(), "");
  }

  static std::string PictureOf(const Cluster& cluster) {
    std::string text;
    for (const BackfillReservation& reservation : cluster.reservations()) {
      text += ToString(reservation.entry) + " " + std::to_string(reservation.start.time_since_epoch().count());
      text += reservation.is_sure ? " sure" : " likely";
      for (const TaskPlacement& piece : reservation.pieces) {
        text += " " + std::to_string(piece.node) + ":" + std::to_string(piece.place.gpus.bits());
      }
      text += "\n";
    }
    return text;
  }

  static bool IsEmpty(const Plan& plan) {
    return plan.starts.empty() && plan.preemptions.empty() && plan.moves.empty() && plan.growths.empty() &&
           plan.carvings.empty();
  }

  void CheckFinal() const {
    ASSERT_EQ(cluster.CheckInvariants(), "");
    Cluster copy = cluster.Copy();
    const std::string reservations = PictureOf(cluster);
    for (int round = 0; round < 5; ++round) {
      ASSERT_TRUE(IsEmpty(copy.Decide(now))) << "a further round at the same time changes something";
      ASSERT_EQ(PictureOf(copy), reservations) << "a further round at the same time makes other reservations";
    }
    ASSERT_EQ(copy.CheckInvariants(), "");
    ASSERT_TRUE(copy.DecideAnew(now).starts.empty()) << "a look at everybody starts somebody";
    for (const auto& [id, job] : jobs_) {
      if (!cluster.is_waiting(id) || job.job.is_parked) continue;
      ASSERT_FALSE(Explain(cluster, id, now).blockers.empty()) << NameOf(id) << " waits for no reason";
    }
  }

  NodeClassIndex book_;
  std::vector<NodeTraits> traits_;
  std::map<std::string, PoolIndex> lines_;
  std::vector<Shape> demand_;
  std::vector<TeamSpec> specs_;
  std::map<TeamIndex, Duration> used_;
  std::map<std::string, CapIndex> caps_;
  std::map<std::string, UserIndex> users_;
  std::map<std::string, JobId> ids_;
  std::map<JobId, std::string> names_;
  std::map<JobId, JobWords> jobs_;
  std::map<JobId, Time> ends_;
  std::map<JobId, Time> leaves_;
  std::uint64_t next_id_ = 1;
  std::uint64_t bookings_ = 0;
  Time next_wakeup_ = kNever;
};

}  // namespace divvy::core
