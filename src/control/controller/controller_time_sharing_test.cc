// Time-sharing of whole GPUs: jobs that are parked so that newcomers start, and return. A modelled node parks them.
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>

#include "control/books/record_parts.h"
#include "control/controller/controller_test_world.h"
#include "control/controller/start_reason.h"

namespace divvy {
namespace controller_time_sharing_test {

using namespace std::chrono_literals;

constexpr std::int64_t kGibibyte = std::int64_t{1} << 30;

Policy Sharing() {
  Policy policy;
  policy.order = QueuePolicy::kFifo;
  policy.time_sharing.mode = TimeSharingMode::kOn;
  return policy;
}

struct Ask {
  int gpus = 1;
  bool no_pause = false;
  bool is_foreground = false;
  int priority = 0;
  Duration time_limit{0};
};

/// A controller with its store, and a node with a keeper. Commands reach the node when Obey is called.
class Shared {
 public:
  explicit Shared(int gpus, Policy policy = Sharing(), std::int64_t host_gib = 2048)
      : gpus_(gpus), host_gib_(host_gib), policy_(std::move(policy)) {
    controller_ = Made();
    ada_.user = {1000, 1000, "ada"};
    ada_.is_admin = true;
  }

  struct Run {
    std::uint32_t attempt = 0;
    Presence presence = Presence::kHere;
    GpuSet gpus;
    bool is_parkable = false;
    bool can_park = true;
  };

  JobId Submit(const Ask& ask = {}) {
    JobSpec spec;
    spec.command = {"true"};
    spec.name = "train";
    spec.request.gpus = ask.gpus;
    spec.is_foreground = ask.is_foreground;
    spec.is_preemptible_set = ask.no_pause;
    spec.priority = ask.priority;
    spec.time_limit = ask.time_limit;
    const auto result = controller_->Submit(std::move(spec), 0, ada_, now, World::NoHistory());
    EXPECT_TRUE(result) << (result ? "" : result.error().message);
    return result ? result->id : JobId();
  }

  /// Submits an array of trials with one GPU each.
  JobId SubmitSweep(const sweep::SweepRule& rule, std::uint32_t trials, int cpus = 1, std::int64_t memory_gib = 0) {
    JobSpec spec;
    spec.command = {"train", "{lr}"};
    spec.name = "search";
    spec.request.gpus = 1;
    spec.request.cpus = cpus;
    if (memory_gib > 0) spec.request.memory = Bytes(memory_gib * kGibibyte);
    spec.parameters = {{"lr", std::vector<std::string>(trials, "0.1"), 0}};
    spec.labels[std::string(sweep::kRuleLabel)] = sweep::FormatRule(rule);
    const auto result = controller_->Submit(std::move(spec), trials, ada_, now, World::NoHistory());
    EXPECT_TRUE(result) << (result ? "" : result.error().message);
    return result ? result->id : JobId();
  }
  /// A trial reports its loss.
  void Measure(JobId job, double epoch, double loss) {
    controller_->OnMetrics(job, {{"epoch", epoch}, {"loss", loss}}, now);
  }

  /// Decides, and makes the result durable. Commands wait for Obey.
  void Turn() {
    controller_->Decide(now);
    EXPECT_EQ(controller_->CheckInvariants(), "");
    Effects effects = controller_->TakeEffects();
    for (auto& made : effects.batch.inserts) rows_[made.record.id] = made.record;
    for (auto& row : effects.batch.updates) rows_[row.id] = row;
    std::erase_if(rows_, [](const auto& row) { return IsFinal(row.second.state); });
    for (auto& [key, text] : effects.batch.settings) {
      if (text.empty()) settings.erase(key);
      else settings[key] = text;
    }
    if (effects.batch.next_id) next_id_ = *effects.batch.next_id;
    for (NodeCommand& command : effects.commands) commands.push_back(std::move(command));
    CheckOwners();
  }

  /// No GPU has two owners: neither in the store, nor on the node.
  void CheckOwners() const {
    GpuSet stored, used;
    for (const auto& [id, row] : rows_) {
      if (!IsActive(row.state)) continue;
      EXPECT_TRUE((stored & row.gpus).empty()) << "job " << id.value() << " shares a GPU in the store";
      stored |= row.gpus;
    }
    for (const auto& [id, run] : runs) {
      if (run.presence == Presence::kAway) continue;
      EXPECT_TRUE((used & run.gpus).empty()) << "job " << id.value() << " shares a GPU on the node";
      used |= run.gpus;
    }
  }

  void Obey() {
    while (!commands.empty()) {
      const NodeCommand command = std::move(commands.front());
      commands.pop_front();
      Obey(command);
    }
    CheckOwners();
  }
  void Obey(const NodeCommand& command) {
    if (const auto* launch = std::get_if<LaunchCommand>(&command)) {
      const JobRecord& record = launch->record;
      runs[record.id] = {record.attempt, Presence::kHere, record.gpus, launch->is_parkable, true};
      controller_->OnStarted(record.id, record.attempt, now);
      Report(record.id);
    } else if (const auto* displace = std::get_if<DisplaceCommand>(&command)) {
      const auto at = runs.find(displace->job);
      if (at == runs.end() || at->second.attempt != displace->attempt) return;
      Run& run = at->second;
      const bool is_refused = displace->is_displaced && run.presence == Presence::kHere && !run.can_park;
      if (!is_refused) {
        run.presence = displace->is_displaced ? Presence::kAway : Presence::kHere;
        run.gpus = displace->gpus;
      }
      Report(displace->job, is_refused ? "the host memory is full" : "");
    } else if (const auto* stop = std::get_if<StopCommand>(&command)) {
      End(stop->job, 143);
    }
  }
  void Report(JobId job, const std::string& why = "") {
    const Run& run = runs.at(job);
    if (run.is_parkable) controller_->OnPresence({job, run.attempt, run.presence, run.gpus, run.can_park, why}, now);
  }
  void End(JobId job, int code = 0) {
    const auto at = runs.find(job);
    if (at == runs.end()) return;
    Exit exit;
    exit.code = code;
    const std::uint32_t attempt = at->second.attempt;
    runs.erase(at);
    controller_->OnExited(job, attempt, exit, now, now);
  }
  /// The daemon is killed: what is not durable is lost, commands as well, and the node reports what it has.
  void Restart() {
    controller_->TakeEffects();
    commands.clear();
    controller_ = Made();
    controller_->Load({rows_.begin(), rows_.end()}, {settings.begin(), settings.end()}, next_id_, 0,
                      World::NoHistory());
    EXPECT_EQ(controller_->CheckInvariants(), "");
    std::vector<JobId> lost;
    for (const auto& [id, row] : rows_) {
      if (IsActive(row.state) && row.array_count == 0 && (!runs.contains(id) || runs.at(id).attempt != row.attempt))
        lost.push_back(id);
    }
    for (const JobId job : lost)
      controller_->OnVanished(job, controller_->Find(job)->attempt, Controller::Vanished::kNeverStarted, now);
    for (const auto& [job, run] : runs) {
      controller_->OnStarted(job, run.attempt, now);
      Report(job);
    }
  }
  /// Until nothing changes any more at this moment.
  void Settle() {
    do {
      Turn();
      if (commands.empty()) break;
      Obey();
    } while (true);
  }
  /// The same, but the controller decides after each command that the node has carried out.
  void SettleOneByOne() {
    for (int i = 0; i < 1000; ++i) {
      Turn();
      if (commands.empty()) return;
      const NodeCommand command = std::move(commands.front());
      commands.pop_front();
      Obey(command);
      CheckOwners();
    }
    ADD_FAILURE() << "it never ends";
  }
  void Pass(Duration time) {
    now += time;
    Settle();
  }

