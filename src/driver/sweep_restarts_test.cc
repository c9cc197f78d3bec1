// Sweeps of a controller that is killed at any point, beside the same sweep of one that is not: the same reports in the
// same order give the same verdicts. The controller is restored from the store, as the daemon does.
#include <gtest/gtest.h>

#include <csignal>
#include <map>
#include <memory>
#include <set>

#include "control/controller/controller.h"
#include "store/store_fake.h"
#include "sweep/draws.h"

namespace divvy {
namespace sweep_restarts_test {

using Phase = sweep::Halving::Phase;

class SweepWorld {
 public:
  /// `kills`: how often, of a hundred steps, the controller is killed before and after a commit.
  SweepWorld(std::uint64_t seed, int kills) : draws_(seed), kills_(kills), kill_draws_(seed + 1) { Restart(); }

  JobId Submit(const sweep::SweepRule& rule, std::uint32_t trials) {
    JobSpec spec;
    spec.command = {"train", "{lr}"};
    spec.name = "sweep";
    spec.request.gpus = 1;
    spec.parameters = {{"lr", std::vector<std::string>(trials, "0.1"), 0}};
    spec.labels[std::string(sweep::kRuleLabel)] = sweep::FormatRule(rule);
    const auto made = controller_->Submit(std::move(spec), trials, ada_, now_, Outcomes());
    EXPECT_TRUE(made) << made.error().message;
    Commit();
    return made->id;
  }

  /// Trains trials in a random order until nothing runs.
  void Run(JobId sweep, double most) {
    for (int step = 0; step < 20'000; ++step) {
      const std::vector<JobId> running = Running();
      if (running.empty()) return;
      const JobId job = running[draws_.Next() % running.size()];
      const double chance = draws_.Unit();
      now_ += std::chrono::seconds(1);
      if (chance < 0.03) {
        Apply([&](Controller& controller) { Exit(controller, job, 1); });
      } else if (epochs_[job] >= most) {
        Apply([&](Controller& controller) { Exit(controller, job, 0); });
      } else {
        // A trial that was paused trains again from its beginning.
        const double epoch = ++epochs_[job];
        const double loss = Loss(job.value() - sweep.value(), epoch);
        Apply([&](Controller& controller) { controller.OnMetrics(job, {{"epoch", epoch}, {"loss", loss}}, now_); });
      }
    }
    ADD_FAILURE() << "the sweep does not end";
  }

  /// The stored rows of sweeps.
  std::map<std::string, std::string> Rows() {
    std::map<std::string, std::string> rows;
    const auto loaded = store_->Load();
    for (const auto& [key, text] : loaded->settings) {
      if (key.starts_with(kSweepPrefix)) rows[key] = text;
    }
    return rows;
  }
  std::optional<JobRecord> Stored(JobId job) {
    auto found = store_->Find(job);
    return found ? std::optional(*found) : std::nullopt;
  }
  Controller& controller() { return *controller_; }
  int kills() const { return killed_; }
  const std::map<JobId, int>& starts() const { return starts_; }

 private:
  static double Loss(std::uint64_t trial, double epoch) {
    sweep::Draws draws(trial * 77);
    draws.Next();
    // Coarse, so that there are ties; one in twenty trials reports NaN.
    if (draws.Unit() < 0.05) return std::nan("");
    return std::floor((draws.Unit() + draws.Unit() / epoch) * 20) / 20;
  }

  FindOutcome Outcomes() {
    return [this](JobId id) { return Stored(id); };
  }
  bool IsKilled() { return static_cast<int>(kill_draws_.Next() % 100) < kills_; }

  void Restart() {
    controller_ = std::make_unique<Controller>(Policy(), Limits{.max_queued = 10'000, .max_queued_of_user = 10'000}, 1);
    NodeCapacity capacity;
    for (GpuIndex gpu = 0; gpu < 4; ++gpu) {
      GpuFacts facts;
      facts.index = gpu;
      capacity.gpus.push_back(facts);
    }
    capacity.cpus = 8;
    controller_->SetCapacity(capacity);
    auto loaded = store_->Load();
    ASSERT_TRUE(loaded);
    controller_->Load(std::move(loaded->live), loaded->settings, loaded->next_id, loaded->jobs_total, Outcomes());
  }

