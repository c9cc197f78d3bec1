#include "driver/controller_driver.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "driver/notify_rows.h"
#include "store/store_fake.h"

namespace divvy {
namespace controller_driver_test {

using IfNotStored = ControllerDriver::IfNotStored;

/// A daemon without threads and processes: the loop is a queue, a commit finishes when the test says so, and commands
/// are only recorded.
class World : public NodeCommandPort {
 public:
  explicit World(int gpus) : controller_(Policy(), Limits(), 1) {
    NodeCapacity capacity;
    for (int i = 0; i < gpus; ++i) {
      GpuFacts facts;
      facts.index = static_cast<GpuIndex>(i);
      capacity.gpus.push_back(facts);
    }
    capacity.cpus = 8;
    controller_.SetCapacity(capacity);
    ada_.user = {1000, 1000, "ada"};
    ControllerDriver::Ports ports;
    ports.post = [this](std::function<void()> task) { posted_.push_back(std::move(task)); };
    ports.commit = [this](std::vector<Batch> batches, std::function<void(Status)> done) {
      commits_.emplace_back(std::move(batches), std::move(done));
    };
    ports.after = [this](Duration, std::function<void()> task) { later_.push_back(std::move(task)); };
    ports.give_up = [](const Error& error) { ADD_FAILURE() << error.message; };
    ports.may_act = [this] { return may_act_; };
    ports.on_trouble = [this](const std::string& trouble) { troubles_.push_back(trouble); };
    // Every submission causes a notice.
    ports.complete = [](Effects& effects) {
      for (const auto& insert : effects.batch.inserts)
        effects.batch.settings.emplace_back(std::string(kNoticeRow) + ToString(insert.record.id) + ".ntc", "{}");
    };
    ports.on_durable = [this](const Effects& effects) {
      for (const auto& [key, text] : effects.batch.settings) told_.push_back(key);
    };
    driver_ = std::make_unique<ControllerDriver>(controller_, *store_, clock_, *this, std::move(ports));
  }

  void Execute(const NodeCommand& command, std::shared_ptr<const JobSpec> spec) override {
    if (const auto* launch = std::get_if<LaunchCommand>(&command)) {
      EXPECT_NE(spec, nullptr);
      launched_.insert(launch->record.id);
    } else if (const auto* stop = std::get_if<StopCommand>(&command)) {
      stopped_.insert(stop->job);
    }
  }

  /// Applies a submission; its answer appears in answers_ once it is given.
  JobId Submit(int gpus, std::uint64_t elements = 0) {
    JobSpec spec;
    spec.command = {"true"};
    spec.request.gpus = gpus;
    const auto result = controller_.Submit(std::move(spec), elements, ada_, clock_.Now(), driver_->Outcomes());
    if (!result) ADD_FAILURE() << result.error().message;
    const JobId id = result ? result->id : JobId();
    Ask("submit " + ToString(id), IfNotStored::kRefuse);
    return id;
  }
  void Cancel(JobId job) {
    EXPECT_TRUE(controller_.Cancel(job, 0, Duration(-1), "", ada_, clock_.Now()));
    Ask("cancel " + ToString(job), IfNotStored::kReport);
  }
  void Exit(JobId job, int code) {
    divvy::Exit exit;
    exit.code = code;
    controller_.OnExited(job, controller_.Find(job)->attempt, exit, clock_.Now(), clock_.Now());
    driver_->Touch();
  }
  void Ask(const std::string& what, IfNotStored otherwise) {
    driver_->AfterCommit(
        [this, what](const Status& status) { answers_[what] = status ? "yes" : status.error().message; }, otherwise);
  }
  std::string AnswerOf(const std::string& what) const { return answers_.contains(what) ? answers_.at(what) : ""; }

  /// Ends the loop iteration: hands over what was applied.
  void Turn() {
    while (!posted_.empty()) {
      const auto task = std::move(posted_.front());
      posted_.pop_front();
      task();
    }
  }
  /// Finishes the commit under way; the loop iteration that reports it begins.
  void FinishCommit(bool has_room = true) {
    ASSERT_FALSE(commits_.empty());
    auto [batches, done] = std::move(commits_.front());
    commits_.pop_front();
    if (!has_room) store_->FailNextCommit();
    done(store_->Commit(batches));
  }
  void Settle() {
    for (Turn(); !commits_.empty(); Turn()) FinishCommit();
  }
  /// Lets the retry pause pass, and runs everything that is due.
  void Wait() {
    for (auto& task : std::exchange(later_, {})) task();
    Turn();
  }
  std::optional<JobState> Stored(JobId job) const {
    const auto record = store_->Find(job);
    return record ? std::optional(record->state) : std::nullopt;
  }

