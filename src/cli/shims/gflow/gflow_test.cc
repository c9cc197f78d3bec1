#include <gtest/gtest.h>

#include "cli/shims/gflow/gflow_batch.h"
#include "cli/shims/gflow/gflow_job.h"
#include "cli/shims/gflow/gflow_queue.h"
#include "cli/shims/gflow/gflow_words.h"

namespace divvy::cli {
namespace gflow_test {

using Words = std::vector<std::string>;

wire::JobView Job(std::uint64_t id, const std::string& name, const std::string& state) {
  wire::JobView job;
  job.id = JobId(id);
  job.display_id = std::to_string(id);
  job.name = name;
  job.user = "ada";
  job.state = state;
  return job;
}

wire::GpuView Gpu(std::int64_t index, const std::string& state) {
  wire::GpuView gpu;
  gpu.index = index;
  gpu.state = state;
  return gpu;
}

std::vector<wire::JobView> Mixed() {
  auto done = Job(1, "prep", "succeeded"), running = Job(2, "train", "running"), waiting = Job(3, "eval", "queued"),
       held = Job(4, "late", "held");
  done.start_time = 100;
  done.end_time = 235;
  running.start_time = 1000;
  running.gpus = {0, 1};
  running.request.gpus = 2;
  running.request.time_limit_s = 7200;
  running.dependencies = {"afterok:1"};
  waiting.request.gpus = 1;
  waiting.dependencies = {"afterok:2"};
  return {done, running, waiting, held};
}

std::string Queue(const QueueView& view) {
  return RenderGqueue(SelectGflowJobs(Mixed(), view), view, 1603).value_or("error");
}

TEST(Gqueue, ShowsTheActiveJobsInGflowsColumns) {
  EXPECT_EQ(Queue({}),
            "JOBID  NAME   ST  TIME      NODES  NODELIST(REASON)\n"
            "2      train  R   00:10:03  2      0,1\n"
            "3      eval   PD  -         1      (Dependency)\n"
            "4      late   H   -         0      (JobHeldUser)\n");
}

TEST(Gqueue, PrintsTheRequestedFields) {
  QueueView view;
  view.states = {"R"};
  view.format = "JOBID,NAME,ST,NODES,NODELIST(REASON),TIMELIMIT,PRIORITY";
  EXPECT_EQ(Queue(view),
            "JOBID  NAME   ST  NODES  NODELIST(REASON)  TIMELIMIT  PRIORITY\n"
            "2      train  R   2      0,1               02:00:00   10\n");
}

TEST(Gqueue, RefusesAnUnknownField) {
  QueueView view;
  view.format = "JOBID,COLOUR";
  auto text = RenderGqueue({}, view, 0);
  ASSERT_FALSE(text);
  EXPECT_NE(text.error().message.find("no field 'COLOUR'; there is JOBID, NAME"), std::string::npos);
}

TEST(Gqueue, DrawsTheTreeOfDependencies) {
  QueueView view;
  view.is_tree = view.shows_final = true;
  view.format = "JOBID,NAME,ST";
  EXPECT_EQ(Queue(view),
            "JOBID  NAME   ST\n"
            "1      prep   CD\n"
            "└─2    train  R\n"
            "  └─3  eval   PD\n"
            "4      late   H\n");
}

TEST(Gqueue, LimitsTheListFromEitherEnd) {
  QueueView view;
  view.shows_final = true;
  view.format = "JOBID";
  view.limit = 2;
  EXPECT_EQ(Queue(view), "JOBID\n1\n2\n");
  view.limit = -1;
  EXPECT_EQ(Queue(view), "JOBID\n4\n");
}

TEST(Gqueue, PrintsCsvAndJson) {
  QueueView view;
  view.states = {"R"};
  view.format = "JOBID,NODELIST(REASON)";
  view.output = "csv";
  EXPECT_EQ(Queue(view), "JOBID,NODELIST(REASON)\n2,\"0,1\"\n");
  view.output = "json";
  EXPECT_NE(Queue(view).find("\"state\": \"Running\""), std::string::npos);
  view.states = {"F"};
  EXPECT_EQ(Queue(view), "[]\n");
}

TEST(Gqueue, StatesMatchNamesAndCodes) {
  EXPECT_EQ(*ParseGflowState("Running"), "R");
  EXPECT_EQ(*ParseGflowState("pd"), "PD");
  EXPECT_FALSE(ParseGflowState("Sleeping"));
}

TEST(Ginfo, GroupsGpusByTheirJob) {
  auto first = Gpu(0, "allocated"), second = Gpu(3, "allocated"), stranger = Gpu(2, "unmanaged");
  first.jobs = second.jobs = {JobId(2)};
  wire::GpuProcessView process;
  process.pid = 4242;
  process.user = "bob";
  process.command = "python";
  process.memory_bytes = std::int64_t{18} << 30;
  process.age_s = 7200;
  stranger.processes = {process};
  EXPECT_EQ(RenderGinfo({first, Gpu(1, "free"), stranger, second, Gpu(4, "free")}, {Job(2, "train", "running")}),
            "PARTITION  GPUS  NODES  STATE      JOB(REASON)\n"
            "gpu        2     1,4    idle\n"
            "gpu        2     0,3    allocated  2 (train)\n"
            "gpu        1     2      unmanaged  pid 4242 bob python 18 GiB, for 2 h (gctl gpu-process ignore --gpu 2 "
            "--pid 4242)\n");
}

TEST(Ginfo, NamesArrayElementsByTheirDisplayId) {
  wire::GpuView gpu = Gpu(0, "allocated");
  gpu.jobs = {JobId(23)};
  wire::JobView element = Job(23, "train", "running");
  element.display_id = "22_0";
  EXPECT_EQ(RenderGinfo({gpu}, {element}),
            "PARTITION  GPUS  NODES  STATE      JOB(REASON)\n"
            "gpu        1     0      allocated  22_0 (train)\n");
}

TEST(Ginfo, NamesAllJobsThatShareAGpu) {
  auto shared = Gpu(0, "allocated"), alone = Gpu(1, "allocated");
  shared.jobs = {JobId(2), JobId(3)};
  alone.jobs = {JobId(2)};
  EXPECT_EQ(RenderGinfo({shared, alone}, {Job(2, "train", "running"), Job(3, "serve", "running")}),
            "PARTITION  GPUS  NODES  STATE      JOB(REASON)\n"
            "gpu        1     1      allocated  2 (train)\n"
            "gpu        1     0      allocated  2 (train), 3 (serve)\n");
}

TEST(Gbatch, ASingleArgumentWithShellSyntaxRunsInAShell) {
  EXPECT_EQ(GbatchCommand({"cd a && ls"}), (Words{"sh", "-c", "cd a && ls"}));
  EXPECT_EQ(GbatchCommand({"python", "a b.py"}), (Words{"python", "a b.py"}));
  EXPECT_EQ(GbatchCommand({"hostname"}), (Words{"hostname"}));
  EXPECT_EQ(GbatchName({"A=1 /usr/bin/python train.py"}), "python");
}

TEST(Gbatch, AQuotedArrayIndexIsExpandedInTheJob) {
  EXPECT_EQ(GbatchCommand({"python", "t.py", "--i", "$GFLOW_ARRAY_TASK_ID"}),
            (Words{"sh", "-c", "exec python t.py --i \"$GFLOW_ARRAY_TASK_ID\""}));
  EXPECT_EQ(GbatchCommand({"t", "a ${GFLOW_ARRAY_TASK_ID}$b"})[2], "exec t 'a '\"$GFLOW_ARRAY_TASK_ID\"'$b'");
}

TEST(Gbatch, ASubcommandOfAnotherToolIsNotSubmitted) {
  EXPECT_NE(MistakenVerb({"queue"}, false).find("gqueue"), std::string::npos);
  EXPECT_EQ(MistakenVerb({"queue"}, true), "");
  EXPECT_EQ(MistakenVerb({"python", "x"}, false), "");
}

TEST(Gjob, RemovesTerminalColorsFromALog) {
  EXPECT_EQ(CleanLog("\x1b[1mhi\x1b[0m\n 10%\r 50%\r100%\nend\r\n"), "hi\n100%\nend\n");
  EXPECT_EQ(CleanLog("\x1b]0;title\ax\x1b"), "x");
}

TEST(Gjob, SelectsLinesOfALog) {
  EXPECT_EQ(SliceLines("a\nb\nc\n", 2), "a\nb\n");
  EXPECT_EQ(SliceLines("a\nb\nc\n", -2), "b\nc\n");
  EXPECT_EQ(SliceLines("a\nb", -9), "a\nb");
}

TEST(Gjob, RedoSubmitsAgainWithChanges) {
  wire::JobDetail old;
  old.display_id = "7";
  old.command = "python train.py --lr 0.1";
  old.request.gpus = 1;
  wire::JobUpdate changes;
  std::vector<dialect::Option> options = GjobUpdateOptions(changes);
  ASSERT_TRUE(dialect::ParseOptions(options, Words{"--gpus", "4", "-p", "50"}));
  auto spec = SpecToRedo(old, changes);
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->request.gpus, 4);
  EXPECT_EQ(spec->priority, 40);
  EXPECT_EQ(spec->command, (Words{"sh", "-c", "python train.py --lr 0.1"}));
  EXPECT_EQ(ReplaceDependency({"afterok:7", "afterok:17"}, "7", "40"), (Words{"afterok:40", "afterok:17"}));
}

TEST(Gjob, RefusesToChangeFixedFields) {
  wire::JobUpdate changes;
  auto parsed = dialect::ParseOptions(GjobUpdateOptions(changes), Words{"--param", "lr=1"});
  ASSERT_FALSE(parsed);
  EXPECT_NE(parsed.error().message.find("submit it again"), std::string::npos);
}

TEST(Gjob, ChangesTheDependenciesOfAJob) {
  wire::JobUpdate changes;
  ASSERT_TRUE(dialect::ParseOptions(
      GjobUpdateOptions(changes),
      Words{"--depends-on-any", "3,4", "--no-auto-cancel-on-dep-failure", "--project", "P", "-c", "true"}));
  EXPECT_EQ(changes.dependencies, (Words{"afterok:3?afterok:4"}));
  EXPECT_EQ(changes.keeps_waiting, true);
  EXPECT_EQ(changes.project, "P");
  EXPECT_EQ(changes.command, (Words{"sh", "-c", "true"}));
  wire::JobUpdate all;
  ASSERT_TRUE(dialect::ParseOptions(GjobUpdateOptions(all), Words{"--depends-on-all", "3,4"}));
  EXPECT_EQ(all.dependencies, (Words{"afterok:3,afterok:4"}));
}

TEST(GflowWords, ClockShowsHoursAndDays) {
  EXPECT_EQ(LongClock(0), "00:00:00");
  EXPECT_EQ(LongClock(923.7), "00:15:23");
  EXPECT_EQ(LongClock(86400 + 3 * 3600 + 5), "1-03:00:05");
}

TEST(GflowWords, IdListsKeepRanges) {
  EXPECT_EQ(*ParseIdList("1-3, 7,@"), (Words{"1-3", "7", "@"}));
  EXPECT_FALSE(ParseIdList("1,,2"));
}

}  // namespace gflow_test
}  // namespace divvy::cli
