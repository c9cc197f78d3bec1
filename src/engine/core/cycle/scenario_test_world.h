// The world of a scenario (tests/scenarios/README.md): virtual time, the jobs by name, and the commands that every
// scenario may use. A subclass decides: with the engine core (scenario_test.cc), or with the scheduler in front of it
// (engine/scheduler/scenario_test.cc).
//
// Jobs end at their limits or actual ends. Preempted jobs leave after the grace period and are queued again. After
// every command, the invariants hold. After every decision, a repeated decision changes nothing, examining all jobs
// starts none, and `why` explains every waiting job.
#pragma once

#include <bit>
#include <functional>
#include <sstream>

#include "base/duration_text.h"
#include "engine/core/cycle/scenario_test_words.h"
#include "engine/core/explain/explain.h"
#include "engine/core/explain/explain_text.h"
#include "engine/core/state/queue_order.h"
#include "engine/core/state/state.h"
#include "engine/core/state/test_world.h"
#include "engine/message_text.h"

namespace divvy::core {

class ScenarioWorld {
 public:
  virtual ~ScenarioWorld() = default;

  /// Runs the commands and returns their output. Stops at the first failure.
  std::string Execute(const std::string& commands) {
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

 protected:
  ScenarioWorld() {
    Add("node", &ScenarioWorld::Node);
    Add("rules", &ScenarioWorld::SetRules);
    Add("cap", &ScenarioWorld::SetCap);
    Add("submit", &ScenarioWorld::Submit);
    Add("adopt", &ScenarioWorld::Adopt);
    Add("release", &ScenarioWorld::Release);
    Add("cancel", &ScenarioWorld::Cancel);
    Add("decide", &ScenarioWorld::DecideAloud);
    Add("advance", &ScenarioWorld::Advance);
    Add("finish", &ScenarioWorld::Finish);
    Add("gone", &ScenarioWorld::Gone);
    Add("queue", &ScenarioWorld::Queue);
    Add("teams", &ScenarioWorld::Teams);
    Add("why", &ScenarioWorld::Why);
  }

  /// Adds a command of the subclass.
  template <typename World>
  void Add(const std::string& name, void (World::*action)(const Words&)) {
    actions_[name] = [this, action](const Words& words) { (static_cast<World*>(this)->*action)(words); };
  }

  // --- For the subclass to define -----------------------------------------------------------------------------------

  virtual const Cluster& cluster() const = 0;
  virtual std::string CheckInvariants() const = 0;
  virtual void AddNode(const std::string& name, const NodeAttributes& words) = 0;
  virtual void SetRules(const Words& words) = 0;
  /// Limits the running jobs of a group and the GPUs that they hold; 0: no limit.
  virtual void SetCap(const std::string& name, int jobs, int gpus) = 0;
  /// Completes a job that was read. Refuses options that contradict each other.
  virtual Status Prepare(JobWords& /*job*/) { return {}; }
  /// Refuses what could never run.
  virtual Status CheckFeasible(const JobWords& job) const = 0;
  /// Queues the job, or replaces the waiting job of its id.
  virtual void Put(const JobWords& job) = 0;
  virtual void Adopt(const JobWords& job, std::vector<TaskPlacement> placements) = 0;
  virtual void Remove(JobId waiting) = 0;
  virtual void End(JobId running) = 0;
  virtual void GiveBack(JobId running, const std::vector<TaskPlacement>& placements) = 0;
  /// Decides, and writes what changes. Returns when the clock alone can change the plan.
  virtual Time DecideOnce() = 0;
  virtual Explanation ExplainJob(JobId id) const = 0;

  // --- For subclasses -----------------------------------------------------------------------------------------------

  std::ostream& Tell() { return out_ << Clock(); }

  /// Names the job that started from `entry`, and schedules its actual end.
  void Began(JobId entry, JobId id) {
    if (id != entry) {
      names_[id] = names_[entry] + "." + std::to_string(id.value() - entry.value());
      ids_[names_[id]] = id;
      JobWords member = jobs_.at(entry);
      member.job.id = id;
      member.job.count = 1;
      jobs_[id] = std::move(member);
    }
    const JobWords& job = jobs_.at(id);
    const Time started = cluster().running(id)->started;
    Time end = job.job.limit > Duration(0) ? started + job.job.limit : kNever;
    if (job.runs > Duration(0)) end = std::min(end, started + job.runs);
    if (end != kNever) ends_[id] = end;
  }
  /// The job leaves after the grace period.
  void BeginsToLeave(JobId id) { leaves_[id] = now_ + cluster().rules().grace; }

  /// A further decision would change nothing.
  virtual void CheckFinal() const {
    ASSERT_EQ(CheckInvariants(), "");
    Cluster copy = cluster().Copy();
    const std::string reservations = PictureOf(cluster());
    for (int round = 0; round < 5; ++round) {
      ASSERT_TRUE(IsEmpty(copy.Decide(now_))) << "a further round at the same time changes something";
      ASSERT_EQ(PictureOf(copy), reservations) << "a further round at the same time makes other reservations";
    }
    ASSERT_EQ(copy.CheckInvariants(), "");
    ASSERT_TRUE(copy.DecideAnew(now_).starts.empty()) << "examining all jobs starts one";
    for (const auto& [id, job] : jobs_) {
      if (!cluster().is_waiting(id) || job.job.is_parked) continue;
      ASSERT_FALSE(ExplainJob(id).blockers.empty()) << NameOf(id) << " waits for no reason";
    }
  }

  bool IsWaiting(const std::string& name) const { return ids_.contains(name) && cluster().is_waiting(ids_.at(name)); }
  bool IsRunning(const std::string& name) const {
    return ids_.contains(name) && cluster().running(ids_.at(name)) != nullptr;
  }
  JobId IdOf(const std::string& name) const {
    EXPECT_TRUE(ids_.contains(name)) << "no such job: " << name;
    return ids_.contains(name) ? ids_.at(name) : JobId();
  }
  std::string NameOf(JobId id) const {
    const auto at = names_.find(id);
    return at == names_.end() ? "job " + ToString(id) : at->second;
  }
  static std::string NodeName(NodeIndex node) { return "n" + std::to_string(node); }
  NodeIndex NodeOf(const std::string& name) const {
    for (NodeIndex node = 0; node < node_count_; ++node) {
      if (NodeName(node) == name) return node;
    }
    ADD_FAILURE() << "no such node: " << name;
    return 0;
  }

  const ResourceRequest& RequestOf(JobId id) const {
    const Run* run = cluster().running(id);
    const ClusterState& state = cluster().state();
    return cluster().request(
        state.classes[run != nullptr ? run->job_class : state.waiting.at(id).job_class].key.request);
  }
  /// See PlaceText.
  virtual std::string PlaceOf(JobId id, const std::vector<TaskPlacement>& placements) const {
    return PlaceText(RequestOf(id), placements);
  }

  /// Task by task: "n0 GPUs 0-3, n1 GPUs 0-3", "0.4 of n0 GPU 1", "n2" for a task without GPUs.
  std::string PlaceText(const ResourceRequest& request, const std::vector<TaskPlacement>& placements) const {
    std::vector<std::string> places;
    for (const TaskPlacement& placed : placements) {
      const Shape& shape = ShapeOf(request, placed);
      std::string place = NodeName(placed.node);
      if (!placed.place.gpus.empty()) place += " " + GpusText(placed.place.gpus);
      if (shape.slice) {
        const int slice = std::countr_zero(placed.place.slices);
        place = std::string(MigProfileName(*shape.slice)) + " at " + std::to_string(slice) + " of " + place;
      } else if (shape.gpus > 0 && shape.parts < placement::kGpuParts) {
        place = GpusFlag(shape) + " of " + place;
      }
      places.push_back(std::move(place));
    }
    return Join(places, ", ");
  }

  Time now_ = At(0);
  std::map<JobId, JobWords> jobs_;

 private:
  void Command(const Words& words) {
    const auto at = actions_.find(words.Plain(0));
    ASSERT_NE(at, actions_.end()) << "no such command: " << words.text;
    at->second(words);
    ASSERT_EQ(CheckInvariants(), "") << "after: " << words.text << "\n" << out_.str();
  }

  // --- Facts --------------------------------------------------------------------------------------------------------

  void Node(const Words& words) {
    NodeAttributes node;
    ReadWords(NodeTable(), words, 1, node);
    for (int i = 0; i < node.count; ++i, ++node_count_) AddNode(NodeName(node_count_), node);
  }
  void SetCap(const Words& words) { SetCap(words.Plain(1), words.GetInt("limit", 0), words.GetInt("gpus", 0)); }

  JobWords ReadJob(const Words& words) {
    JobWords job = core::ReadJob(words, 2);
    if (!job.on.empty() && !words.Has("tasks")) job.groups.front().tasks = static_cast<int>(job.on.size());
    job.job.id = JobId(next_id_);
    job.job.queued_at = now_ - job.since;
    if (job.begin > Duration(0)) job.job.begin = now_ + job.begin;
    return job;
  }

  void Submit(const Words& words) {
    const std::string name = words.Plain(1);
    JobWords job = ReadJob(words);
    Status status = Prepare(job);
    if (status && !job.is_anyway) status = CheckFeasible(job);
    if (!status) {
      out_ << name << " refused: " << status.error().message << "\n";
      return;
    }
    Note(name, job);
    Put(job);
  }

  void Adopt(const Words& words) {
    const std::string name = words.Plain(1);
    JobWords job = ReadJob(words);
    const Status status = Prepare(job);
    ASSERT_TRUE(status) << status.error().message;
    std::vector<TaskPlacement> placements;
    for (const std::string& place : job.on) {
      const std::size_t colon = place.find(':');
      const NodeIndex node = NodeOf(place.substr(0, colon));
      placements.push_back({node, {colon == std::string::npos ? GpuSet() : ReadGpus(place.substr(colon + 1))}, 0, 0});
    }
    ASSERT_FALSE(placements.empty()) << name << " is adopted on no node";
    Note(name, job);
    Adopt(job, std::move(placements));
    if (::testing::Test::HasFailure()) return;
    Began(job.job.id, job.job.id);
  }

  void Note(const std::string& name, const JobWords& job) {
    ids_[name] = job.job.id;
    names_[job.job.id] = name;
    jobs_[job.job.id] = job;
    next_id_ += job.job.count > 1 ? job.job.count + 1 : 1;
  }

  void Release(const Words& words) {
    ASSERT_TRUE(IsWaiting(words.Plain(1))) << words.text;
    JobWords& job = jobs_.at(IdOf(words.Plain(1)));
    job.job.is_parked = false;
    job.job.queued_at = now_;
    Put(job);
  }

  void Cancel(const Words& words) {
    ASSERT_TRUE(IsWaiting(words.Plain(1))) << words.text;
    Remove(IdOf(words.Plain(1)));
  }

  // --- Time ---------------------------------------------------------------------------------------------------------

  void DecideAloud(const Words&) {
    Decide();
    for (const BackfillReservation& reservation : cluster().reservations()) TellReservation(reservation);
  }

  void Decide() {
    next_wakeup_ = DecideOnce();
    CheckFinal();
  }

  void TellReservation(const BackfillReservation& reservation) {
    const std::string place = PlaceOf(reservation.entry, reservation.placements);
    Tell() << NameOf(reservation.entry);
    const bool is_dated = reservation.start != kNever;
    if (reservation.is_nomination) out_ << " awaits ";
    else if (is_dated) out_ << (reservation.is_sure ? " is promised " : " expects ");
    else out_ << " drains ";
    out_ << place << (is_dated ? " " + When(reservation.start) : "") << "\n";
  }

  /// The time of the next event that happens by itself.
  Time NextEvent() const {
    Time next = next_wakeup_;
    for (const auto& [id, end] : ends_) next = std::min(next, end);
    for (const auto& [id, at] : leaves_) next = std::min(next, at);
    return next;
  }
  std::vector<JobId> DueOf(const std::map<JobId, Time>& times) const {
    std::vector<JobId> due;
    for (const auto& [id, at] : times) {
      if (at <= now_) due.push_back(id);
    }
    return due;
  }

  void Advance(const Words& words) {
    const Time end = now_ + ReadDuration(words.Plain(1));
    Decide();
    while (NextEvent() <= end && !::testing::Test::HasFailure()) {
      now_ = std::max(now_, NextEvent());
      for (const JobId id : DueOf(ends_)) {
        Tell() << NameOf(id) << " ends\n";
        Finish(id);
      }
      for (const JobId id : DueOf(leaves_)) Leave(id);
      Decide();
    }
    now_ = end;
    Decide();
  }

  void Finish(const Words& words) {
    ASSERT_TRUE(IsRunning(words.Plain(1))) << words.text << ", after:\n" << out_.str();
    Finish(IdOf(words.Plain(1)));
    Decide();
  }
  void Finish(JobId id) {
    End(id);
    ends_.erase(id);
    leaves_.erase(id);
  }

  void Gone(const Words& words) {
    ASSERT_TRUE(IsRunning(words.Plain(1))) << words.text;
    Leave(IdOf(words.Plain(1)));
    Decide();
  }

  /// A preempted job leaves: it releases everything and is queued again, or releases a part.
  void Leave(JobId id) {
    const Run* run = cluster().running(id);
    ASSERT_TRUE(run->is_leaving || !run->leaving.empty()) << NameOf(id) << " has nothing to give back";
    leaves_.erase(id);
    if (run->is_leaving) {
      Tell() << NameOf(id) << " has left and is queued again\n";
      Finish(id);
      Put(jobs_.at(id));
    } else {
      const std::vector<TaskPlacement> part = run->leaving;
      Tell() << NameOf(id) << " has given back " << PlaceOf(id, part) << "\n";
      GiveBack(id, part);
    }
  }

  std::string Clock() const {
    const Duration since = now_ - At(0);
    return since == Duration(0) ? "0: " : DurationText(since) + ": ";
  }

  // --- Questions ----------------------------------------------------------------------------------------------------

  void Queue(const Words&) {
    Tell() << "queue:";
    for (const JobId id : QueueOrder(cluster(), now_, 0)) out_ << " " << NameOf(id);
    out_ << "\n";
  }

  void Teams(const Words&) {
    const core::Teams& teams = cluster().teams();
    for (TeamIndex team = 1; team < teams.size(); ++team) {
      Tell() << teams.spec(team).name << " runs " << GpuText(teams.running(team));
      if (teams.worth(team) != teams.running(team)) out_ << " (worth " << GpuText(teams.worth(team)) << ")";
      out_ << " of a share of " << GpuText(teams.FairShare(team)) << "\n";
    }
  }

  void Why(const Words& words) {
    const JobId id = IdOf(words.Plain(1));
    const Explanation answer = ExplainJob(id);
    Tell() << "why " << words.Plain(1) << ": ";
    if (!answer.is_waiting) {
      out_ << "does not wait\n";
      return;
    }
    if (answer.is_queued) out_ << "number " << answer.position << ", " << GpuText(answer.ahead_parts) << " ahead";
    else out_ << "not in line";
    out_ << " (" << answer.key << ")\n";
    for (const Blocker& blocker : answer.blockers) TellBlocker(blocker);
    out_ << "  starts " << When(answer.start.typical);
    const bool has_latest = answer.start.latest != kNever && answer.start.latest != answer.start.typical;
    if (has_latest) out_ << ", at the latest " << When(answer.start.latest);
    out_ << ": " << answer.start.basis << "\n";
    if (!answer.change) return;
    out_ << "  would start now with " << answer.change->text << "\n";
    CheckChange(id, *answer.change);
  }

  void TellBlocker(const Blocker& blocker) {
    out_ << "  " << blocker.text;
    if (!blocker.rule.empty()) out_ << " [" << blocker.rule << "]";
    for (const Holder& holder : blocker.holders) {
      out_ << "; " << (holder.job.is_set() ? NameOf(holder.job) : "a reservation") << " has ";
      if (holder.placements.empty()) out_ << "some";
      else if (holder.job.is_set()) out_ << PlaceOf(holder.job, holder.placements);
      else out_ << holder.placements.size() << " of its places";
      if (holder.until != kNever) out_ << " for " << DurationText(holder.until - now_);
    }
    out_ << "\n";
  }

  std::string When(Time time) const { return time == kNever ? "?" : "in " + DurationText(time - now_); }

  /// With the change, the next decision starts the job.
  void CheckChange(JobId id, const Change& change) const {
    Cluster copy = cluster().Copy();
    const ClusterState& state = copy.state();
    const Waiting& waiting = state.waiting.at(id);
    const ClassKey& key = state.classes[waiting.job_class].key;
    Job job;
    job.id = id;
    job.count = waiting.count;
    job.priority = waiting.place.priority;
    job.queued_at = waiting.place.since;
    job.team = key.team;
    job.user = key.user;
    job.predicted = key.predicted;
    job.caps = key.caps;
    job.request = copy.Know(change.request);
    job.limit = change.limit;
    job.preemptible = change.preemptible;
    copy.Put(job, now_);
    const Plan plan = copy.Decide(now_);
    const bool starts =
        std::any_of(plan.starts.begin(), plan.starts.end(), [&](const Start& start) { return start.entry == id; });
    ASSERT_TRUE(starts) << NameOf(id) << " does not start with " << change.text;
  }

  static std::string PictureOf(const Cluster& cluster) {
    std::string text;
    for (const BackfillReservation& reservation : cluster.reservations()) {
      text += ToString(reservation.entry) + " " + std::to_string(reservation.start.time_since_epoch().count());
      text += reservation.is_sure ? " sure" : " likely";
      for (const TaskPlacement& placed : reservation.placements) {
        text += " " + std::to_string(placed.node) + ":" + std::to_string(placed.place.gpus.bits());
      }
      text += "\n";
    }
    return text;
  }

  static bool IsEmpty(const Plan& plan) {
    return plan.starts.empty() && plan.preemptions.empty() && plan.moves.empty() && plan.growths.empty() &&
           plan.carvings.empty();
  }

  std::map<std::string, std::function<void(const Words&)>> actions_;
  std::map<std::string, JobId> ids_;
  std::map<JobId, std::string> names_;
  std::map<JobId, Time> ends_;
  std::map<JobId, Time> leaves_;
  NodeIndex node_count_ = 0;
  std::uint64_t next_id_ = 1;
  Time next_wakeup_ = kNever;
  std::ostringstream out_;
};

}  // namespace divvy::core
