// Texts about jobs for users: public ids instead of internal ones, and why a job waits.
#include "daemon/views/views.h"

#include <gtest/gtest.h>

#include <map>

#include "daemon/telemetry/samples_test_world.h"

namespace divvy {
namespace views_test {

using namespace std::chrono_literals;

const Time kNow = TimeFromSeconds(1'000'000);

/// Array 5 has the running elements 6 (5_0) and 7 (5_1); 12 is a single job.
class Jobs {
 public:
  Jobs() {
    for (std::uint32_t ordinal : {0u, 1u}) {
      JobRecord element = Running(ElementId(JobId(5), ordinal), "sweep", static_cast<int>(ordinal));
      element.array = JobId(5);
      element.array_index = element.array_ordinal = ordinal;
      element.time_limit = 1h + 10s;
      Add(element);
    }
    JobRecord array;
    array.id = JobId(5);
    array.name = "sweep";
    array.array_count = 3;
    array.array_waiting = IndexRanges(2, 2);
    Add(array);
    Add(Running(JobId(12), "train", 2));
  }

  static JobRecord Running(JobId id, std::string name, int gpu) {
    JobRecord record;
    record.id = record.spec_of = id;
    record.name = std::move(name);
    record.user.name = "ada";
    record.state = JobState::kRunning;
    record.submitted = kNow - 20s;
    record.started = kNow - 10s;
    record.gpus.Insert(static_cast<GpuIndex>(gpu));
    return record;
  }
  void Add(const JobRecord& record) { records_[record.id] = record; }
  FindOutcome find() const {
    return [this](JobId id) -> std::optional<JobRecord> {
      const auto at = records_.find(id);
      return at == records_.end() ? std::nullopt : std::optional(at->second);
    };
  }

