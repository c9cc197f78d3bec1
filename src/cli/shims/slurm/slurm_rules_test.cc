// Rules of Slurm's commands that its own test suite checks.
#include <gtest/gtest.h>

#include "cli/shims/slurm/slurm_show.h"
#include "cli/shims/slurm/slurm_update.h"
#include "cli/shims/slurm_look/slurm_components.h"
#include "cli/shims/slurm_look/slurm_nodes.h"
#include "cli/shims/slurm_look/slurm_refusals.h"

namespace divvy::cli::slurm {
namespace slurm_rules_test {

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

wire::JobDetail Job() {
  wire::JobDetail job;
  job.id = JobId(17);
  job.display_id = "17";
  job.state = "queued";
  return job;
}

TEST(ScontrolShowJob, NamesTheGpusAsTheyWereRequested) {
  wire::JobDetail job = Job();
  job.request.gpus = 4;
  job.labels = {{"slurm.gpus", "4"},         {"slurm.gpus-per-node", "4"}, {"slurm.gpus-per-task", "2"},
                {"slurm.cpus-per-gpu", "1"}, {"slurm.mem-per-gpu", "20M"}, {"slurm.gpu-bind", "closest"},
                {"slurm.gpu-freq", "medium"}};
  const std::string text = ShowJob(job, Scene(), ShowStyle());
  for (const char* line :
       {"CpusPerTres=gres:gpu:1\n", "MemPerTres=gres:gpu:20\n", "TresPerJob=gres:gpu:4\n", "TresPerNode=gres:gpu:4\n",
        "TresPerTask=gres:gpu:2\n", "TresBind=gpu:closest\n", "TresFreq=gpu:medium\n"}) {
    EXPECT_TRUE(Has(text, line)) << line << text;
  }
  job.labels = {{"slurm.gpus-per-node", "1"}, {"slurm.gres", "gpu:2"}};
  EXPECT_TRUE(Has(ShowJob(job, Scene(), ShowStyle()), "TresPerNode=gres:gpu:1,gres:gpu:2\n"));
  EXPECT_FALSE(Has(ShowJob(Job(), Scene(), ShowStyle()), "Tres")) << "no GPUs";
}

TEST(ScontrolShowJob, NamesTheConstraintsAsTheyWereRequested) {
  wire::JobDetail job = Job();
  job.labels = {{"slurm.tmp", "2"}, {"slurm.contiguous", ""}, {"slurm.oversubscribe", ""}, {"slurm.mem-per-cpu", "1G"}};
  const std::string text = ShowJob(job, Scene(), ShowStyle());
  EXPECT_TRUE(Has(text, "MinMemoryCPU=1G MinTmpDiskNode=2M")) << text;
  EXPECT_TRUE(Has(text, "OverSubscribe=YES Contiguous=1 ")) << text;
  EXPECT_TRUE(Has(ShowJob(Job(), Scene(), ShowStyle()), "OverSubscribe=OK Contiguous=0 "));
}

TEST(SlurmPriority, OnlyAHeldJobHasNone) {
  wire::JobView job;
  job.state = "held";
  job.priority = 5;
  EXPECT_EQ(PriorityOf(job), 0);
  job.state = "queued";
  EXPECT_EQ(PriorityOf(job), 5);
  job.priority = -100;
  EXPECT_EQ(PriorityOf(job), 1);
}

TEST(ScontrolUpdate, TakesNamesWithoutAnEqualsSign) {
  const auto no_job = [](const std::string&) -> Result<wire::JobDetail> { return NotFound("none"); };
  const auto read = [&](const std::vector<std::string>& words) {
    return ReadUpdate(words, dialect::ParseContext(), no_job);
  };
  const auto wish = read({"jobid=17", "arraytaskthrottle", "2"});
  ASSERT_TRUE(wish) << wish.error().message;
  EXPECT_EQ(wish->update.array_at_once, 2);
  EXPECT_EQ(read({"job", "17", "name=x"})->update.select.ids, std::vector<std::string>{"17"});
  EXPECT_FALSE(read({"jobid=17", "arraytaskthrottle"}));
}

TEST(SlurmRefusals, LocalErrorsBeginWithSlurmsWords) {
  EXPECT_TRUE(InSlurmsWords("--gres: a part next to a colon is empty").starts_with("Invalid generic resource (gres)"));
  EXPECT_TRUE(InSlurmsWords("--deadline: '2015' has passed").starts_with("Requested time limit is invalid"));
  EXPECT_TRUE(InSlurmsWords("1024000000 tasks are too many; request at most 1000000")
                  .starts_with("More processors requested than permitted"));
  EXPECT_TRUE(InSlurmsWords("the job requests 2 nodes, but this server is a single node")
                  .starts_with("Requested node configuration is not available"));
}

TEST(SlurmRefusals, KeepSlurmsWordsWithoutTheNameOfTheOption) {
  const std::string bind = "Invalid --gpu-bind argument: gpu:blah; expected closest";
  EXPECT_EQ(InSlurmsWords("--gpu-bind: " + bind), bind + " (--gpu-bind)");
  EXPECT_EQ(InSlurmsWords("s.sh line 3: --gpu-bind: " + bind), bind + " (s.sh line 3: --gpu-bind)");
  const std::string ensure = "Failed to ensure --gpus >= x: --gres=gpu:2 makes 2 GPUs";
  EXPECT_EQ(InSlurmsWords(ensure), ensure);
  EXPECT_TRUE(InSlurmsWords("-S (--core-spec): it cannot be together with --thread-spec; keep one of them")
                  .starts_with("-S/--core-spec and "));
  EXPECT_TRUE(
      InSlurmsWords("SBATCH_THREAD_SPEC in the environment: --thread-spec: it cannot be together with --core-spec")
          .starts_with("Both --core-spec and --thread-spec set using environment variables."));
  EXPECT_TRUE(InSlurmsWords("--cpus-per-task: it cannot be together with --cpus-per-gpu; keep one of them")
                  .starts_with("--cpus-per-gpu is mutually exclusive with --cpus-per-task"));
}

TEST(ScontrolShowConfig, NamesWhatClientsLookFor) {
  NodeRow row;
  row.status.home = "/h";
  row.status.user = "ada";
  row.status.policy = "fair";
  const std::string text = ShowConfig(row);
  for (const char* line : {"SelectType              = select/cons_tres\n", "SchedulerType           = sched/backfill\n",
                           "SchedulerParameters     = policy=fair\n", "OverTimeLimit           = 0 min\n",
                           "SLURM_CONF              = /h/divvy.toml\n", "SlurmUser               = ada(0)\n"}) {
    EXPECT_TRUE(Has(text, line)) << line << text;
  }
}

TEST(SlurmComponents, EachHasAnIdBehindThatOfTheJob) {
  wire::JobView job;
  job.id = JobId(17);
  job.display_id = "17";
  job.request.others.resize(2);
  const auto lines = SplitComponents({job}, {"18"});
  ASSERT_EQ(lines.size(), 1U) << "18 is component 1";
  EXPECT_EQ(lines[0].display_id, "17+1");
  EXPECT_EQ(lines[0].id, JobId(18));
  EXPECT_EQ(LeaderId(lines[0]), "17");
  EXPECT_EQ(ComponentIds(lines[0], 3), "17-19");
  EXPECT_EQ(SplitComponents({job}, {"17"}).size(), 3U);
}

}  // namespace slurm_rules_test
}  // namespace divvy::cli::slurm