  /// The change survives a kill at any point: it is made again if it was not durable.
  void Apply(const std::function<void(Controller&)>& change) {
    while (IsKilled()) {
      ++killed_;
      change(*controller_);
      controller_->Decide(now_);
      Restart();
      Commit();
    }
    change(*controller_);
    Commit();
    if (!IsKilled()) return;
    ++killed_;
    Restart();
    Commit();
  }

  /// Decides and commits until nothing changes. Jobs that are asked to stop end at once.
  void Commit() {
    for (int round = 0; round < 100; ++round) {
      controller_->Decide(now_);
      EXPECT_EQ(controller_->CheckInvariants(), "");
      const Effects effects = controller_->TakeEffects();
      EXPECT_TRUE(store_->Commit({effects.batch}));
      std::vector<std::pair<JobId, int>> ends;
      for (const auto& [id, record] : controller_->live()) {
        if (record.state == JobState::kStopping) ends.emplace_back(id, 128 + SIGTERM);
      }
      for (const NodeCommand& command : effects.commands) {
        const auto* launch = std::get_if<LaunchCommand>(&command);
        if (launch == nullptr) continue;
        ++starts_[launch->record.id];
        epochs_[launch->record.id] = 0;
        controller_->OnStarted(launch->record.id, launch->record.attempt, now_);
      }
      // A kill after the commit loses the command, and the daemon gives it again: here the job is started above.
      for (const auto& [id, code] : ends) Exit(*controller_, id, code);
      if (effects.commands.empty() && ends.empty()) return;
    }
    ADD_FAILURE() << "the controller does not come to rest";
  }

  void Exit(Controller& controller, JobId job, int code) {
    divvy::Exit exit;
    exit.code = code;
    const JobRecord* record = controller.Find(job);
    if (record != nullptr) controller.OnExited(job, record->attempt, exit, now_, now_);
  }
  std::vector<JobId> Running() {
    std::vector<JobId> jobs;
    for (const auto& [id, record] : controller_->live()) {
      if (record.array_count == 0 && IsActive(record.state)) jobs.push_back(id);
    }
    return jobs;
  }

  std::unique_ptr<MemoryStore> store_ = MakeMemoryStore();
  std::unique_ptr<Controller> controller_;
  Caller ada_{{1000, 1000, "ada"}, false, {}};
  Time now_ = Time(std::chrono::hours(500'000));
  sweep::Draws draws_;
  int kills_;
  sweep::Draws kill_draws_;
  int killed_ = 0;
  std::map<JobId, double> epochs_;
  std::map<JobId, int> starts_;
};

sweep::SweepRule Rule(sweep::EarlyStop stop) {
  sweep::SweepRule rule;
  rule.metric = "loss";
  rule.halving = {stop, 1, 27, 3};
  return rule;
}

TEST(SweepRestarts, KillsDoNotChangeAnyVerdict) {
  for (const auto stop : {sweep::EarlyStop::kAsha, sweep::EarlyStop::kAshaPromotion, sweep::EarlyStop::kHyperband}) {
    for (std::uint64_t seed = 1; seed <= 2; ++seed) {
      SCOPED_TRACE(std::string(sweep::Name(stop)) + " seed " + std::to_string(seed));
      SweepWorld whole(seed, 0), killed(seed, 15);
      const JobId sweep = whole.Submit(Rule(stop), 60);
      ASSERT_EQ(killed.Submit(Rule(stop), 60), sweep);
      whole.Run(sweep, 27);
      killed.Run(sweep, 27);
      const auto rows = whole.Rows(), rows_of_killed = killed.Rows();
      EXPECT_EQ(rows_of_killed.size(), rows.size());
      for (const auto& [key, text] : rows) {
        const auto other = rows_of_killed.find(key);
        ASSERT_NE(other, rows_of_killed.end()) << key;
        EXPECT_EQ(other->second, text) << key;
      }
      EXPECT_EQ(killed.starts(), whole.starts());
      EXPECT_GT(killed.kills(), 20);
      // No trial is lost, and the array has ended well although trials were stopped.
      const auto array = killed.Stored(sweep);
      ASSERT_TRUE(array);
      EXPECT_TRUE(IsFinal(array->state)) << Name(array->state);
      EXPECT_EQ(array->array_succeeded + array->array_failed, 60U);
      EXPECT_EQ(array->array_cancelled, 0U);
    }
  }
}

}  // namespace sweep_restarts_test
}  // namespace divvy