  /// A job that has started and run for 10 hours, so that it may be parked for others.
  JobId SubmitPastItsTrial(const Ask& ask = {}) {
    const JobId job = Submit(ask);
    Settle();
    EXPECT_TRUE(Runs(job));
    Pass(10h);
    return job;
  }

  const JobRecord& Of(JobId job) const { return controller_->live().at(job); }
  const Displacement& StateOf(JobId job) const { return *controller_->time_sharer().Find(Of(job)); }
  bool Runs(JobId job) const { return runs.contains(job) && runs.at(job).presence == Presence::kHere; }
  bool IsAway(JobId job) const { return runs.contains(job) && runs.at(job).presence == Presence::kAway; }
  Controller& controller() { return *controller_; }

  Time now = Time(500'000h);
  std::map<JobId, Run> runs;  // On the node.
  std::deque<NodeCommand> commands;
  std::map<std::string, std::string> settings;  // In the store.

 private:
  std::unique_ptr<Controller> Made() const {
    auto made = std::make_unique<Controller>(policy_, Limits{.max_queued = 1000, .max_queued_of_user = 1000}, 1);
    NodeCapacity capacity;
    for (int i = 0; i < gpus_; ++i) {
      GpuFacts facts;
      facts.index = static_cast<GpuIndex>(i);
      facts.memory_total = Bytes(80 * kGibibyte);
      capacity.gpus.push_back(facts);
    }
    capacity.cpus = 64;
    capacity.memory = Bytes(host_gib_ * kGibibyte);
    made->SetCapacity(capacity);
    return made;
  }

  int gpus_;
  std::int64_t host_gib_;
  Policy policy_;
  std::unique_ptr<Controller> controller_;
  Caller ada_;
  std::map<JobId, JobRecord> rows_;
  std::uint64_t next_id_ = 1;
};

TEST(TimeSharing, ANewcomerStartsOnTheGpuOfALongJobWhichThenReturns) {
  Shared world(1);
  const JobId lengthy = world.Submit();
  world.Settle();
  ASSERT_TRUE(world.Runs(lengthy));
  world.Pass(10h);
  const JobId brief = world.Submit();
  world.Turn();
  ASSERT_EQ(world.commands.size(), 1u) << "the newcomer starts only when the GPU is free";
  EXPECT_TRUE(std::get<DisplaceCommand>(world.commands[0]).is_displaced);
  EXPECT_EQ(world.Of(lengthy).gpus, GpuSet::Only(0)) << "it has its GPU until it is away";
  world.Settle();
  EXPECT_TRUE(world.IsAway(lengthy));
  EXPECT_TRUE(world.Runs(brief));
  EXPECT_TRUE(world.Of(lengthy).gpus.empty());
  EXPECT_EQ(world.Of(lengthy).state, JobState::kRunning);
  EXPECT_NE(world.Of(brief).start_reason.find("parked for it: job 1 of ada"), std::string::npos)
      << world.Of(brief).start_reason;
  world.Pass(3min);
  EXPECT_EQ(world.controller().time_sharer().ReasonOf(world.Of(lengthy), world.now),
            "parked for job 2 of ada for 3 min; it returns within 2 h 7 min");
  world.End(brief);
  world.Settle();
  EXPECT_TRUE(world.Runs(lengthy));
  EXPECT_EQ(world.Of(lengthy).gpus, GpuSet::Only(0));
  EXPECT_EQ(world.StateOf(lengthy).lost, Duration(3min));
  EXPECT_EQ(world.Of(lengthy).reason, world.Of(lengthy).start_reason);
}

TEST(TimeSharing, NewcomersThatArriveOneAfterTheOtherStartOnTheSameIdleGpu) {
  Shared world(1);
  const JobId lengthy = world.SubmitPastItsTrial();
  const JobId first = world.Submit();
  world.Turn();
  world.Pass(3s);  // The park takes 3 s.
  ASSERT_TRUE(world.Runs(first));
  world.Pass(20s);
  world.End(first);
  world.Settle();
  EXPECT_TRUE(world.IsAway(lengthy)) << "for as long as its return and another park would take";
  world.Pass(2s);
  const JobId second = world.Submit();
  world.Turn();
  ASSERT_EQ(world.commands.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<LaunchCommand>(world.commands[0])) << "it starts at once";
  world.Settle();
  EXPECT_NE(world.Of(second).start_reason.find("parked for it: job 1 of ada"), std::string::npos);
  EXPECT_EQ(world.Of(lengthy).reason, "parked for job 3 of ada");
  const auto status = world.controller().time_sharer().StatusOf(world.Of(lengthy), world.now);
  ASSERT_TRUE(status);
  EXPECT_EQ(status->parked_for, "3");
  EXPECT_EQ(status->lost, Duration(25s));
  world.Pass(10s);
  world.End(second);
  world.Settle();
  EXPECT_EQ(world.controller().time_sharer().next_change(), world.now + 6s);
  world.Pass(6s);
  ASSERT_TRUE(world.Runs(lengthy));
  const TimeSharingTotals totals = world.controller().time_sharer().TotalsAt(world.now);
  EXPECT_EQ(totals.past_trial, 1);
  EXPECT_EQ(totals.parked + totals.on_trial, 0);
  EXPECT_EQ(totals.parks, 1u);
  EXPECT_EQ(totals.lost, Duration(41s));
}

TEST(TimeSharing, AJobWhoseCopiesAreFastIsParkedAgainSoon) {
  Shared world(1);
  const JobId lengthy = world.SubmitPastItsTrial();
  const JobId first = world.Submit();
  world.Turn();
  world.Pass(1s);
  world.End(first);
  world.Settle();
  world.Pass(2s);
  ASSERT_TRUE(world.Runs(lengthy));
  const JobId second = world.Submit();
  // Copies took 1 s each way, so it runs for 12 s. Before anything is measured, it would run for two minutes.
  world.Pass(11s);
  EXPECT_FALSE(world.Runs(second));
  EXPECT_EQ(world.controller().time_sharer().next_change(), world.now + 1s);
  world.Pass(1s);
  EXPECT_TRUE(world.Runs(second));
}

TEST(TimeSharing, AfterARestartTheTimeOfTheReturnStandsForThatOfThePark) {
  Shared world(1);
  const JobId lengthy = world.SubmitPastItsTrial();
  const JobId first = world.Submit();
  world.Settle();
  world.Restart();
  world.Settle();
  ASSERT_TRUE(world.IsAway(lengthy));
  world.End(first);
  world.Turn();
  world.Pass(1s);  // The return takes 1 s.
  ASSERT_TRUE(world.Runs(lengthy));
  const JobId second = world.Submit();
  world.Pass(11s);
  EXPECT_FALSE(world.Runs(second));
  world.Pass(1s);
  EXPECT_TRUE(world.Runs(second));
}

TEST(TimeSharing, AutomaticIsOnOnlyWhereParkingIsKnownToWork) {
  Policy policy = Sharing();
  policy.time_sharing.mode = TimeSharingMode::kAuto;
  Shared real(1, policy);
  real.controller().SetOwnGpuSource("NVML (driver 550.54)");
  const JobId lengthy = real.SubmitPastItsTrial();
  EXPECT_FALSE(real.runs.at(lengthy).is_parkable);
  EXPECT_FALSE(real.controller().time_sharer().StatusOf(real.Of(lengthy), real.now));
  real.Submit();
  real.Settle();
  EXPECT_TRUE(real.Runs(lengthy));
  EXPECT_EQ(real.controller().time_sharer().ModeText(),
            "auto: off, because parking was not tested with these GPUs; mode = \"on\" uses it all the same");

  Shared emulated(1, policy);
  emulated.controller().SetOwnGpuSource("emulated: 1xH100-80GB");
  const JobId parked = emulated.SubmitPastItsTrial();
  emulated.Submit();
  emulated.Settle();
  EXPECT_TRUE(emulated.IsAway(parked));
  EXPECT_EQ(emulated.controller().time_sharer().ModeText(), "auto: on");
}

TEST(TimeSharing, WithTheModeOffNothingIsParked) {
  Policy policy = Sharing();
  policy.time_sharing.mode = TimeSharingMode::kOff;
  Shared world(1, policy);
  const JobId lengthy = world.Submit();
  world.Settle();
  EXPECT_FALSE(world.runs.at(lengthy).is_parkable);
  world.Pass(100h);
  world.Submit();
  world.Settle();
  EXPECT_TRUE(world.Runs(lengthy));
  EXPECT_EQ(world.runs.size(), 1u);
}

TEST(TimeSharing, AJobOnTrialIsNotParked) {
  Shared world(1);
  const JobId first = world.Submit();
  world.Settle();
  world.Pass(3h);
  const JobId second = world.Submit();
  world.Settle();
  EXPECT_TRUE(world.Runs(first));
  // Four hours of trial, and then a budget that is worth a displacement.
  world.Pass(2h);
  EXPECT_TRUE(world.IsAway(first)) << "time alone makes it so";
  EXPECT_TRUE(world.Runs(second));
}

TEST(TimeSharing, JobsThatInsistOnTheirGpusAreNotParked) {
  Shared world(2);
  const JobId keeps = world.Submit({.no_pause = true}), foreground = world.Submit({.is_foreground = true});
  world.Settle();
  EXPECT_FALSE(world.runs.at(keeps).is_parkable);
  world.Pass(100h);
  world.Submit();
  world.Settle();
  EXPECT_TRUE(world.Runs(keeps));
  EXPECT_TRUE(world.Runs(foreground));
  EXPECT_EQ(world.runs.size(), 2u);
}

TEST(TimeSharing, AJobOfHigherPriorityIsNotParked) {
  Shared world(1);
  const JobId high = world.Submit({.priority = 1});
  world.Settle();
  world.Pass(100h);
  world.Submit();
  world.Settle();
  EXPECT_TRUE(world.Runs(high));
}

TEST(TimeSharing, AOneGpuJobIsParkedBeforeAWideOne) {
  Shared world(8);
  const JobId wide = world.Submit({.gpus = 7}), narrow = world.Submit();
  world.Settle();
  world.Pass(100h);
  const JobId brief = world.Submit();
  world.Settle();
  EXPECT_TRUE(world.Runs(brief));
  EXPECT_TRUE(world.Runs(wide));
  EXPECT_TRUE(world.IsAway(narrow));
}

TEST(TimeSharing, AParkThatFailsLeavesTheJobOnItsGpuAndTheNewcomerWaits) {
  Shared world(1);
  const JobId lengthy = world.SubmitPastItsTrial();
  world.runs.at(lengthy).can_park = false;
  const JobId brief = world.Submit();
  world.Settle();
  EXPECT_TRUE(world.Runs(lengthy));
  EXPECT_FALSE(world.runs.contains(brief));
  EXPECT_EQ(world.StateOf(lengthy).why, "the host memory is full");
  EXPECT_FALSE(world.StateOf(lengthy).is_displaced());
  world.runs.at(lengthy).can_park = true;
  world.Report(lengthy);
  world.Settle();
  EXPECT_TRUE(world.Runs(lengthy)) << "not again at once";
  world.Pass(5min);
  EXPECT_TRUE(world.Runs(brief));
}

TEST(TimeSharing, WithoutHostMemoryNothingIsParked) {
  Shared world(1, Sharing(), 120);  // For the content of one GPU, but not for the newcomer's too.
  const JobId lengthy = world.SubmitPastItsTrial();
  const JobId brief = world.Submit();
  world.Settle();
  EXPECT_TRUE(world.Runs(lengthy));
  EXPECT_FALSE(world.runs.contains(brief));
}

TEST(TimeSharing, TheContractBringsTheJobBackAlthoughTheNewcomerRuns) {
  Shared world(1);
  const JobId lengthy = world.SubmitPastItsTrial();
  const JobId other = world.Submit();
  world.Settle();
  ASSERT_TRUE(world.IsAway(lengthy));
  // 20 % of 10 hours, and 10 minutes.
  const Time due = world.now + 2h + 10min;
  for (; world.now < due; world.Pass(10s)) {
    const time_sharing::JobView view = ViewOf(world.Of(lengthy), world.StateOf(lengthy), world.now);
    ASSERT_GE(time_sharing::BudgetLeft(view, OptionsOf(Sharing().time_sharing)), Duration(0));
  }
  EXPECT_TRUE(world.Runs(lengthy));
  EXPECT_TRUE(world.IsAway(other));
  world.Pass(1h);
  EXPECT_TRUE(world.Runs(lengthy)) << "it runs undisturbed until it may lose something again";
  world.End(lengthy);
  world.Settle();
  EXPECT_TRUE(world.Runs(other));
}

// Two jobs make room for a wide one, and the first of them is away before the second.
TEST(TimeSharing, AWideJobGetsAllItsGpusBackAlthoughTheyAreFreeOneAfterTheOther) {
  Shared world(8);
  const JobId wide = world.SubmitPastItsTrial({.gpus = 8});
  const JobId left = world.Submit({.gpus = 4}), right = world.Submit({.gpus = 4});
  world.Settle();
  ASSERT_TRUE(world.IsAway(wide) && world.Runs(left) && world.Runs(right));
  for (int i = 0; i < 2000 && world.commands.empty(); ++i) {
    world.now += 10s;
    world.Turn();
  }
  ASSERT_EQ(world.commands.size(), 2u) << "both make room";
  world.SettleOneByOne();
  EXPECT_TRUE(world.Runs(wide));
  EXPECT_TRUE(world.IsAway(left) && world.IsAway(right));
}

TEST(TimeSharing, AJobThatCannotBeParkedDoesNotTakeTheGpusOfASettledOne) {
  Shared world(8);
  const JobId wide = world.SubmitPastItsTrial({.gpus = 8});
  const JobId brief = world.Submit(), insists = world.Submit({.no_pause = true});
  world.SettleOneByOne();
  ASSERT_TRUE(world.IsAway(wide) && world.Runs(brief));
  EXPECT_FALSE(world.runs.contains(insists)) << "seven GPUs are idle, but it would keep one";
  const JobId other = world.Submit();
  world.SettleOneByOne();
  EXPECT_TRUE(world.Runs(other)) << "it gives its GPU back when the contract requires it";
  world.End(brief);
  world.End(other);
  world.SettleOneByOne();
  EXPECT_TRUE(world.Runs(wide));
  EXPECT_FALSE(world.runs.contains(insists));
  world.End(wide);
  world.SettleOneByOne();
  EXPECT_TRUE(world.Runs(insists));
}

TEST(TimeSharing, AJobThatDoesNotLeaveIsGivenUpAndTheTimeCounts) {
  Shared world(1);
  const JobId lengthy = world.SubmitPastItsTrial();
  const JobId brief = world.Submit();
  world.Turn();
  ASSERT_EQ(world.commands.size(), 1u);
  world.commands.clear();
  world.controller().OnPresence({lengthy, 1, Presence::kLeaving, GpuSet::Only(0), false, ""}, world.now);
  world.Turn();
  EXPECT_TRUE(world.commands.empty());
  world.now += 10min;
  world.Turn();
  ASSERT_EQ(world.commands.size(), 1u);
  EXPECT_FALSE(std::get<DisplaceCommand>(world.commands[0]).is_displaced);
  EXPECT_EQ(std::get<DisplaceCommand>(world.commands[0]).gpus, GpuSet::Only(0)) << "the GPU that it has";
  world.SettleOneByOne();
  EXPECT_TRUE(world.Runs(lengthy));
  EXPECT_EQ(world.StateOf(lengthy).lost, Duration(10min));
  EXPECT_FALSE(world.runs.contains(brief)) << "it is not tried again at once";
}

TEST(TimeSharing, ANodeThatRefusesForGoodIsNotAskedAllTheTime) {
  Shared world(1);
  const JobId lengthy = world.SubmitPastItsTrial();
  const JobId brief = world.Submit();
  world.Settle();
  ASSERT_TRUE(world.IsAway(lengthy));
  world.End(brief);
  world.Turn();
  // Other commands, such as a new time limit, do not count.
  const auto displacements = [&] {
    return std::ranges::count_if(
        world.commands, [](const NodeCommand& command) { return std::holds_alternative<DisplaceCommand>(command); });
  };
  ASSERT_EQ(displacements(), 1) << "it returns";
  world.commands.clear();
  const PresenceReport failed{lengthy, 1, Presence::kAway, {}, false, "the driver gave up"};
  for (int i = 0; i < 3; ++i) {
    world.controller().OnPresence(failed, world.now);
    world.Turn();
    EXPECT_EQ(displacements(), 0);
  }
  world.now += 30s;
  world.Turn();
  EXPECT_EQ(displacements(), 1);
}

TEST(TimeSharing, AJobWhoseRowIsLostReturns) {
  Shared world(1);
  const JobId lengthy = world.SubmitPastItsTrial();
  const JobId brief = world.Submit();
  world.Settle();
  ASSERT_TRUE(world.IsAway(lengthy));
  world.settings.erase(std::string(kDisplacementPrefix) + ToString(lengthy));
  world.Restart();
  world.Settle();
  EXPECT_TRUE(world.IsAway(lengthy));
  world.End(brief);
  world.Settle();
  EXPECT_TRUE(world.Runs(lengthy));
}

TEST(TimeSharing, AParkedJobIsCancelled) {
  Shared world(1);
  const JobId lengthy = world.SubmitPastItsTrial();
  const JobId brief = world.Submit();
  world.Settle();
  Caller ada;
  ada.user = {1000, 1000, "ada"};
  EXPECT_FALSE(world.controller().Pause(lengthy, ada, world.now)) << "it is not on a GPU";
  ASSERT_TRUE(world.controller().Cancel(lengthy, 0, Duration(-1), "", ada, world.now));
  world.Settle();
  EXPECT_EQ(world.controller().Find(lengthy), nullptr);
  EXPECT_TRUE(world.Runs(brief));
  world.End(brief);
  world.Settle();
  EXPECT_TRUE(world.runs.empty());
  EXPECT_EQ(world.controller().scheduler().memory_claimed(), Bytes(0)) << "its host memory is free";
}

TEST(TimeSharing, AParkedJobThatIsBeingStoppedKeepsTheReasonForThatWhenOthersTakeItsGpu) {
  Shared world(1);
  const JobId lengthy = world.SubmitPastItsTrial();
  const JobId first = world.Submit();
  world.Settle();
  ASSERT_TRUE(world.IsAway(lengthy));
  Caller ada;
  ada.user = {1000, 1000, "ada"};
  ASSERT_TRUE(world.controller().Cancel(lengthy, 0, Duration(-1), "", ada, world.now));
  world.Turn();
  const std::string reason = world.Of(lengthy).reason;
  world.commands.clear();  // Its node has not stopped it yet.
  world.End(first);
  const JobId second = world.Submit();
  world.Turn();
  EXPECT_EQ(world.Of(second).gpus, GpuSet::Only(0));
  EXPECT_EQ(world.Of(lengthy).reason, reason);
}

TEST(TimeSharing, TheNewcomerIsCancelledWhileRoomIsMade) {
  Shared world(1);
  const JobId lengthy = world.SubmitPastItsTrial();
  const JobId brief = world.Submit();
  world.Turn();
  Caller ada;
  ada.user = {1000, 1000, "ada"};
  ASSERT_TRUE(world.controller().Cancel(brief, 0, Duration(-1), "", ada, world.now));
  world.Settle();
  EXPECT_TRUE(world.Runs(lengthy));
}

TEST(TimeSharing, ATimeLimitDoesNotCountWhileTheJobIsParked) {
  Shared world(1);
  const JobId lengthy = world.SubmitPastItsTrial({.time_limit = 12h});
  const JobId brief = world.Submit();
  world.Settle();
  ASSERT_TRUE(world.IsAway(lengthy));
  EXPECT_EQ(LimitOnNode(world.Of(lengthy)), Duration(0)) << "its node enforces none meanwhile";
  EXPECT_EQ(world.Of(lengthy).time_limit, Duration(12h)) << "it is shown as it is";
  world.Pass(1h);
  world.End(brief);
  world.Settle();
  EXPECT_EQ(world.Of(lengthy).time_limit, Duration(13h));
}

TEST(TimeSharing, AReportThatContradictsTheStoreIsAnsweredWithTheCommandThatRestoresIt) {
  Shared world(1);
  const JobId lengthy = world.SubmitPastItsTrial();
  const JobId brief = world.Submit();
  world.Settle();
  ASSERT_TRUE(world.IsAway(lengthy));
  // The keeper says that it has its GPU again: it must leave at once.
  world.controller().OnPresence({lengthy, 1, Presence::kHere, GpuSet::Only(0), true, ""}, world.now);
  world.Turn();
  ASSERT_EQ(world.commands.size(), 1u);
  EXPECT_TRUE(std::get<DisplaceCommand>(world.commands[0]).is_displaced);
  world.Obey();
  // The running one is reported as parked: it gets its GPU back.
  world.controller().OnPresence({brief, 1, Presence::kAway, {}, false, ""}, world.now);
  world.Turn();
  ASSERT_EQ(world.commands.size(), 1u);
  EXPECT_EQ(std::get<DisplaceCommand>(world.commands[0]).gpus, GpuSet::Only(0));
  // A report of another run, or from another node, means nothing.
  world.Obey();
  world.controller().OnPresence({brief, 7, Presence::kAway, {}, false, ""}, world.now);
  world.controller().OnPresence({brief, 1, Presence::kAway, {}, false, ""}, world.now, "n9");
  world.Turn();
  EXPECT_TRUE(world.commands.empty());
}

// The daemon is killed between each two steps: before a commit, after it, and before and after each command.
TEST(TimeSharing, AKilledDaemonContinuesAtEveryStep) {
  for (int kill_at = 0; kill_at < 16; ++kill_at) {
    SCOPED_TRACE("killed at step " + std::to_string(kill_at));
    Shared world(1);
    int step = 0;
    const auto may_kill = [&] {
      if (step++ == kill_at) world.Restart();
    };
    const auto settle = [&] {
      for (int i = 0; i < 20; ++i) {
        world.Turn();
        may_kill();
        if (world.commands.empty()) continue;
        const NodeCommand command = world.commands.front();
        world.commands.pop_front();
        world.Obey(command);
        world.CheckOwners();
        may_kill();
      }
    };
    const JobId lengthy = world.SubmitPastItsTrial();
    world.Turn();
    const JobId brief = world.Submit();
    world.Turn();
    may_kill();
    settle();
    world.Pass(2min);
    ASSERT_TRUE(world.Runs(brief));
    ASSERT_TRUE(world.IsAway(lengthy));
    world.End(brief);
    step = kill_at >= 8 ? kill_at - 8 : 100;
    settle();
    world.Pass(2min);
    EXPECT_TRUE(world.Runs(lengthy));
    EXPECT_EQ(world.controller().Find(brief), nullptr);
  }
}

// Random jobs, ends, failures, restarts and delays. Shared checks after every turn that no GPU has two owners.
TEST(TimeSharing, NothingIsLostUnderRandomEvents) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const auto below = [&](int n) { return static_cast<int>(random() % static_cast<std::uint64_t>(n)); };
    Policy policy = Sharing();
    policy.time_sharing.trial = 1h;
    Shared world(4, policy, below(2) == 0 ? 4096 : 900);
    std::set<JobId> all;
    for (int step = 0; step < 400 && !testing::Test::HasFailure(); ++step) {
      switch (below(12)) {
        case 0:
        case 1:
          if (all.size() < 40) all.insert(world.Submit({.gpus = 1 << below(3), .no_pause = below(8) == 0}));
          break;
        case 2:
          if (!world.runs.empty() && below(3) == 0) {
            const JobId job = std::next(world.runs.begin(), below(static_cast<int>(world.runs.size())))->first;
            world.End(job);
            all.erase(job);
          }
          break;
        case 3:
          if (!world.runs.empty()) {
            auto& [job, run] = *std::next(world.runs.begin(), below(static_cast<int>(world.runs.size())));
            run.can_park = below(4) != 0;
            if (run.presence == Presence::kHere) world.Report(job);
          }
          break;
        case 4:
          if (below(4) == 0) world.Restart();
          break;
        case 5:
        case 6:
          world.now += std::chrono::minutes(below(200));
          break;
        default:
          if (!world.commands.empty()) {
            const NodeCommand command = world.commands.front();
            world.commands.pop_front();
            world.Obey(command);
          }
      }
      world.Turn();
    }
    // Every job gets its turn in the end.
    for (auto& [job, run] : world.runs) {
      run.can_park = true;
      if (run.presence == Presence::kHere) world.Report(job);
    }
    for (int i = 0; i < 200 && !all.empty(); ++i) {
      world.Pass(5min);
      for (const JobId job : std::set<JobId>(all)) {
        if (!world.Runs(job) || below(2) == 0) continue;
        world.End(job);
        all.erase(job);
      }
    }
    EXPECT_TRUE(all.empty()) << all.size() << " jobs never ran to their end, such as " << all.begin()->value();
    world.Settle();
    EXPECT_EQ(world.controller().scheduler().memory_claimed(), Bytes(0));
    ASSERT_FALSE(testing::Test::HasFailure());
  }
}

// Settled jobs never lose more than the contract, whatever short and long jobs arrive.
TEST(TimeSharing, TheContractIsKeptAtEveryMoment) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const auto below = [&](int n) { return static_cast<int>(random() % static_cast<std::uint64_t>(n)); };
    Policy policy = Sharing();
    policy.time_sharing.trial = 2h;
    Shared world(8, policy, 1 << 16);
    int displacements = 0;
    for (int step = 0; step < 1500 && !testing::Test::HasFailure(); ++step) {
      if (world.controller().live().size() < 24 && below(3) == 0)
        world.Submit({.gpus = 1 << below(4), .no_pause = below(12) == 0});
      if (!world.runs.empty() && below(12) == 0)
        world.End(std::next(world.runs.begin(), below(static_cast<int>(world.runs.size())))->first);
      // In short steps, as the controller asks to be called.
      world.SettleOneByOne();
      const Time next = std::min(world.controller().next_wakeup(), world.now + std::chrono::minutes(below(60)));
      world.now = std::max(next, world.now + 1s);
      for (const auto& [job, run] : world.runs) {
        if (!run.is_parkable) continue;
        const Displacement& state = world.StateOf(job);
        if (state.settled_at == kNoTime) continue;
        displacements += run.presence == Presence::kAway;
        const time_sharing::JobView view = ViewOf(world.Of(job), state, world.now);
        EXPECT_GE(time_sharing::BudgetLeft(view, OptionsOf(policy.time_sharing)), Duration(0))
            << "job " << job.value() << " lost " << view.lost_settled / 1s << " s of " << view.ran / 1s;
      }
    }
    EXPECT_GT(displacements, 0);
  }
}