  FakeClock clock_{Time(std::chrono::hours(500'000))};
  std::unique_ptr<MemoryStore> store_ = MakeMemoryStore();
  Controller controller_;
  Caller ada_;
  std::unique_ptr<ControllerDriver> driver_;
  std::deque<std::function<void()>> posted_;
  std::deque<std::pair<std::vector<Batch>, std::function<void(Status)>>> commits_;
  std::vector<std::function<void()>> later_;
  std::set<JobId> launched_, stopped_;
  std::map<std::string, std::string> answers_;
  std::vector<std::string> troubles_;
  std::vector<std::string> told_;  // Notices that are durable.
  bool may_act_ = true;
};

TEST(ControllerDriver, WithoutItsLeaseNothingIsCommittedSentOrAnswered) {
  World world(2);
  const JobId first = world.Submit(1);
  world.Turn();
  world.may_act_ = false;  // While the commit is under way.
  world.FinishCommit();
  EXPECT_EQ(world.Stored(first), JobState::kStarting);
  EXPECT_TRUE(world.launched_.empty());
  EXPECT_EQ(world.AnswerOf("submit 1"), "");
  world.Submit(1);
  world.Turn();
  world.Wait();
  EXPECT_TRUE(world.commits_.empty());
  // The lease was renewed, and no other controller has led.
  world.may_act_ = true;
  world.Wait();
  world.Settle();
  EXPECT_EQ(world.AnswerOf("submit 1"), "yes");
  EXPECT_EQ(world.AnswerOf("submit 2"), "yes");
  EXPECT_EQ(world.launched_.size(), 2u);
}

TEST(ControllerDriver, NewWorkIsRefusedIfTheLeaseStaysAway) {
  World world(1);
  const JobId before = world.Submit(1);
  world.Settle();
  world.may_act_ = false;
  const JobId refused = world.Submit(1);
  world.Turn();
  world.clock_.Advance(4s);
  world.Wait();
  EXPECT_EQ(world.AnswerOf("submit 2"), "");
  world.clock_.Advance(2s);
  world.Wait();
  EXPECT_NE(world.AnswerOf("submit 2").find("cannot reach the database"), std::string::npos);
  EXPECT_NE(world.driver_->trouble(), "");
  world.Exit(before, 3);
  world.Turn();
  world.may_act_ = true;
  world.Wait();
  world.Settle();
  EXPECT_EQ(world.driver_->trouble(), "");
  EXPECT_EQ(world.Stored(before), JobState::kFailed);
  EXPECT_EQ(world.Stored(refused), std::nullopt);
  EXPECT_EQ(world.controller_.CheckInvariants(), "");
}

TEST(ControllerDriver, OtherChangesAreReportedAsNotConfirmedIfTheLeaseStaysAway) {
  World world(1);
  const JobId first = world.Submit(1);
  const JobId second = world.Submit(1);
  world.Settle();
  world.Cancel(first);
  world.Turn();
  world.may_act_ = false;
  world.FinishCommit();  // It is stored, and nobody may be told.
  world.Cancel(second);
  world.Ask("agent", IfNotStored::kWait);
  world.Turn();
  world.clock_.Advance(6s);
  world.Wait();
  EXPECT_NE(world.AnswerOf("cancel 1").find("may still be made"), std::string::npos);
  EXPECT_NE(world.AnswerOf("cancel 2").find("may still be made"), std::string::npos);
  EXPECT_EQ(world.AnswerOf("agent"), "");
  world.may_act_ = true;
  world.Wait();
  world.Settle();
  EXPECT_EQ(world.AnswerOf("agent"), "yes");
  EXPECT_EQ(world.Stored(second), JobState::kCancelled);
}

TEST(ControllerDriver, AChangeWaitsAtTheDoorUntilTheStoreAnswersOrIsRefused) {
  World world(1);
  std::vector<std::string> said;
  const auto ask = [&] {
    world.driver_->WhenStoreAnswers(
        [&](const Status& status) { said.push_back(status ? "go" : status.error().message); });
  };
  ask();
  EXPECT_EQ(said, std::vector<std::string>{"go"});
  world.may_act_ = false;
  ask();
  world.clock_.Advance(4s);
  world.Wait();
  EXPECT_EQ(said.size(), 1u);
  world.may_act_ = true;
  world.Wait();
  EXPECT_EQ(said.back(), "go");
  world.may_act_ = false;
  ask();
  world.clock_.Advance(5s);
  world.Wait();
  ASSERT_EQ(said.size(), 3u);
  EXPECT_TRUE(said.back().starts_with("nothing was changed: ")) << said.back();
}

TEST(ControllerDriver, NothingIsAnsweredOrStartedBeforeItIsDurable) {
  World world(1);
  const JobId job = world.Submit(1);
  world.Turn();
  EXPECT_EQ(world.AnswerOf("submit 1"), "");
  EXPECT_TRUE(world.launched_.empty());
  world.FinishCommit();
  EXPECT_EQ(world.AnswerOf("submit 1"), "yes");
  EXPECT_TRUE(world.launched_.contains(job));
}

TEST(ControllerDriver, AJobThatEndedInThisIterationIsFoundAsEnded) {
  World world(1);
  const JobId job = world.Submit(1);
  world.Settle();
  world.Exit(job, 7);  // The loop iteration continues: the next event is a client that waits.
  std::optional<JobRecord> seen;
  ASSERT_TRUE(world.driver_->WaitFor(job, [&](const JobRecord& record) { seen = record; }));
  const auto found = world.driver_->FindJob(job);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->state, JobState::kFailed);
  EXPECT_EQ(world.driver_->EndedUnstored().size(), 1u);
  EXPECT_FALSE(seen);  // Only once it is durable.
  world.Settle();
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->exit->code, 7);
  EXPECT_TRUE(world.driver_->EndedUnstored().empty());
}

TEST(ControllerDriver, OnAFullDiskASubmissionIsRefusedAndLeavesNothing) {
  World world(1);
  const JobId before = world.Submit(1);
  world.Settle();
  const JobId refused = world.Submit(1);
  world.Turn();
  world.FinishCommit(false);
  EXPECT_NE(world.AnswerOf("submit 2").find("the disk is full"), std::string::npos);
  EXPECT_NE(world.driver_->trouble().find("the disk is full"), std::string::npos);
  EXPECT_EQ(world.controller_.Find(refused), nullptr);

  // A running job ends meanwhile; its end is stored as soon as there is room.
  world.Exit(before, 3);
  world.Turn();
  EXPECT_EQ(world.Stored(before), JobState::kStarting);
  world.Wait();
  world.FinishCommit(false);
  world.Wait();
  world.Settle();
  EXPECT_EQ(world.Stored(before), JobState::kFailed);
  EXPECT_EQ(world.Stored(refused), std::nullopt);
  EXPECT_EQ(world.driver_->trouble(), "");
  EXPECT_EQ(world.troubles_.size(), 2u);
  EXPECT_EQ(world.controller_.CheckInvariants(), "");

  const JobId after = world.Submit(1);
  EXPECT_GT(after, refused);
  world.Settle();
  EXPECT_EQ(world.AnswerOf("submit 3"), "yes");
  EXPECT_EQ(world.launched_, (std::set{before, after}));
}

TEST(ControllerDriver, ARefusedSubmissionIsNeverDurable) {
  World world(1);
  world.Submit(1);
  world.Turn();
  // The commit for the second job fails; the third job tests whether there is room again.
  const JobId second = world.Submit(1), third = world.Submit(1);
  world.FinishCommit();
  EXPECT_TRUE(world.commits_.empty()) << "the answer to the second belongs into its commit";
  world.Turn();
  world.FinishCommit(false);
  for (const JobId job : {second, third}) {
    EXPECT_NE(world.AnswerOf("submit " + ToString(job)).find("no new work is taken"), std::string::npos);
    EXPECT_EQ(world.Stored(job), std::nullopt);
  }
}

// Iterations behind the failed commit may concern refused submissions: start, change or cancel them.
TEST(ControllerDriver, OnAFullDiskTheConsequencesOfARefusedSubmissionAreUndone) {
  World world(2);
  const JobId runs = world.Submit(2);
  world.Settle();
  const JobId waits = world.Submit(1), cancelled = world.Submit(1), array = world.Submit(1, 5);
  world.Turn();  // These jobs are being committed.
  world.Exit(runs, 0);
  world.Turn();  // The first two GPUs are given to them.
  world.Cancel(cancelled);
  const JobId late = world.Submit(0);
  world.Turn();  // One job is cancelled, and one more is submitted.
  const JobId latest = world.Submit(0);
  world.FinishCommit(false);  // The last submission is not even handed over.
  for (const JobId job : {waits, cancelled, array, late, latest}) {
    EXPECT_NE(world.AnswerOf("submit " + ToString(job)).find("no new work is taken"), std::string::npos) << job.value();
    EXPECT_EQ(world.controller_.Find(job), nullptr) << job.value();
  }
  EXPECT_EQ(world.controller_.CheckInvariants(), "");
  EXPECT_EQ(world.AnswerOf("cancel 3"), "");
  world.Turn();
  world.Wait();
  world.Settle();
  EXPECT_EQ(world.AnswerOf("cancel 3"), "yes");
  EXPECT_EQ(world.Stored(runs), JobState::kSucceeded);
  EXPECT_EQ(world.launched_, std::set{runs});
  EXPECT_TRUE(world.store_->Load()->live.empty());
  EXPECT_EQ(world.driver_->trouble(), "");
}

TEST(ControllerDriver, ANotificationIsStoredWithItsEventOrNotAtAll) {
  World world(1);
  const std::string row = std::string(kNoticeRow) + ToString(world.Submit(1)) + ".ntc";
  world.Turn();
  EXPECT_TRUE(world.told_.empty()) << "not before it is durable";
  world.FinishCommit();
  EXPECT_EQ(world.told_, std::vector<std::string>{row});
  world.Submit(1);
  world.Turn();
  world.FinishCommit(false);
  world.Turn();
  world.Wait();
  world.Settle();
  EXPECT_EQ(world.told_, std::vector<std::string>{row}) << "the second was refused";
  const auto kept = world.store_->Load();
  ASSERT_TRUE(kept);
  for (const auto& [key, text] : kept->settings) EXPECT_EQ(key, row);
}

TEST(ControllerDriver, OnAFullDiskAStopIsSentAndAnsweredOnceItIsStored) {
  World world(1);
  const JobId runs = world.Submit(1);
  world.Settle();
  world.Cancel(runs);
  world.Turn();
  EXPECT_TRUE(world.stopped_.empty());
  world.FinishCommit(false);
  EXPECT_TRUE(world.stopped_.contains(runs));  // The job may be what fills the disk.
  EXPECT_EQ(world.AnswerOf("cancel 1"), "");
  world.Ask("down", IfNotStored::kRefuse);
  world.Turn();
  world.Wait();
  world.FinishCommit(false);
  EXPECT_NE(world.AnswerOf("down").find("the disk is full"), std::string::npos);  // This answer need not wait for room.
  world.Wait();
  world.Settle();
  EXPECT_EQ(world.AnswerOf("cancel 1"), "yes");
  EXPECT_EQ(world.Stored(runs), JobState::kStopping);
}

TEST(ControllerDriver, OnAFullDiskAStopDoesNotOvertakeItsLaunch) {
  World world(1);
  const JobId first = world.Submit(1), second = world.Submit(1);
  world.Settle();
  world.Exit(first, 0);
  world.Turn();  // The second job's launch waits for this commit.
  world.Cancel(second);
  world.Turn();
  world.FinishCommit(false);
  EXPECT_TRUE(world.stopped_.empty());  // Its stop waits for the launch.
  world.Wait();
  world.Settle();
  EXPECT_TRUE(world.launched_.contains(second));
  EXPECT_TRUE(world.stopped_.contains(second));
}

TEST(ControllerDriver, OnAFullDiskACallerWaitingForARefusedJobIsNotified) {
  World world(1);
  const JobId refused = world.Submit(1);
  std::optional<JobRecord> seen;
  ASSERT_TRUE(world.driver_->WaitFor(refused, [&](const JobRecord& record) { seen = record; }));
  world.Turn();
  world.FinishCommit(false);
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->state, JobState::kCancelled);
}

}  // namespace controller_driver_test
}  // namespace divvy
