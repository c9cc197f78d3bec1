#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "control/controller/controller_test_world.h"
#include "model/same_element.h"

namespace divvy {
namespace controller_update_test {

Dependency On(DependencyKind kind, JobId job, std::optional<std::uint32_t> element = {}) {
  return {kind, job, element, Duration(0)};
}

JobChanges WaitFor(std::vector<Dependency> dependencies, bool needs_any = false) {
  JobChanges changes;
  changes.dependencies = JobChanges::Dependencies{std::move(dependencies), needs_any};
  return changes;
}

JobChanges Gpus(int count) {
  JobChanges changes;
  changes.gpus = count;
  return changes;
}

JobChanges TimeLimit(Duration limit) {
  JobChanges changes;
  changes.time_limit = limit;
  return changes;
}

JobChanges Named(std::string name) {
  JobChanges changes;
  changes.name = std::move(name);
  return changes;
}

JobChanges Command(std::string word) {
  JobSpec spec;
  spec.command = {std::move(word)};
  JobChanges changes;
  changes.spec = std::make_shared<const JobSpec>(spec);
  changes.spec_fields = {"command"};
  return changes;
}

class Update : public testing::Test {
 protected:
  /// "" or the error message.
  std::string Change(JobId job, const JobChanges& changes) { return Change(job, changes, world_.ada_); }
  std::string Change(JobId job, const JobChanges& changes, const Caller& caller) {
    const auto done = world_.controller_.Update(job, changes, caller, world_.now_, World::NoHistory());
    return done ? "" : done.error().message;
  }
  const JobRecord& Record(JobId job) { return *world_.controller_.Find(job); }
  static Caller Admin() {
    Caller admin;
    admin.is_admin = true;
    return admin;
  }
  JobId Running() {
    const JobId job = world_.Submit(1);
    EXPECT_EQ(World::Launched(world_.Turn()), std::vector{job});
    return job;
  }
  void Hold(JobId job) { ASSERT_TRUE(world_.controller_.Hold(job, world_.ada_, world_.now_)); }