// --- Trials of sweeps that are parked while they are paused ---------------------------------------------------------

Policy WithoutSharing() {
  Policy policy = Sharing();
  policy.time_sharing.mode = TimeSharingMode::kOff;
  return policy;
}

class ParkedTrials : public ::testing::Test {
 protected:
  static sweep::SweepRule Rule() {
    sweep::SweepRule rule;
    rule.metric = "loss";
    rule.halving = {sweep::EarlyStop::kAshaPromotion, 1, 9, 3};
    rule.parks_losers = true;
    return rule;
  }
  void Begin(std::uint32_t trials, const sweep::SweepRule& rule = Rule(), int cpus = 1, std::int64_t memory_gib = 0) {
    sweep_ = world_.SubmitSweep(rule, trials, cpus, memory_gib);
    world_.Settle();
  }
  JobId Trial(std::uint32_t ordinal) const { return ElementId(sweep_, ordinal); }
  bool Runs(std::uint32_t ordinal) const { return world_.Runs(Trial(ordinal)); }
  bool IsAway(std::uint32_t ordinal) const { return world_.IsAway(Trial(ordinal)); }
  void Measure(std::uint32_t ordinal, double epoch, double loss) {
    world_.Measure(Trial(ordinal), epoch, loss);
    world_.Settle();
  }
  JobId PromoteWithoutIdleGpus();
  const std::string& NoteOf(std::uint32_t ordinal) {
    return world_.controller().sweeps().all().at(sweep_).trials.at(ordinal).note;
  }

