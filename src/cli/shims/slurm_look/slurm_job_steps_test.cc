#include "cli/shims/slurm_look/slurm_job_steps.h"

#include <gtest/gtest.h>

#include "cli/shims/slurm_look/slurm_places.h"

namespace divvy::cli::slurm {
namespace slurm_job_steps_test {

wire::JobDetail Running() {
  wire::JobDetail job;
  job.id = JobId(17);
  job.display_id = "17";
  job.name = "train";
  job.user = "ada";
  job.state = "running";
  job.request.tasks = 4;
  job.request.cpus = 8;
  job.request.gpus = 2;
  job.gpus = {0, 1};
  job.start_time = 1000.0;
  return job;
}

wire::StepView Step(std::int64_t number, std::optional<std::int64_t> code) {
  wire::StepView step;
  step.number = number;
  step.name = "solve";
  step.state = code ? "ended" : "running";
  step.tasks = 2;
  step.gpus = "1";
  step.start_time = 1010.0;
  step.exit_code = code;
  if (code) step.end_time = 1040.0;
  return step;
}

TEST(JobSteps, TheBatchStepComesFirstAndEachStepHasItsOwnEnd) {
  wire::StepView waiting;
  waiting.number = 3;
  const auto steps = JobStepsOf(Running(), {Step(0, 0), Step(1, 137), Step(2, std::nullopt), waiting});
  ASSERT_EQ(steps.size(), 4u);
  EXPECT_EQ(steps[0].id, "batch");
  EXPECT_EQ(steps[0].job.name, "batch");
  EXPECT_EQ(steps[0].job.state, "running");
  EXPECT_EQ(steps[1].id, "0");
  EXPECT_EQ(steps[1].job.name, "solve");
  EXPECT_EQ(steps[1].job.state, "succeeded");
  EXPECT_EQ(ExitCode(steps[1].job), "0:0");
  EXPECT_EQ(RunTime(steps[1].job, 2000), 30);
  EXPECT_EQ(CpusOf(steps[1].job), 4) << "two tasks of two cores";
  EXPECT_EQ(GpusOf(steps[1].job), 1);
  EXPECT_EQ(ExitCode(steps[2].job), "0:9") << "signal 9 ended it";
  EXPECT_EQ(steps[2].job.state, "failed");
  EXPECT_EQ(steps[3].job.state, "running");
}

TEST(JobSteps, AStepHasNoMoreThanTheJobOverAllNodes) {
  wire::JobDetail job = Running();
  job.request.nodes = 2;
  job.request.tasks = 2;
  job.request.cpus = 2;
  job.request.memory_bytes = std::int64_t{1} << 30;
  job.allocations = {{.node = "n1", .gpus = {0, 1}, .tasks = 1}, {.node = "n2", .gpus = {0, 1}, .tasks = 1}};
  wire::StepView many = Step(1, 0);
  many.tasks = 99;
  const auto steps = JobStepsOf(job, {Step(0, 0), many});
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_EQ(CpusOf(steps[0].job), 2) << "the batch step has one machine";
  Scene scene;
  const std::string batch = ShowStep(steps[0], scene, true);
  EXPECT_NE(batch.find(" NodeList=n1 Nodes=1 CPUs=2 "), std::string::npos) << batch;
  EXPECT_NE(batch.find("TRES=cpu=2,mem=1G,node=1,billing=2,gres/gpu=2 "), std::string::npos) << batch;
  EXPECT_EQ(CpusOf(steps[1].job), 4);
  EXPECT_EQ(MemoryOf(steps[1].job), std::int64_t{2} << 30);
  EXPECT_EQ(CpusOf(steps[2].job), 4) << "99 tasks share the job's cores";
  EXPECT_EQ(steps[2].tasks, 99);
}

TEST(JobSteps, StepsAreShownOnTheirOwnNodes) {
  wire::JobDetail job = Running();
  job.node = "n1";
  job.request.nodes = 3;
  job.request.tasks = 6;
  job.request.cpus = 4;
  job.request.memory_bytes = std::int64_t{1} << 30;
  for (const char* node : {"n1", "n2", "n3"}) job.allocations.push_back({.node = node, .gpus = {0, 1}, .tasks = 2});
  wire::StepView on_two = Step(0, std::nullopt);
  on_two.tasks = 3;
  on_two.allocations = {{.node = "n2", .gpus = {1}, .tasks = 2}, {.node = "n3", .gpus = {0, 1}, .tasks = 1}};
  wire::StepView on_one = Step(1, 0);
  on_one.allocations = {{.node = "n3", .gpus = {}, .tasks = 2}};
  const auto steps = JobStepsOf(job, {on_two, on_one});
  ASSERT_EQ(steps.size(), 3u);
  Scene scene;
  const std::string two = ShowStep(steps[1], scene, true);
  EXPECT_NE(two.find(" NodeList=n[2-3] Nodes=2 CPUs=6 "), std::string::npos) << two;
  EXPECT_NE(two.find("TRES=cpu=6,mem=2G,node=2,billing=6,gres/gpu=3 "), std::string::npos) << two;
  EXPECT_EQ(HeldGpusOf(steps[1].job), "gpu:1(IDX:1),gpu:2(IDX:0-1)");
  const std::string one = ShowStep(steps[2], scene, true);
  EXPECT_NE(one.find(" NodeList=n3 Nodes=1 CPUs=4 "), std::string::npos) << one;
  EXPECT_NE(one.find("TRES=cpu=4,mem=1G,node=1,billing=4 "), std::string::npos) << one;
}

TEST(JobSteps, AStepThatWasCancelledByNumberIsCancelledWhileTheJobRuns) {
  wire::StepView step = Step(2, 143);
  EXPECT_EQ(JobStepsOf(Running(), {step})[1].job.state, "failed");
  step.state = "cancelled";
  const JobStep cancelled = JobStepsOf(Running(), {step})[1];
  EXPECT_EQ(cancelled.job.state, "cancelled");
  EXPECT_EQ(ExitCode(cancelled.job), "0:15");
}

TEST(JobSteps, AStepThatWasCutOffByTheJobsEndIsCancelled) {
  wire::JobDetail job = Running();
  job.state = "succeeded";
  job.end_time = 1050.0;
  wire::StepView step = Step(0, std::nullopt);
  step.state = "cut_off";
  step.end_time = 1050.0;
  EXPECT_EQ(JobStepsOf(job, {step})[1].job.state, "cancelled");
}

TEST(JobSteps, AJobOnATerminalHasNoBatchStep) {
  wire::JobDetail job = Running();
  job.is_foreground = true;
  const auto own = JobStepsOf(job, {});
  ASSERT_EQ(own.size(), 1u);
  EXPECT_EQ(own[0].id, "0") << "srun's command is its only step";
  job.labels["slurm.door"] = "salloc";
  EXPECT_TRUE(JobStepsOf(job, {}).empty());
  EXPECT_EQ(JobStepsOf(job, {Step(0, 0)}).size(), 1u);
  job.start_time.reset();
  EXPECT_TRUE(JobStepsOf(job, {}).empty());
}

TEST(JobSteps, ShowStepMatchesScontrol) {
  Scene scene;
  scene.hostname = "box";
  const auto steps = JobStepsOf(Running(), {Step(0, std::nullopt)});
  const std::string text = ShowStep(steps[1], scene, true);
  EXPECT_TRUE(text.starts_with("StepId=17.0 UserId=0 StartTime=")) << text;
  EXPECT_NE(text.find(" State=RUNNING Partition=main NodeList=box "), std::string::npos) << text;
  EXPECT_NE(text.find(" Tasks=2 Name=solve "), std::string::npos) << text;
}

}  // namespace slurm_job_steps_test
}  // namespace divvy::cli::slurm
