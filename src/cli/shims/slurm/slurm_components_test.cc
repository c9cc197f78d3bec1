// Components of heterogeneous jobs in Slurm's listings.
#include "cli/shims/slurm_look/slurm_components.h"

#include <gtest/gtest.h>

#include "cli/shims/slurm/slurm_show.h"
#include "cli/shims/slurm_look/slurm_queue.h"

namespace divvy::cli::slurm {
namespace slurm_components_test {

constexpr double kNow = 1'772'452'800;

/// Job 12 has three components: two GPUs on n1; two nodes with one GPU each, n1 and n2; four cores on any node.
wire::JobView Job() {
  wire::JobView job;
  job.id = JobId(12);
  job.display_id = "12";
  job.name = "train";
  job.user = "root";
  job.state = "running";
  job.submit_time = job.eligible_time.emplace(kNow - 100);
  job.start_time = kNow - 5;
  job.node = "n1";
  job.request.gpus = 2;
  job.request.others.resize(2);
  job.request.others[0].gpus = 1;
  job.request.others[0].nodes = job.request.others[0].tasks = 2;
  job.request.others[1].cpus = 4;
  job.request.others[1].pool = "big";
  job.allocations = {{"n1", {0, 1, 2}, 2, {{0, {0, 1}, 1}, {1, {2}, 1}}}, {"n2", {5}, 2, {{1, {5}, 1}, {2, {}, 1}}}};
  job.gpus = {0, 1, 2};
  return job;
}

std::string Queue(const std::vector<wire::JobView>& jobs, std::string_view names) {
  QueueFormat format;
  format.names = names;
  format.has_header = false;
  std::vector<QueueRow> rows;
  for (const wire::JobView& job : jobs) rows.push_back({job, std::nullopt, nullptr});
  Scene scene;
  scene.hostname = "head";
  scene.now = kNow;
  const auto text = FormatQueue(rows, format, scene);
  return text ? *text : "ERROR " + text.error().message;
}

using Lines = std::vector<std::string>;

Lines Ids(const std::vector<wire::JobView>& jobs) {
  Lines ids;
  for (const wire::JobView& job : jobs) ids.push_back(job.display_id);
  return ids;
}

TEST(SlurmComponents, EachComponentIsALineOfItsOwn) {
  wire::JobView plain;
  plain.id = JobId(13);
  plain.display_id = "13";
  EXPECT_EQ(Ids(SplitComponents({Job(), plain}, {})), (Lines{"12+0", "12+1", "12+2", "13"}));
  EXPECT_EQ(Ids(SplitComponents({Job()}, {"12+1", "12+2"})), (Lines{"12+1", "12+2"}));
  EXPECT_EQ(Ids(SplitComponents({Job()}, {"12+1", "12"})), (Lines{"12+0", "12+1", "12+2"}));
  const std::vector<wire::JobView> lines = SplitComponents({Job()}, {});
  EXPECT_EQ(Queue(lines, "jobid:8,nodelist:9,numnodes:3,tres-per-node:14,partition:6,hetjobid:4,hetjoboffset:3"),
            "12      n1       1  gres:gpu:2    main  12  0  \n"
            "13      n[1-2]   2  gres:gpu:1    main  12  1  \n"
            "14      n2       1  N/A           big   12  2  \n");
  EXPECT_EQ(ComponentNumber(lines[1]), 1U);
  EXPECT_EQ(ComponentNumber(plain), std::nullopt);
}

TEST(SlurmComponents, AWaitingComponentShowsItsRequest) {
  wire::JobView job = Job();
  job.state = "queued";
  job.start_time.reset();
  job.allocations.clear();
  job.gpus.clear();
  const std::vector<wire::JobView> lines = SplitComponents({job}, {});
  EXPECT_EQ(Queue(lines, "numnodes:3,tres-per-node:14"), "1  gres:gpu:2    \n2  gres:gpu:1    \n1  N/A           \n");
}

TEST(SlurmComponents, AStepBelongsToTheFirstComponentThatHoldsItsGpus) {
  const auto of = [](std::vector<wire::AllocationView> allocations) {
    wire::JobView step;
    step.gpus = allocations.front().gpus;
    step.allocations = std::move(allocations);
    return ComponentOfStep(Job(), step);
  };
  EXPECT_EQ(of({{"n1", {1}, 1, {}}}), 0U);
  EXPECT_EQ(of({{"n1", {2}, 1, {}}}), 1U);
  EXPECT_EQ(of({{"n1", {2}, 1, {}}, {"n2", {5}, 1, {}}}), 1U);
  EXPECT_EQ(of({{"n2", {}, 1, {}}}), 1U);
  EXPECT_EQ(of({{"n1", {0, 2}, 1, {}}}), 0U) << "over several components";
}

TEST(SlurmComponents, ScontrolNamesTheComponent) {
  wire::JobDetail job;
  const wire::JobView view = Job();
  job.id = view.id;
  job.display_id = view.display_id;
  job.name = view.name;
  job.state = view.state;
  job.start_time = view.start_time;
  job.request = view.request;
  job.allocations = view.allocations;
  job.labels = {{"slurm.cpus-per-task", "3"}, {"slurm.mail-user", "a@b"}};
  const wire::JobDetail second = ComponentDetail(job, 1);
  EXPECT_EQ(second.labels, (std::map<std::string, std::string>{{"slurm.mail-user", "a@b"}}));
  EXPECT_EQ(ComponentDetail(job, 0).labels.size(), 2U);
  const std::string text = ShowJob(second, Scene(), {.components = 3});
  EXPECT_EQ(text.find("JobId=13 HetJobId=12 HetJobOffset=1 JobName=train HetJobIdSet=12-14"), 0U) << text;
  EXPECT_NE(text.find("NumNodes=2"), std::string::npos) << text;
}

}  // namespace slurm_components_test
}  // namespace divvy::cli::slurm