  Shared world_{3, WithoutSharing()};
  JobId sweep_;
};

TEST_F(ParkedTrials, AParkedTrialLeavesItsGpuToTheNextAndContinuesWhenItIsPromoted) {
  Begin(10);
  EXPECT_TRUE(world_.runs.at(Trial(0)).is_parkable) << "although time-sharing is off";
  Measure(0, 1, 0.1);
  Measure(1, 1, 0.5);
  EXPECT_TRUE(IsAway(0));
  EXPECT_TRUE(IsAway(1));
  EXPECT_TRUE(Runs(3));
  EXPECT_TRUE(Runs(4));
  EXPECT_EQ(NoteOf(0), "paused at epoch 1 until it is promoted to rung 2 of 3");
  world_.Pass(3min);
  EXPECT_EQ(world_.controller().time_sharer().ReasonOf(world_.Of(Trial(0)), world_.now),
            "parked by its sweep for 3 min; it returns when it is promoted");
  Measure(2, 1, 0.9);
  EXPECT_TRUE(IsAway(2));
  EXPECT_TRUE(Runs(0)) << "it goes before trials that have not begun";
  EXPECT_EQ(world_.Of(Trial(0)).attempt, 1u) << "the same run continues";
  EXPECT_EQ(NoteOf(0), "");
  EXPECT_FALSE(world_.runs.contains(Trial(5)));
  EXPECT_EQ(world_.Of(Trial(0)).reason, world_.Of(Trial(0)).start_reason);
}