 private:
  std::map<JobId, JobRecord> records_;
};

JobRecord Waiting() {
  JobRecord record;
  record.id = record.spec_of = JobId(20);
  record.name = "big";
  record.user.name = "bob";
  record.state = JobState::kQueued;
  record.submitted = kNow - 1min;
  return record;
}

core::Explanation OneBlocker(core::Blocker blocker) {
  core::Explanation explanation;
  explanation.is_waiting = true;
  explanation.position = 2;
  explanation.key = "priority 0, 2 GPUs";
  explanation.blockers.push_back(std::move(blocker));
  return explanation;
}

TEST(JobDetail, AnEndBeforeTheNodeWasLostIsNotReportedAsLost) {
  JobRecord record = Jobs::Running(JobId(12), "train", 2);
  record.state = JobState::kTimedOut;
  record.ended = kNow;
  const auto lines = [&](Time missed) {
    return DetailOf(record, nullptr, "", {}, [](JobId) { return std::optional<JobRecord>(); }, {},
                    {{JobId(12), missed, "node n2 is lost; the job may go on there"}})
        .history.size();
  };
  EXPECT_EQ(lines(kNow + 5s), 3u);
  EXPECT_EQ(lines(kNow - 5s), 4u);
}

TEST(JobDetail, ShowsATimelineAndAllArrayIndices) {
  JobRecord array;
  array.id = array.spec_of = JobId(5);
  array.array_count = 4;
  array.submitted = kNow - 20s;
  array.array_indices = *IndexRanges::Parse("2-8:2", "x");
  array.array_waiting = *IndexRanges::Parse("3", "x");
  const auto none = [](JobId) { return std::optional<JobRecord>(); };
  const std::vector<Batch::HistoryLine> history = {{JobId(5), kNow - 9s, "its first element started"}};
  const auto full = InFull(DetailOf(array, nullptr, "", {}, none, {}, history), array, none, history);
  ASSERT_EQ(full.timeline.size(), full.history.size());
  EXPECT_EQ(full.timeline.back().time, ToSeconds(kNow - 9s));
  EXPECT_EQ(full.timeline.back().text, "its first element started");
  EXPECT_EQ(full.array_indices, "8");
  EXPECT_EQ(full.all_indices, "2,4,6,8");
  array.array_indices = IndexRanges();
  EXPECT_EQ(InFull({}, array, none, {}).all_indices, "0-3");
}

// Its start is that of its first element, and the time limit applies to each element.
TEST(JobDetail, AnArrayHasNoDeadlineFromItsElementsTimeLimit) {
  JobRecord record;
  record.id = record.spec_of = JobId(5);
  record.state = JobState::kRunning;
  record.started = kNow - 9s;
  record.time_limit = 60s;
  const auto none = [](JobId) { return std::optional<JobRecord>(); };
  EXPECT_EQ(DetailOf(record, nullptr, "", {}, none, {}, {}).deadline, ToSeconds(kNow + 51s));
  record.array_count = 4;
  EXPECT_EQ(DetailOf(record, nullptr, "", {}, none, {}, {}).deadline, std::nullopt);
}

TEST(PublicIds, ElementsHaveTheirDisplayIds) {
  const Jobs jobs;
  const auto names = [&](const std::string& text) { return WithPublicIds(text, jobs.find()); };
  EXPECT_EQ(names("jobs 6, 7 and 12 have no time limit"), "jobs 5_0, 5_1 and 12 have no time limit");
  EXPECT_EQ(names("before job 7's reservation"), "before job 5_1's reservation");
  EXPECT_EQ(names("held by ada: divvy release 7"), "held by ada: divvy release 5_1");
  EXPECT_EQ(names("reservation of job 6"), "reservation of job 5_0");
}

TEST(PublicIds, NumbersThatAreNotIdsAreUnchanged) {
  const Jobs jobs;
  for (const char* text :
       {"jobs 12, 5 and 7 more have no time limit", "needs 6 GPUs, 7 are free", "array 5 runs 6 of 7",
        "waits for job 5_7 to succeed", "GPU 7 is free", "7 jobs without GPUs run", "job ", "jobs 99"}) {
    EXPECT_EQ(WithPublicIds(text, jobs.find()), text);
  }
}

TEST(Why, NamesTheHoldersOfMissingGpusAndTheirEnds) {
  const Jobs jobs;
  core::Blocker blocker;
  blocker.text = "needs 2 GPUs, none is free";
  blocker.needed = 2;
  GpuSet gpu;
  gpu.Insert(GpuIndex(1));
  blocker.holders.push_back({JobId(7), {{kOwnNode, {gpu}, 0, 0}}, kNow + 1h});
  blocker.holders.push_back({JobId(12), {}, kNever});
  core::Explanation explanation = OneBlocker(blocker);
  explanation.start.typical = kNow + 1h;
  explanation.start.basis = "when job 7 reaches its time limit";
  explanation.start.earliest = kNow + 10min;
  explanation.start.latest = kNow + 2h;
  explanation.change.emplace().text = "--gpus 1 (GPU 3 is free)";
  const wire::WhyView why = WhyOf(Waiting(), explanation, "", jobs.find(), kNow);
  EXPECT_EQ(why.summary, "Job 20 (big) waits: it needs 2 GPUs, none is free; it should start in 1 h.");
  ASSERT_EQ(why.blockers.size(), 1U);
  ASSERT_EQ(why.blockers[0].held_by.size(), 2U);
  const wire::HolderView& first = why.blockers[0].held_by[0];
  EXPECT_EQ(first.display_id, "5_1");
  EXPECT_EQ(first.name, "sweep");
  EXPECT_EQ(first.user, "ada");
  EXPECT_EQ(first.gpus, std::vector<std::int64_t>{1});
  EXPECT_EQ(first.until, ToSeconds(kNow + 1h));
  EXPECT_EQ(why.blockers[0].held_by[1].until, std::nullopt);
  EXPECT_EQ(why.prediction_basis, "when job 5_1 reaches its time limit; between 10 min and 2 h from now");
  explanation.start.typical = kNow + 5s;
  EXPECT_EQ(WhyOf(Waiting(), explanation, "", jobs.find(), kNow).summary,
            "Job 20 (big) waits: it needs 2 GPUs, none is free; it should start within a minute.");
  EXPECT_EQ(why.command, "divvy update 20 --gpus 1");
  const auto command_of = [&](const std::string& change) {
    core::Explanation other = explanation;
    other.change->text = change;
    return WhyOf(Waiting(), other, "", jobs.find(), kNow).command;
  };
  EXPECT_EQ(command_of("--gpu-type 'NVIDIA A100 80GB' and no --constraint (there is room on n1)"),
            "divvy update 20 --gpu-type 'NVIDIA A100 80GB' --constraint \"\"");
  EXPECT_EQ(command_of("no --gpu-type and --gpu-memory"), "divvy update 20 --gpu-type \"\" --gpu-memory 0");
  EXPECT_EQ(command_of("half of a GPU"), "");
}

TEST(Why, ARetriedJobShowsTheResultOfItsLastAttempt) {
  const Jobs jobs;
  JobRecord record = Waiting();
  record.restarts = 1;
  record.reason = "queued again: this machine could not free the GPUs for it: GPU 0 is lost";
  core::Blocker blocker;
  blocker.kind = core::BlockerKind::kBeginTime;
  blocker.text = "may begin in 3 s";
  EXPECT_EQ(WhyOf(record, OneBlocker(blocker), "", jobs.find(), kNow).summary,
            "Job 20 (big) waits: it may begin in 3 s. Its last try: queued again: this machine could not free the GPUs "
            "for it: GPU 0 is lost.");
}

TEST(Why, ShowsTheStateOfADependency) {
  Jobs jobs;
  JobRecord record = Waiting();
  record.dependencies = {{DependencyKind::kAfterOk, JobId(5), 1, Duration(0)},
                         {DependencyKind::kAfterOk, JobId(1), std::nullopt, Duration(0)}};
  core::Blocker blocker;
  blocker.kind = core::BlockerKind::kDependency;
  blocker.text = "waits for job 5_1 to succeed";
  const wire::WhyView why = WhyOf(record, OneBlocker(blocker), "", jobs.find(), kNow);
  EXPECT_EQ(why.summary, "Job 20 (big) waits for job 5_1 to succeed.");
  ASSERT_EQ(why.blockers[0].held_by.size(), 1U);
  EXPECT_EQ(why.blockers[0].held_by[0].display_id, "5_1");
  EXPECT_EQ(why.blockers[0].held_by[0].state, "running");
}

TEST(Why, SuggestsACommandIfNoChangeOfTheRequestHelps) {
  const Jobs jobs;
  core::Blocker held;
  held.kind = core::BlockerKind::kHeld;
  held.text = "is held; divvy release 20 puts it into the queue";
  EXPECT_EQ(WhyOf(Waiting(), OneBlocker(held), "", jobs.find(), kNow).command, "divvy release 20");
  core::Blocker cap;
  cap.kind = core::BlockerKind::kCap;
  cap.rule = "array limit %2";
  JobRecord array = Waiting();
  array.array_count = 5;
  array.array_waiting = IndexRanges(2, 4);
  const wire::WhyView why = WhyOf(array, OneBlocker(cap), "", jobs.find(), kNow);
  EXPECT_EQ(why.command, "divvy update 20 --at-once 3");
  EXPECT_TRUE(why.summary.starts_with("3 elements of array 20 (big) wait: ")) << why.summary;
  core::Blocker gpus;
  gpus.kind = core::BlockerKind::kGpuCap;
  gpus.rule = "limit of user ada: 3 GPUs at once";
  gpus.needed = 2;
  gpus.available = 1;
  const wire::WhyView more = WhyOf(Waiting(), OneBlocker(gpus), "", jobs.find(), kNow);
  EXPECT_EQ(more.would_start_now, "a limit of 4 GPUs");
  EXPECT_EQ(more.command, "divvy teams user ada --max-gpus 4");
  // With a second blocker, removing the first one would not start the job.
  core::Explanation both = OneBlocker(held);
  both.blockers.push_back(cap);
  EXPECT_EQ(WhyOf(Waiting(), both, "", jobs.find(), kNow).command, "");
}

TEST(Why, AnswersForJobsThatNoLongerWait) {
  const Jobs jobs;
  JobRecord record = Jobs::Running(JobId(12), "train", 2);
  record.start_reason = "backfilled: ends before job 7's reservation";
  record.time_limit = 1min;
  EXPECT_EQ(WhyOf(record, core::Explanation(), "", jobs.find(), kNow).summary,
            "Job 12 (train) has been running for 10 s on GPU 2, after waiting 10 s (backfilled: ends before job 5_1's "
            "reservation); its time limit ends it in 50 s.");
  EXPECT_NE(WhyOf(record, core::Explanation(), "", jobs.find(), kNow + 1h).summary.find("; its time limit has passed."),
            std::string::npos);
  record.state = JobState::kCancelled;
  record.reason = "cancelled by bob";
  record.ended = kNow;
  EXPECT_EQ(WhyFinal(record, jobs.find(), kNow + 5s).summary,
            "Job 12 (train) was cancelled 5 s ago by bob. It ran for 10 s on GPU 2 after waiting 10 s.");
}

JobRecord Sharing() {
  JobRecord record = Jobs::Running(JobId(12), "nb", 0);
  record.attempt = 1;
  record.request.gpus = 1;
  record.request.portion.request = GpuShare(2'500);
  record.request.portion.limit = GpuShare(8'000);
  return record;
}

wire::KeptTenant Kept(wire::ShareState state, std::vector<std::string> words) {
  wire::KeptTenant tenant;
  tenant.job = JobId(12);
  tenant.attempt = 1;
  tenant.state = state;
  tenant.mechanism = "enforced by interposer";
  tenant.words = std::move(words);
  wire::KeptShare& share = tenant.shares.emplace_back();
  share.gpu = 1;
  share.request = 20_GiB;
  share.limit = 64_GiB;
  share.used = 32_GiB;
  share.borrowed = 12_GiB;
  share.compute = GpuShare(6'600);
  share.compute_request = GpuShare(2'500);
  return tenant;
}

std::string WhyOfShare(const JobRecord& record, const wire::KeptTenant& tenant) {
  return WhyOf(record, core::Explanation(), "", Jobs().find(), kNow, ShareViewOf(record, &tenant)).summary;
}

TEST(Why, ShowsAFractionOnTheGpuWhereItRuns) {
  const JobRecord record = Sharing();
  EXPECT_EQ(
      WhyOfShare(record, Kept(wire::ShareState::kRunning,
                              {"borrows 12 GiB", "on GPU 1 for now (its guaranteed fraction is on GPU 0)"})),
      "Job 12 (nb) has been running for 10 s on GPU 1 for now (its guaranteed fraction is on GPU 0), after waiting 10 "
      "s. "
      "Of GPU 1 it has 32 "
      "GiB of at most 64 GiB, 12 GiB of them borrowed, and had 66% of the time (25% are its own). Now: borrows 12 "
      "GiB.");
  wire::KeptTenant starved = Kept(wire::ShareState::kParked, {"waits for room on a GPU"});
  starved.trouble = "waits until other tenants return borrowed memory";
  EXPECT_EQ(
      WhyOfShare(record, starved),
      "Job 12 (nb) has been running for 10 s, after waiting 10 s. It is parked: its GPU memory is on the host, and "
      "it was last on GPU 1. Now: waits until other tenants return borrowed memory; waits for room on a GPU.");
}

TEST(Why, NamesWhoPausedAJobAndHowToResumeIt) {
  JobRecord record = Sharing();
  record.state = JobState::kPaused;
  record.reason = "paused by divvy, because it wastes its GPUs";
  const std::string text = WhyOf(record, core::Explanation(), record.reason, Jobs().find(), kNow, std::nullopt).summary;
  EXPECT_TRUE(text.ends_with(". It was paused by divvy, because it wastes its GPUs; divvy resume 12 continues it."))
      << text;
}

TEST(Why, SaysThatAJobIsParkedAndForWhat) {
  JobRecord record = Jobs::Running(JobId(12), "train", 2);
  const auto summary = [&](const std::string& why, const std::string& more) {
    record.reason = why;
    return WhyOf(record, core::Explanation(), why + more, Jobs().find(), kNow).summary;
  };
  const std::string waits = " for 3 min; it returns when it is promoted";
  EXPECT_TRUE(summary("parked by its sweep", waits).ends_with(". It is parked by its sweep" + waits + "."));
  EXPECT_TRUE(
      summary("parked for job 31 of bob", " for 3 min").ends_with(". It is parked for job 31 of bob for 3 min."));
}

TEST(Shares, AreThoseOfTheCurrentAttemptAndState) {
  JobRecord record = Sharing();
  wire::KeptTenant tenant = Kept(wire::ShareState::kIdle, {});
  EXPECT_EQ(ShareViewOf(record, &tenant)->state, "idle");
  record.state = JobState::kPaused;
  EXPECT_EQ(ShareViewOf(record, &tenant)->state, "paused") << "it keeps its GPU, and does not run";
  tenant.attempt = 2;
  EXPECT_EQ(ShareViewOf(record, &tenant)->state, "starting");
  EXPECT_EQ(ShareViewOf(record, nullptr)->state, "starting");
  record.state = JobState::kQueued;
  EXPECT_FALSE(ShareViewOf(record, nullptr));
  EXPECT_FALSE(ShareViewOf(Jobs::Running(JobId(12), "whole", 0), nullptr));
}

TEST(Shares, AMigInstanceCountsWithItsPartOfTheGpu) {
  RunningJob job;
  job.share = GpuShare(1'250);  // As the engine stores and reports it.
  job.slice = {"1g.10gb", 1, 1, 0};
  const wire::TenantView view = TenantViewOf(nullptr, job, nullptr, GpuFacts());
  EXPECT_EQ(view.request, 0.125);
  EXPECT_EQ(view.compute_request, view.request);
  EXPECT_EQ(view.compute_limit, view.request);
}

/// The jobs listed under each GPU, as state and JOB: "allocated 1", "free".
std::vector<std::string> Listed(const std::vector<wire::GpuView>& gpus) {
  std::vector<std::string> lines;
  for (const wire::GpuView& gpu : gpus) {
    lines.push_back(gpu.state);
    for (const std::string& id : gpu.job_display_ids) lines.back() += " " + id;
    EXPECT_LE(gpu.tenants.size(), gpu.jobs.size());
  }
  return lines;
}

TEST(Shares, AParkedTenantIsListedOnItsPlannedGpu) {
  Controller controller(Policy(), Limits(), 1);
  controller.SetCapacity(MachineOfH100s(2));
  Caller ada;
  ada.user = {1000, 1000, "ada"};
  JobSpec spec;
  spec.request.gpus = 1;
  spec.request.portion.request = GpuShare(2'500);
  const JobId part = StartJob(controller, std::move(spec), ada, kNow);
  const int planned_gpu = controller.Find(part)->gpus.ToVector().front();
  wire::KeptTenant tenant = Kept(wire::ShareState::kRunning, {});
  tenant.job = part;
  tenant.shares[0].paper = planned_gpu;
  tenant.shares[0].gpu = 1 - planned_gpu;
  const auto listed = [&](wire::ShareState state) {
    tenant.state = state;
    SharingSnapshot board;
    wire::KeeperState kept;
    kept.tenants = {tenant};
    board.Set(controller.NodeName(kOwnNode), kept, kNow);
    return GpuViews(controller, "", board, kNow);
  };
  const auto with = [&](int gpu, const std::string& there, const std::string& elsewhere) {
    return gpu == 0 ? std::vector{there, elsewhere} : std::vector{elsewhere, there};
  };
  const std::string id = ToString(part);
  EXPECT_EQ(Listed(listed(wire::ShareState::kIdle)), with(1 - planned_gpu, "allocated " + id, "free"));
  for (const auto state : {wire::ShareState::kParked, wire::ShareState::kWaking}) {
    const std::vector<wire::GpuView> gpus = listed(state);
    EXPECT_EQ(Listed(gpus), with(planned_gpu, "allocated " + id, "free"));
    const wire::GpuView& planned = gpus[static_cast<std::size_t>(planned_gpu)];
    ASSERT_EQ(planned.tenants.size(), 1U);
    EXPECT_EQ(planned.tenants[0].planned_gpu, planned_gpu);
    EXPECT_EQ(planned.tenants[0].limit_bytes, (64_GiB).count());
    EXPECT_EQ(planned.tenants[0].compute, 0) << "what it had before it left";
    EXPECT_EQ(planned.free, 0.75) << "as /metrics counts it";
  }
  // The GPU that the tenant left goes to a job that has it as a whole, and is not available to others.
  JobSpec all;
  all.request.gpus = 1;
  const JobId whole = StartJob(controller, std::move(all), ada, kNow);
  EXPECT_EQ(Listed(listed(wire::ShareState::kParked)),
            with(planned_gpu, "allocated " + id, "allocated " + ToString(whole)));
}

TEST(Labels, ComeFromTheSpec) {
  JobSpec spec;
  spec.pool = "gpu";
  spec.account = "vision";
  spec.labels["slurm.qos"] = "high";
  const wire::JobView view = ViewOf(Waiting(), "", LabelsOf(spec), Jobs().find());
  EXPECT_EQ(view.pool, "gpu");
  EXPECT_EQ(view.account, "vision");
  EXPECT_EQ(view.qos, "high");
}

}  // namespace views_test
}  // namespace divvy