  World world_{2};
};

TEST_F(Update, ChangesTheRowAndTheQueue) {
  const JobId first = Running(), second = Running(), third = world_.Submit(2);
  world_.Turn();
  world_.Exit(first, 0);
  EXPECT_TRUE(World::Launched(world_.Turn()).empty());
  EXPECT_EQ(Change(third, Gpus(1)), "");
  const Effects effects = world_.Turn();
  EXPECT_EQ(World::Launched(effects), std::vector{third});
  ASSERT_EQ(effects.batch.history.size(), 1u);
  EXPECT_EQ(effects.batch.history[0].text, "changed gpus by ada");
  EXPECT_EQ(world_.StateOf(second), JobState::kStarting);
}

TEST_F(Update, AnElementOfASweepKeepsItsName) {
  world_.controller_.SetElementNames(
      [](const JobRecord& element) { return "lr=" + std::to_string(element.array_ordinal); });
  JobSpec spec;
  spec.command = {"true"};
  spec.name = "lr={lr}";
  spec.request.gpus = 2;
  const auto array = world_.controller_.Submit(spec, 3, world_.ada_, world_.now_, World::NoHistory());
  ASSERT_TRUE(array);
  JobChanges changes;
  changes.priority = -7;
  EXPECT_EQ(Change(ElementId(array->id, 2), changes), "");
  EXPECT_EQ(Record(ElementId(array->id, 2)).name, "lr=2");
}

TEST_F(Update, HistoryShowsOldAndNewValues) {
  static_cast<void>(Running());
  static_cast<void>(Running());
  const JobId waits = world_.Submit(2);
  world_.Turn();
  JobChanges changes = Gpus(1);
  changes.priority = -7;
  changes.time_limit = std::chrono::hours(1);
  EXPECT_EQ(Change(waits, changes), "");
  EXPECT_EQ(world_.Turn().batch.history.at(0).text,
            "changed gpus, priority from 0 to -7, time from none to 3600 s by ada");
}

TEST_F(Update, RefusesWhatThisServerCanNeverProvide) {
  const JobId job = world_.Submit(2);
  EXPECT_NE(Change(job, Gpus(3)), "");
  JobChanges changes = Gpus(3);
  changes.queues_anyway = true;
  EXPECT_EQ(Change(job, changes), "");
}

TEST_F(Update, RefusesATopologyThatThisServerDoesNotHave) {
  world_.Submit(2);
  world_.Turn();
  const JobId job = world_.Submit(2);
  JobChanges changes;
  changes.topology = JobChanges::Topology{TopologyNeed::kNvlink, true};
  EXPECT_NE(Change(job, changes).find("joined by NVLink"), std::string::npos);
  EXPECT_EQ(Record(job).request.topology, TopologyNeed::kAny);
  changes.topology->is_required = false;
  EXPECT_EQ(Change(job, changes), "");
  EXPECT_EQ(Record(job).request.topology, TopologyNeed::kNvlink);
  world_.Turn();
}

TEST_F(Update, AJobThatBecameElasticStartsWithTheIdleGpus) {
  const JobId first = world_.Submit(2);
  world_.Turn();
  const JobId job = world_.Submit(1);
  JobChanges changes;
  changes.max_gpus = 2;
  changes.preemptible = Preemptible::kRequeue;
  EXPECT_EQ(Change(job, changes), "");
  EXPECT_TRUE(Record(job).is_preemptible_set);
  world_.Turn();
  world_.Exit(first, 0);
  EXPECT_EQ(World::Launched(world_.Turn()), std::vector<JobId>{job});
  EXPECT_EQ(Record(job).gpus.size(), 2);
  EXPECT_EQ(Record(job).request.gpus, 1);
}

TEST_F(Update, ChangesAllOrNothing) {
  const JobId job = world_.Submit(2);
  world_.Turn();
  JobChanges changes = Gpus(3);
  changes.name = "other";
  changes.time_limit = std::chrono::hours(1);
  const JobRecord before = Record(job);
  EXPECT_NE(Change(job, changes), "");
  EXPECT_EQ(Record(job), before);
  EXPECT_TRUE(world_.Turn().empty());
}

TEST_F(Update, ARefusedChangeOfAnElementDoesNotSplitItsArray) {
  const JobId array = world_.Submit(2, 10);
  world_.Turn();
  EXPECT_NE(Change(ElementId(array, 5), Gpus(3)), "");
  EXPECT_EQ(world_.controller_.Find(ElementId(array, 5)), nullptr);
  EXPECT_TRUE(world_.Turn().empty());
}

TEST_F(Update, AnEmptyUpdateIsAnError) { EXPECT_NE(Change(world_.Submit(1), JobChanges()), ""); }

TEST_F(Update, OtherUsersCannotUpdateAJob) {
  Caller eve;
  eve.user = {1001, 1001, "eve"};
  EXPECT_NE(Change(world_.Submit(1), Named("mine"), eve), "");
}

TEST_F(Update, ARunningJobKeepsTheSettingsThatItWasStartedWith) {
  const JobId job = Running();
  JobChanges changes = Command("other");
  changes.gpus = 2;
  changes.comment = "better";
  const std::string error = Change(job, changes);
  EXPECT_NE(error.find("is starting: its command, gpus cannot change any more"), std::string::npos) << error;
  EXPECT_EQ(Record(job).comment, "");
  JobChanges labels;
  labels.comment = "better";
  labels.name = "renamed";
  labels.retries = 3;
  EXPECT_EQ(Change(job, labels), "");
  EXPECT_EQ(Record(job).name, "renamed");
}

TEST_F(Update, TheOwnerLowersTheTimeLimitOfARunningJobAndAnAdministratorRaisesIt) {
  const JobId job = Running();
  EXPECT_EQ(Change(job, TimeLimit(std::chrono::hours(2))), "");
  EXPECT_EQ(Change(job, TimeLimit(std::chrono::hours(1))), "");
  const Effects effects = world_.Turn();
  ASSERT_EQ(effects.commands.size(), 2u);
  EXPECT_EQ(std::get<TimeLimitCommand>(effects.commands.back()).deadline, Record(job).started + std::chrono::hours(1));
  EXPECT_NE(Change(job, TimeLimit(std::chrono::hours(2))), "");
  EXPECT_NE(Change(job, TimeLimit(Duration(0))), "");
  EXPECT_EQ(Change(job, TimeLimit(std::chrono::hours(2)), Admin()), "");
  EXPECT_EQ(Change(world_.Submit(1), TimeLimit(std::chrono::hours(9))), "");
}

TEST_F(Update, OnlyAnAdministratorRaisesAPriority) {
  const JobId job = world_.Submit(1);
  JobChanges changes;
  changes.priority = 5;
  EXPECT_NE(Change(job, changes), "");
  EXPECT_EQ(Change(job, changes, Admin()), "");
  changes.priority = -5;
  EXPECT_EQ(Change(job, changes), "");
}

TEST_F(Update, OnlyAnAdministratorSubmitsWithAPositivePriority) {
  JobSpec spec;
  spec.command = {"true"};
  spec.priority = 1;
  const auto submit = [&](const Caller& caller) {
    return world_.controller_.Submit(spec, 0, caller, world_.now_, World::NoHistory());
  };
  const auto refused = submit(world_.ada_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kPermissionDenied);
  EXPECT_NE(refused.error().message.find("users_may_raise"), std::string::npos) << refused.error().message;
  EXPECT_TRUE(submit(Admin()));
  spec.priority = -1000;
  EXPECT_TRUE(submit(world_.ada_));
}

TEST_F(Update, AChangedCommandIsUsedAtTheLaunch) {
  const JobId before = Running(), job = world_.Submit(2);
  world_.Turn();
  EXPECT_EQ(Change(job, Command("first")), "");
  EXPECT_EQ(Change(job, Command("second")), "");
  EXPECT_EQ(world_.controller_.PendingSpec(job)->command, std::vector<std::string>{"second"});
  const Effects effects = world_.Turn();
  ASSERT_EQ(effects.batch.spec_updates.size(), 1u);
  EXPECT_EQ(effects.batch.spec_updates[0].second->command, std::vector<std::string>{"second"});
  world_.Exit(before, 0);
  EXPECT_EQ(World::Launched(world_.Turn()), std::vector{job});
  EXPECT_NE(Change(job, Command("third")), "");
}

TEST_F(Update, ACommandChangedRightAfterTheSubmissionIsPartOfTheInsert) {
  const JobId job = world_.Submit(2);
  EXPECT_EQ(Change(job, Command("other")), "");
  const Effects effects = world_.Turn();
  EXPECT_TRUE(effects.batch.spec_updates.empty());
  EXPECT_EQ(effects.batch.inserts[0].spec->command, std::vector<std::string>{"other"});
}

TEST_F(Update, AChangedElementGetsItsOwnSpecification) {
  const JobId array = world_.Submit(2, 10);
  world_.Turn();
  const JobId element = ElementId(array, 5);
  EXPECT_EQ(Change(element, Command("other")), "");
  const Effects effects = world_.Turn();
  ASSERT_EQ(effects.batch.inserts.size(), 1u);
  EXPECT_EQ(effects.batch.inserts[0].record.spec_of, element);
  EXPECT_EQ(effects.batch.inserts[0].spec->command, std::vector<std::string>{"other"});
}

TEST_F(Update, AnArrayUpdateReachesEveryWaitingElement) {
  const JobId array = world_.Submit(1, 5);
  world_.Turn();
  Hold(ElementId(array, 3));
  EXPECT_EQ(Change(array, Gpus(2)), "");
  EXPECT_EQ(Record(array).request.gpus, 2);
  EXPECT_EQ(Record(ElementId(array, 3)).request.gpus, 2);
  EXPECT_EQ(Record(ElementId(array, 0)).request.gpus, 1);
  EXPECT_EQ(Change(array, TimeLimit(std::chrono::hours(1))), "");
  EXPECT_EQ(Record(ElementId(array, 0)).time_limit, std::chrono::hours(1));
  world_.Turn();
}

TEST_F(Update, AnArraysNewCommandDoesNotReachStartedElements) {
  const JobId array = world_.Submit(1, 5), held = world_.Submit(1, 5);
  Hold(held);
  Hold(ElementId(held, 2));
  world_.Turn();
  const std::string error = Change(array, Command("other"));
  EXPECT_EQ(error,
            "command: 2 elements of job 1 already started with the shared settings; name those that wait: 1_[2-4]");
  EXPECT_EQ(Change(held, Command("other")), "");
}

TEST_F(Update, AnArrayLimitAppliesToArraysOnly) {
  JobChanges changes;
  changes.array_at_once = 1;
  EXPECT_EQ(Change(world_.Submit(1), changes), "at-once: job 1 is not an array");
  const JobId array = world_.Submit(1, 5);
  EXPECT_EQ(Change(array, changes), "");
  EXPECT_EQ(World::Launched(world_.Turn()).size(), 2u);  // The single job, and one element.
}

TEST_F(Update, AMetDependencyStaysMetWhenItIsNamedAgain) {
  const JobId first = Running();
  const JobId second = world_.Submit(2, 0, {On(DependencyKind::kAfterOk, first)});
  Hold(second);
  world_.Exit(first, 0);
  world_.Turn();
  EXPECT_EQ(world_.controller_.WaitingReason(Record(second)).find("waits for job"), std::string::npos);
  // The store knows how the first one ended.
  JobRecord ended;
  ended.id = first;
  ended.state = JobState::kSucceeded;
  const auto done = world_.controller_.Update(second, WaitFor({On(DependencyKind::kAfterOk, first)}), world_.ada_,
                                              world_.now_, [&](JobId) { return ended; });
  ASSERT_TRUE(done);
  ASSERT_TRUE(world_.controller_.Release(second, kNoTime, world_.ada_, world_.now_));
  EXPECT_EQ(World::Launched(world_.Turn()), std::vector{second});
}

TEST_F(Update, ADependencyThatCanNeverBeMetIsRefused) {
  const JobId job = world_.Submit(1);
  JobRecord ended;
  ended.id = JobId(77);
  ended.state = JobState::kFailed;
  JobChanges changes = WaitFor({On(DependencyKind::kAfterOk, JobId(77))});
  const auto known = [&](JobId) { return ended; };
  const auto refused = world_.controller_.Update(job, changes, world_.ada_, world_.now_, known);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "dependency: it can never be met, because job 77 failed; leave it out, or give --keep-waiting");
  changes.keeps_waiting = true;
  EXPECT_TRUE(world_.controller_.Update(job, changes, world_.ada_, world_.now_, known));
  EXPECT_NE(Change(job, WaitFor({On(DependencyKind::kAfterOk, JobId(78))})), "");
}

TEST_F(Update, EachElementThatWaitsOnItsOwnGetsItsOwnCounterpart) {
  const JobId first = world_.Submit(1, 2), next = world_.Submit(1, 2);
  const JobId array = world_.Submit(1, 2, {On(DependencyKind::kAfterOk, first, kSameElement)});
  ASSERT_EQ(Change(array, WaitFor({On(DependencyKind::kAfterOk, next, kSameElement)})), "");
  for (const std::uint32_t index : {0U, 1U}) {
    const Dependency& dependency = Record(ElementId(array, index)).dependencies.front();
    EXPECT_EQ(dependency.job, next);
    EXPECT_EQ(dependency.element, index);
  }
  // The history alone knows this array.
  const JobId past(900);
  const auto known = [&](JobId id) -> std::optional<JobRecord> {
    JobRecord ended;
    ended.id = id;
    ended.state = JobState::kSucceeded;
    if (id == past) ended.array_count = 2;
    if (id != past) ended.array = past;
    if (id != past) ended.array_index = ended.array_ordinal = static_cast<std::uint32_t>(id.value() - past.value() - 1);
    return ended;
  };
  const auto done = world_.controller_.Update(array, WaitFor({On(DependencyKind::kAfterOk, past, kSameElement)}),
                                              world_.ada_, world_.now_, known);
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(Record(ElementId(array, 1)).dependencies.front().element, 1U);
  EXPECT_EQ(Record(ElementId(array, 1)).dependencies.front().status, DependencyStatus::kSatisfied);
  // The elements of an array that was submitted without such a dependency wait together, for the whole of it.
  const JobId whole = world_.Submit(1, 2);
  ASSERT_EQ(Change(whole, WaitFor({On(DependencyKind::kAfterOk, next, kSameElement)})), "");
  EXPECT_EQ(Record(whole).dependencies.front().element, std::nullopt);
}

TEST_F(Update, TooManyDependenciesAreRefused) {
  const JobId job = world_.Submit(1), other = world_.Submit(1);
  const std::vector<Dependency> many(1001, On(DependencyKind::kAfterAny, job));
  EXPECT_NE(Change(other, WaitFor(many)).find("1001 are too many; at most 1000 are allowed"), std::string::npos);
}

TEST_F(Update, ARenamedSingletonLetsTheNextJobOfTheOldNameStart) {
  const JobId first = Running();
  const JobId second = world_.Submit(1, 0, {On(DependencyKind::kSingleton, JobId())});
  EXPECT_TRUE(World::Launched(world_.Turn()).empty());
  EXPECT_EQ(Change(first, Named("other")), "");
  EXPECT_EQ(World::Launched(world_.Turn()), std::vector{second});
}

TEST_F(Update, AnElementOfASingletonArrayDoesNotWaitForItsOwnArray) {
  const JobId array = world_.Submit(1, 2, {On(DependencyKind::kSingleton, JobId())});
  Hold(ElementId(array, 1));
  EXPECT_EQ(World::Launched(world_.Turn()), std::vector{ElementId(array, 0)});
  ASSERT_TRUE(world_.controller_.Release(ElementId(array, 1), kNoTime, world_.ada_, world_.now_));
  EXPECT_EQ(World::Launched(world_.Turn()), std::vector{ElementId(array, 1)});
}

TEST_F(Update, ShowsTheDependencyCycleThatItWouldCreate) {
  const JobId one = world_.Submit(1), two = world_.Submit(1, 0, {On(DependencyKind::kAfterAny, one)});
  const JobId three = world_.Submit(1, 0, {On(DependencyKind::kAfter, two)});
  EXPECT_EQ(Change(one, WaitFor({On(DependencyKind::kAfterOk, three)})),
            "dependency: job 1 would wait for itself: 1 after 3 after 2 after 1");
  EXPECT_EQ(Change(one, WaitFor({On(DependencyKind::kAfterOk, one)})),
            "dependency: job 1 would wait for itself: 1 after 1");
}

TEST_F(Update, FindsCyclesThroughArraysAndNames) {
  const JobId array = world_.Submit(2, 3);
  Hold(array);
  const JobId after = world_.Submit(1, 0, {On(DependencyKind::kAfterAny, array, 1)});
  EXPECT_EQ(Change(array, WaitFor({On(DependencyKind::kAfterAny, after)})),
            "dependency: job 1 would wait for itself: 1 after 5 after 1");
  EXPECT_EQ(Change(ElementId(array, 2), WaitFor({On(DependencyKind::kAfterAny, after)})), "");
  EXPECT_EQ(Change(ElementId(array, 1), WaitFor({On(DependencyKind::kAfterAny, after)})),
            "dependency: job 3 would wait for itself: 1_1 after 5 after 1_1");

  const JobId early = world_.Submit(1), late = world_.Submit(1, 0, {On(DependencyKind::kSingleton, JobId())});
  EXPECT_EQ(Change(late, Named("x")), "");
  EXPECT_EQ(Change(early, WaitFor({On(DependencyKind::kAfterAny, late)})), "");
  EXPECT_EQ(Change(early, Named("x")), "name: job 6 would wait for itself: 6 after 7 after 6 (same name)");
}

TEST_F(Update, ACycleIsAllowedIfAnotherAlternativeCanBeMet) {
  const JobId one = world_.Submit(1), two = world_.Submit(1), free = world_.Submit(1);
  for (const JobId job : {one, two, free}) Hold(job);
  EXPECT_EQ(Change(two, WaitFor({On(DependencyKind::kAfterAny, one)})), "");
  EXPECT_EQ(Change(one, WaitFor({On(DependencyKind::kAfterAny, two), On(DependencyKind::kAfterAny, free)}, true)), "");
  EXPECT_NE(Change(free, WaitFor({On(DependencyKind::kAfterAny, one)})), "");
}

TEST_F(Update, ALongListOfNodesCountsForEachElementOfAnArray) {
  JobChanges changes;
  changes.queues_anyway = true;
  changes.node_list.emplace(1000, std::string(40, 'n'));
  const JobId array = world_.Submit(1, 10'000), job = world_.Submit(1);
  Hold(array);
  EXPECT_EQ(Change(job, changes), "");
  const std::string refused = Change(array, changes);
  EXPECT_TRUE(refused.starts_with("the queued and running jobs of user ada would have 7")) << refused;
  EXPECT_TRUE(refused.ends_with("may have at most 67108864; shorten them, or use fewer elements")) << refused;
  EXPECT_TRUE(Record(array).request.node_list.empty());
  EXPECT_EQ(Change(array, changes, Admin()), "");
}

TEST_F(Update, TextsOfAllJobsOfAUserAreCounted) {
  JobSpec spec;
  spec.command = {"true"};
  spec.name = "job";
  spec.is_held = true;
  spec.comment = std::string(60'000, 'x');
  const auto submit = [&](std::uint64_t elements) {
    return world_.controller_.Submit(spec, elements, world_.ada_, world_.now_, World::NoHistory());
  };
  ASSERT_TRUE(submit(1000));
  ASSERT_TRUE(submit(100));
  EXPECT_FALSE(submit(100));
  ASSERT_TRUE(submit(0));
  world_.ada_.user = {1001, 1001, "bo"};
  EXPECT_TRUE(submit(100)) << "another user has another total";
}

}  // namespace controller_update_test
}  // namespace divvy