TEST_F(ParkedTrials, IdleGpusDoNotBringATrialBackThatIsNotPromoted) {
  Begin(3);
  Measure(0, 1, 0.1);
  Measure(1, 1, 0.5);
  world_.Pass(100h);
  EXPECT_TRUE(IsAway(0));
  EXPECT_TRUE(IsAway(1));
}

TEST_F(ParkedTrials, ParkedTrialsDoNotCountAgainstTheLimitOfTheSweepButPromotedOnesDo) {
  sweep::SweepRule rule = Rule();
  rule.parallel = 1;
  Begin(10, rule);
  Measure(0, 1, 0.1);
  EXPECT_TRUE(IsAway(0));
  ASSERT_TRUE(Runs(1));
  Measure(1, 1, 0.5);
  ASSERT_TRUE(Runs(2));
  // Its report promotes trial 0. One trial may run: while this one leaves, none starts.
  world_.Measure(Trial(2), 1, 0.9);
  world_.Turn();
  EXPECT_FALSE(Runs(0));
  world_.Settle();
  EXPECT_TRUE(Runs(0));
  EXPECT_FALSE(world_.runs.contains(Trial(3))) << "the promoted one is the only one";
  world_.End(Trial(0));
  world_.Settle();
  EXPECT_TRUE(Runs(3));
}

TEST_F(ParkedTrials, AParkedTrialHoldsNoCpus) {
  Begin(4, Rule(), 21);
  ASSERT_TRUE(Runs(2));
  Measure(0, 1, 0.1);
  EXPECT_TRUE(Runs(3)) << "63 of 64 CPUs were taken";
  Measure(1, 1, 0.5);
  Measure(2, 1, 0.9);
  EXPECT_TRUE(Runs(0));
}

TEST_F(ParkedTrials, ATrialThatTheHostHasNoRoomForIsStoppedAndStartsAgain) {
  world_ = Shared(3, WithoutSharing(), 200);
  Begin(10, Rule(), 1, 40);
  Measure(0, 1, 0.1);
  EXPECT_EQ(world_.Of(Trial(0)).state, JobState::kHeld);
  EXPECT_EQ(
      NoteOf(0),
      "paused at epoch 1 until it is promoted to rung 2 of 3; it is not parked: its GPUs' memory of 80.0 GiB does "
      "not fit into the host memory: 40.0 GiB are free beside another trial");
}

TEST_F(ParkedTrials, TheyUseAtMostHalfOfTheHostMemory) {
  world_ = Shared(3, WithoutSharing(), 300);
  Begin(10);
  Measure(0, 1, 0.1);
  Measure(1, 1, 0.5);
  EXPECT_TRUE(IsAway(0));
  EXPECT_FALSE(world_.runs.contains(Trial(1)));
  EXPECT_EQ(world_.Of(Trial(1)).state, JobState::kHeld);
  EXPECT_EQ(
      NoteOf(1),
      "paused at epoch 1 until it is promoted to rung 2 of 3; it is not parked: its GPUs' memory of 80.0 GiB exceeds "
      "what paused trials may use of the host memory: they have 80.0 GiB of 150.0 GiB, half of the node's memory");
}

TEST_F(ParkedTrials, ATrialThatItsNodeCannotParkIsStoppedAndStartsAgain) {
  Begin(10);
  world_.runs.at(Trial(0)).can_park = false;  // The node has not reported it yet.
  Measure(0, 1, 0.1);
  EXPECT_EQ(world_.Of(Trial(0)).state, JobState::kHeld);
  EXPECT_EQ(NoteOf(0),
            "paused at epoch 1 until it is promoted to rung 2 of 3; it is not parked: the host memory is full");
  Measure(1, 1, 0.5);
  Measure(2, 1, 0.9);
  EXPECT_TRUE(Runs(0));
  EXPECT_EQ(world_.Of(Trial(0)).attempt, 2u);
}

TEST_F(ParkedTrials, AParkedTrialWhoseRunIsLostWaitsUntilItIsPromoted) {
  Begin(10);
  Measure(0, 1, 0.1);
  ASSERT_TRUE(IsAway(0));
  Caller root;
  root.is_admin = true;
  ASSERT_TRUE(world_.controller().Requeue(Trial(0), RequeueAs::kQueued, root, world_.now));
  world_.Settle();
  EXPECT_EQ(world_.Of(Trial(0)).state, JobState::kHeld);
  EXPECT_EQ(NoteOf(0), "paused at epoch 1 until it is promoted to rung 2 of 3; it is not parked: its run has ended");
}

// Trials 0 and 1 are parked, and trial 0 is promoted while other jobs have all GPUs. Returns one of these jobs.
JobId ParkedTrials::PromoteWithoutIdleGpus() {
  Begin(5);
  Measure(0, 1, 0.1);
  Measure(1, 1, 0.5);
  const JobId other = world_.Submit({.priority = 10});
  world_.End(Trial(2));
  world_.Settle();
  EXPECT_TRUE(world_.Runs(other));
  Measure(2, 1, 0.9);  // The last line of its output.
  EXPECT_TRUE(IsAway(0));
  return other;
}

TEST_F(ParkedTrials, APromotedTrialThatWaitsTooLongForItsNodeStartsAgain) {
  const JobId other = PromoteWithoutIdleGpus();
  world_.Pass(8min);
  EXPECT_TRUE(IsAway(0));
  const Reason reason = world_.controller().time_sharer().ReasonOf(world_.Of(Trial(0)), world_.now);
  EXPECT_NE(reason.find("; it is promoted and returns when GPUs of its node are idle; if none are within 2 min, it "
                        "starts again as a new run"),
            std::string::npos)
      << reason;
  EXPECT_LE(world_.controller().next_wakeup(), world_.now + 2min);
  world_.Pass(2min);
  world_.Pass(1s);
  EXPECT_FALSE(world_.runs.contains(Trial(0)));
  EXPECT_EQ(world_.Of(Trial(0)).state, JobState::kQueued);
  EXPECT_EQ(NoteOf(0),
            "it was promoted, and starts again as a new run: its node had no idle GPUs and CPUs for it within 10 min");
  world_.End(other);
  world_.Settle();
  EXPECT_TRUE(Runs(0));
  EXPECT_EQ(world_.Of(Trial(0)).attempt, 2u);
  Measure(0, 1, 0.1);
  EXPECT_TRUE(Runs(0)) << "a rung that it has passed does not count twice";
}

TEST_F(ParkedTrials, APromotedTrialWaitsAtLeastAsLongAsItHasTrained) {
  Begin(5);
  world_.Pass(1h);
  Measure(0, 1, 0.1);
  Measure(1, 1, 0.5);
  world_.Submit({.priority = 10});
  world_.End(Trial(2));
  world_.Settle();
  Measure(2, 1, 0.9);
  world_.Pass(59min);
  world_.Restart();
  world_.Settle();
  EXPECT_TRUE(IsAway(0));
  world_.Pass(59min);
  EXPECT_TRUE(IsAway(0)) << "the time counts from the restart of the controller";
  world_.Pass(1min);
  world_.Pass(1s);
  EXPECT_FALSE(world_.runs.contains(Trial(0)));
}

TEST_F(ParkedTrials, APromotedTrialReturnsAsSoonAsAGpuIsIdle) {
  const JobId other = PromoteWithoutIdleGpus();
  world_.Pass(9min);
  world_.End(other);
  world_.Settle();
  EXPECT_TRUE(Runs(0));
  EXPECT_EQ(world_.Of(Trial(0)).attempt, 1u);
  world_.Pass(1h);
  EXPECT_TRUE(Runs(0));
  EXPECT_EQ(NoteOf(0), "");
}

TEST_F(ParkedTrials, TheDecisionToParkSurvivesAKillAndSoDoesThePromotion) {
  Begin(10);
  world_.Measure(Trial(0), 1, 0.1);
  world_.Turn();  // It is durable. The command is lost.
  ASSERT_FALSE(IsAway(0));
  world_.Restart();
  world_.Settle();
  EXPECT_TRUE(IsAway(0));
  Measure(1, 1, 0.5);
  world_.Restart();
  world_.Settle();
  EXPECT_TRUE(IsAway(0));
  EXPECT_TRUE(IsAway(1));
  EXPECT_TRUE(Runs(4)) << "the parked ones hold nothing after the restart either";
  world_.Measure(Trial(2), 1, 0.9);
  world_.Turn();
  world_.Restart();
  world_.Settle();
  EXPECT_TRUE(Runs(0));
  EXPECT_TRUE(IsAway(2));
  EXPECT_EQ(world_.Of(Trial(0)).attempt, 1u);
}

TEST_F(ParkedTrials, AFailureToParkThatAKillHidesIsFoundAgain) {
  Begin(10);
  world_.runs.at(Trial(0)).can_park = false;
  world_.Measure(Trial(0), 1, 0.1);
  world_.Turn();
  world_.Obey();  // The refusal of the node arrives, but what follows from it is not durable.
  world_.Restart();
  world_.Settle();
  EXPECT_EQ(world_.Of(Trial(0)).state, JobState::kHeld);
  EXPECT_FALSE(world_.runs.contains(Trial(0)));
}

TEST_F(ParkedTrials, ATrialThatIsStoppedDuringAKillWasNotParked) {
  Begin(10);
  world_.runs.at(Trial(0)).can_park = false;
  world_.Report(Trial(0));
  world_.Measure(Trial(0), 1, 0.1);
  world_.Turn();
  ASSERT_EQ(world_.Of(Trial(0)).state, JobState::kStopping);
  const std::string note =
      "paused at epoch 1 until it is promoted to rung 2 of 3; it is not parked: its node cannot park it";
  EXPECT_EQ(NoteOf(0), note);
  world_.Restart();
  world_.Settle();
  world_.End(Trial(0), 143);
  world_.Settle();
  EXPECT_EQ(world_.Of(Trial(0)).state, JobState::kHeld);
  EXPECT_EQ(NoteOf(0), note);
}

TEST_F(ParkedTrials, TheyEndWithTheirSweep) {
  Begin(2);
  Measure(0, 1, 0.1);
  Measure(1, 1, 0.5);
  world_.Settle();
  EXPECT_TRUE(world_.runs.empty());
  EXPECT_FALSE(world_.controller().live().contains(sweep_));
  EXPECT_EQ(NoteOf(0), "loss 0.1 was never promoted beyond rung 1");
}

TEST_F(ParkedTrials, ATrialThatReportsTheNextRungBeforeItHasLeftStaysParked) {
  Begin(10);
  world_.Measure(Trial(0), 1, 0.1);
  world_.Measure(Trial(1), 1, 0.5);
  world_.Measure(Trial(2), 1, 0.9);  // Promotes trial 0, which is still on its GPU.
  world_.Measure(Trial(0), 3, 0.1);
  world_.Settle();
  EXPECT_TRUE(IsAway(0));
  EXPECT_TRUE(world_.controller().time_sharer().IsSetAside(world_.Of(Trial(0))));
  EXPECT_EQ(NoteOf(0), "paused at epoch 3 until it is promoted to rung 3 of 3");
}

TEST_F(ParkedTrials, WithTheModeAutoOnlyTheirSweepParksThemOnRealGpus) {
  Policy policy = Sharing();
  policy.time_sharing.mode = TimeSharingMode::kAuto;
  world_ = Shared(1, policy);
  world_.controller().SetOwnGpuSource("NVML (driver 550.54)");
  Begin(1);
  ASSERT_TRUE(world_.runs.at(Trial(0)).is_parkable);
  world_.Pass(10h);
  EXPECT_FALSE(world_.controller().time_sharer().StatusOf(world_.Of(Trial(0)), world_.now));
  const JobId other = world_.Submit();
  world_.Pass(1h);
  EXPECT_TRUE(Runs(0));
  EXPECT_FALSE(world_.Runs(other));
}

TEST_F(ParkedTrials, TimeAsideIsNoLossThatTheContractOrTheMetricsCount) {
  world_ = Shared(1, Sharing());
  sweep::SweepRule rule = Rule();
  rule.parallel = 1;
  Begin(10, rule);
  world_.Pass(10h);
  ASSERT_NE(world_.StateOf(Trial(0)).settled_at, kNoTime);
  world_.Measure(Trial(0), 1, 0.1);
  world_.Settle();
  ASSERT_TRUE(IsAway(0));
  EXPECT_EQ(world_.StateOf(Trial(0)).settled_at, kNoTime);
  EXPECT_EQ(world_.controller().time_sharer().TotalsAt(world_.now).parked, 0);
  world_.Pass(1h);
  Measure(1, 1, 0.5);
  Measure(2, 1, 0.9);
  ASSERT_TRUE(Runs(0));
  const Displacement& state = world_.StateOf(Trial(0));
  EXPECT_EQ(state.lost, Duration(1h));
  EXPECT_EQ(state.lost_aside, Duration(1h));
  EXPECT_EQ(state.lost_settled, Duration(0));
  const TimeSharingTotals totals = world_.controller().time_sharer().TotalsAt(world_.now);
  EXPECT_EQ(totals.parks, 0u);
  EXPECT_EQ(totals.lost, Duration(0));
}

TEST_F(ParkedTrials, RulesAndTrialsThatCannotBeParkedAreRefused) {
  JobSpec spec;
  spec.request.gpus = 1;
  const auto refusal = [&](const sweep::SweepRule& rule) {
    spec.labels[std::string(sweep::kRuleLabel)] = sweep::FormatRule(rule);
    const auto result = Sweeps::RuleOf(spec, 3);
    return result ? "" : result.error().message;
  };
  EXPECT_EQ(refusal(Rule()), "");
  sweep::SweepRule rule = Rule();
  rule.halving.stop = sweep::EarlyStop::kAsha;
  EXPECT_EQ(refusal(rule),
            "park_losers parks trials until they are promoted, and type asha stops losers for good; use "
            "--asha-promotion or --hyperband, or in the file type: asha_promotion or hyperband");
  spec.end_by = Time(500'000h);
  EXPECT_EQ(refusal(Rule()), "park_losers parks trials, and a job with --deadline is never parked; omit one of them");
  spec.end_by = kNoTime;
  spec.is_preemptible_set = true;
  EXPECT_NE(refusal(Rule()).find("--no-pause and --preemptible never forbid"), std::string::npos);
  spec.request.gpus = 0;
  EXPECT_NE(refusal(Rule()).find("a fixed number of whole GPUs on one node"), std::string::npos);
}

TEST_F(ParkedTrials, RowsOfEarlierReleasesAreRead) {
  Displacement state;
  state.presence = Presence::kAway;
  state.in_limit = 5min;
  state.extended = 3min;
  state.limit = 1h;
  state.set_aside = SetAside::kPromoted;
  std::string row = DisplacementRow(JobId(7), state).second;
  EXPECT_FALSE(DisplacementOfRow(row + " 3"));
  for (int numbers = 14; numbers >= 9; --numbers) {
    SCOPED_TRACE(numbers);
    const std::optional<Displacement> read = DisplacementOfRow(row);
    row.erase(row.rfind(' '));
    ASSERT_EQ(read.has_value(), numbers >= 10);
    if (!read) continue;
    EXPECT_EQ(read->set_aside, numbers >= 11 ? SetAside::kPromoted : SetAside::kNo);
    EXPECT_EQ(read->extended, numbers == 14 ? 3min : 5min);
    EXPECT_EQ(read->limit, numbers == 14 ? 1h : kAnyLimit);
  }
}

}  // namespace controller_time_sharing_test
}  // namespace divvy
