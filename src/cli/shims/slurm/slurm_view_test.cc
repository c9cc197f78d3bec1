// Slurm's listings of made-up jobs. The expected texts come from Slurm 22.05 with the same jobs.
#include "cli/shims/slurm_look/slurm_view.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <memory>

#include "base/text.h"
#include "cli/shims/slurm/slurm_show.h"
#include "cli/shims/slurm/slurm_update.h"
#include "cli/shims/slurm_look/slurm_accounting.h"
#include "cli/shims/slurm_look/slurm_common.h"
#include "cli/shims/slurm_look/slurm_fetch.h"
#include "cli/shims/slurm_look/slurm_nodes.h"
#include "cli/shims/slurm_look/slurm_queue.h"

namespace divvy::cli::slurm {
namespace slurm_view_test {

constexpr double kNow = 1'772'452'800;  // 2026-03-02 12:00:00 UTC.

Scene Here() {
  ::setenv("TZ", "UTC", 1);
  ::tzset();
  Scene scene;
  scene.hostname = "n1";
  scene.now = kNow;
  scene.cpus = 32;
  scene.memory_mib = 1024;
  return scene;
}

wire::JobView Job(std::uint64_t id, const std::string& state, const std::string& name = "wrap") {
  wire::JobView job;
  job.id = JobId(id);
  job.display_id = std::to_string(id);
  job.name = name;
  job.user = "root";
  job.state = state;
  job.submit_time = kNow - 100;
  job.eligible_time = kNow - 100;
  if (state == "running" || state == "failed" || state == "succeeded") job.start_time = kNow - 5;
  return job;
}

std::vector<QueueRow> Rows(const std::vector<wire::JobView>& jobs) {
  std::vector<QueueRow> rows;
  for (const wire::JobView& job : jobs) rows.push_back({job, std::nullopt});
  return rows;
}

std::string Queue(const std::vector<wire::JobView>& jobs, std::string_view letters, bool has_header = true) {
  QueueFormat format;
  format.letters = letters;
  format.has_header = has_header;
  const auto text = FormatQueue(Rows(jobs), format, Here());
  return text ? *text : "ERROR " + text.error().message;
}

TEST(Squeue, DefaultColumnsAreThoseOfSlurm) {
  wire::JobView array = Job(2, "queued");
  array.display_id = "2_[2-9]";
  array.array_indices = "2-9";
  array.array_at_once = 2;
  array.reason = "array 2 runs 2 of at most 2";  // Worded as by the controller.
  wire::JobView held = Job(3, "held");
  wire::JobView waits = Job(4, "queued");
  waits.dependencies = {"afterok:1"};
  waits.eligible_time.reset();
  wire::JobView begins = Job(5, "queued");
  begins.eligible_time.reset();
  wire::JobView first = Job(6, "queued");
  first.position = 1;
  wire::JobView second = Job(7, "queued");
  second.position = 2;
  wire::JobView runs = Job(1, "running", "train");
  EXPECT_EQ(Queue({array, held, waits, begins, first, second, runs}, kQueueDefault),
            "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)\n"
            "         2_[2-9%2]      main     wrap     root PD       0:00      1 (JobArrayTaskLimit)\n"
            "                 3      main     wrap     root PD       0:00      1 (JobHeldUser)\n"
            "                 4      main     wrap     root PD       0:00      1 (Dependency)\n"
            "                 5      main     wrap     root PD       0:00      1 (BeginTime)\n"
            "                 6      main     wrap     root PD       0:00      1 (Resources)\n"
            "                 7      main     wrap     root PD       0:00      1 (Priority)\n"
            "                 1      main    train     root  R       0:05      1 n1\n");
}

TEST(Squeue, ShowsThePartitionAccountAndQosOfTheJob) {
  wire::JobView job = Job(6, "running");
  job.pool = "gpu";
  job.account = "vision";
  job.qos = "high";
  EXPECT_EQ(Queue({job, Job(7, "running")}, "%P %a %q", false), "gpu vision high\nmain (null) (null)\n");
  EXPECT_EQ(PoolsOf({"gpu"}), std::vector<std::string>{"gpu"});
  EXPECT_EQ(PoolsOf({"main"}), (std::vector<std::string>{"main", ""})) << "who names none is in main";
}

TEST(Squeue, AGroupLimitIsNotShownAsAnArrayTaskLimit) {
  wire::JobView job = Job(6, "queued");
  job.group = "sweep";
  job.reason = "sweep runs 2 of at most 2";
  EXPECT_EQ(ReasonCode(job), "AssocGrpJobsLimit");
}

TEST(Squeue, AGpuLimitOrQuotaIsNotShownAsAJobLimit) {
  wire::JobView job = Job(6, "queued");
  for (const char* reason : {"team vision runs 2 GPUs of at most 2 GPUs; this needs 1 GPU more",
                             "the quota of team vision is in use: its non-preemptible jobs hold 2 of 2 GPUs",
                             "3 GPUs exceed team vision's quota of 2 and the job may not borrow"}) {
    job.reason = reason;
    EXPECT_EQ(ReasonCode(job), "AssocGrpGRES") << reason;
  }
}

TEST(Squeue, APoolThatStartsNoJobsIsShownAsDown) {
  wire::JobView job = Job(6, "queued");
  job.position = 1;
  job.reason = "an administrator: pool gpu starts no jobs: its state is down";
  EXPECT_EQ(ReasonCode(job), "PartitionDown");
  job.reason = "an administrator: pool gpu starts no jobs: its state is inactive";
  EXPECT_EQ(ReasonCode(job), "PartitionInactive");
}

TEST(Squeue, WithStepsTheHeaderIsThatOfSteps) {
  QueueFormat format;
  format.letters = kQueueSteps;
  format.is_of_steps = true;
  EXPECT_EQ(FormatQueue({}, format, Here())->substr(0, 16), "         STEPID ");
}

TEST(Squeue, StepsHaveTheirOwnColumns) {
  wire::JobView step = Job(17, "running", "solve");
  step.display_id = "17.3";
  QueueRow row{step, std::nullopt};
  row.step_tasks = 64;
  QueueFormat format;
  format.is_of_steps = true;
  format.letters = "%i %j %A %M %N";
  EXPECT_EQ(*FormatQueue({row}, format, Here()), "STEPID NAME TASKS TIME NODELIST\n17.3 solve 64 0:05 n1\n");
  format.names = "stepid:5,stepname:6,stepstate:8,numtasks:3,jobid:3,jobarrayid:3,name:5,nodelist:2";
  EXPECT_EQ(*FormatQueue({row}, format, Here()),
            "STEPINAME  STATE   TASJOBJOBNAME NO\n17.3 solve RUNNING 64 17 17 solven1\n");
  format.names = "stepid,nonsense";
  EXPECT_EQ(FormatQueue({}, format, Here()).error().message, "Invalid job step format specification: nonsense");
  format.is_of_steps = false;
  format.names = "stepid";
  EXPECT_FALSE(FormatQueue({}, format, Here()));
}

TEST(Squeue, AJobIsInThePartitionThatItRunsInOrAllThatItWaitsFor) {
  wire::JobView job = Job(17, "queued");
  EXPECT_TRUE(IsInOneOf({}, job));
  EXPECT_TRUE(IsInOneOf({"main"}, job)) << "it named none";
  EXPECT_FALSE(IsInOneOf({"a"}, job));
  job.pool = "a,b";
  EXPECT_TRUE(IsInOneOf({"x", "b"}, job));
  EXPECT_FALSE(IsInOneOf({"x", "a,b"}, job));
}

TEST(Squeue, LongColumnsAreThoseOfSlurm) {
  wire::JobView job = Job(6, "queued");
  job.request.time_limit_s = 600;
  job.position = 2;
  EXPECT_EQ(Queue({job, Job(1, "running", "train")}, kQueueLong),
            "             JOBID PARTITION     NAME     USER    STATE       TIME TIME_LIMI  NODES NODELIST(REASON)\n"
            "                 6      main     wrap     root  PENDING       0:00     10:00      1 (Priority)\n"
            "                 1      main    train     root  RUNNING       0:05 UNLIMITED      1 n1\n");
}

TEST(Squeue, ReadsFieldLettersWidthsAndSuffixes) {
  const wire::JobView job = Job(17, "running", "a-long-name");
  EXPECT_EQ(Queue({job}, "%i|%T|%M", false), "17|RUNNING|0:05\n");
  EXPECT_EQ(Queue({job}, "%.5i X%4j<%t>"), "JOBID XNAME<ST>\n   17 Xa-lo<R>\n");
  EXPECT_EQ(Queue({job}, "id=%A", false), "id=17\n");
  EXPECT_EQ(Queue({job}, "%S %e %l", false), "2026-03-02T11:59:55 N/A UNLIMITED\n");
  EXPECT_EQ(Queue({job}, "%f"), "FEATURES\n(null)\n");
  EXPECT_EQ(Queue({job}, "%?"), "ERROR Invalid job format specification: ?");
}

TEST(Squeue, NamedFieldsAreTwentyCharactersWide) {
  QueueFormat format;
  format.names = "jobid,name:5,state:.9x";
  EXPECT_EQ(*FormatQueue(Rows({Job(17, "running", "train-all")}), format, Here()),
            "JOBID               NAME     STATEx\n17                  train  RUNNINGx\n");
  format.names = "jobid,nonsense";
  EXPECT_FALSE(FormatQueue({}, format, Here()));
}

TEST(Squeue, RequestsJobDetailsOnlyForColumnsThatNeedThem) {
  EXPECT_FALSE(QueueNeedsDetail({.letters = "%i %t %R", .names = "", .sort = "", .has_header = true}));
  EXPECT_TRUE(QueueNeedsDetail({.letters = "%i %Z", .names = "", .sort = "", .has_header = true}));
  EXPECT_TRUE(QueueNeedsDetail({.letters = "", .names = "jobid,stdout", .sort = "", .has_header = true}));
  wire::JobDetail detail;
  detail.directory = "/w";
  detail.output = "/w/slurm-17.out";
  detail.labels = {{"slurm.script", "/w/t.sh"}, {"slurm.cpus-per-task", "4"}};
  QueueRow row{Job(17, "running"), std::nullopt, std::make_shared<const wire::JobDetail>(detail)};
  QueueFormat format{.letters = "%Z|%o|%v", .names = "", .sort = "", .has_header = false};
  EXPECT_EQ(*FormatQueue({row}, format, Here()), "/w|/w/t.sh|(null)\n");
  format.names = "stdout:.16,stderr:16,cpus-per-task:.2";
  EXPECT_EQ(*FormatQueue({row}, format, Here()), " /w/slurm-17.out/w/slurm-17.out  4\n");
  const std::string json = QueueJson({row}, Here(), JsonSchema::k38);
  for (const char* part :
       {"\"errors\":[]", "\"job_id\":17", "\"job_state\":\"RUNNING\"", "\"standard_output\":\"/w/slurm-17.out\"",
        "\"current_working_directory\":\"/w\"", "\"cpus_per_task\":4"}) {
    EXPECT_NE(json.find(part), std::string::npos) << part << "\n" << json;
  }
}

TEST(Squeue, AllShowsEveryColumn) {
  const std::string text = Queue({Job(17, "running", "train")}, "%all");
  EXPECT_EQ(text.find("JOBID|"), 0u);
  EXPECT_NE(text.find("|train|"), std::string::npos);
  QueueFormat format;
  format.names = "ALL";
  EXPECT_TRUE(FormatQueue(Rows({Job(17, "running")}), format, Here()));
}

TEST(Squeue, SortsByFieldLetters) {
  QueueFormat format;
  format.letters = "%i";
  format.sort = "t,-i";
  format.has_header = false;
  EXPECT_EQ(*FormatQueue(Rows({Job(9, "running"), Job(10, "running"), Job(3, "queued")}), format, Here()),
            "3\n10\n9\n");
  for (const char* wrong : {"zz", "t,?"}) {
    format.sort = wrong;
    const auto refused = FormatQueue(Rows({Job(9, "running")}), format, Here());
    ASSERT_FALSE(refused) << wrong;
    EXPECT_TRUE(refused.error().message.starts_with("Invalid sort specification: ")) << refused.error().message;
  }
}

TEST(Squeue, WaitingJobsComeFirstInQueueOrder) {
  std::vector<wire::JobView> jobs = {Job(1, "running"), Job(5, "queued"), Job(4, "queued"), Job(6, "held"),
                                     Job(7, "stopping")};
  jobs[1].position = 1;
  jobs[2].position = 2;
  SortLikeSqueue(jobs);
  std::string order;
  for (const wire::JobView& job : jobs) order += ToString(job.id) + " ";
  EXPECT_EQ(order, "5 4 6 1 7 ");
}

TEST(Squeue, ArraysAreSplitIntoTheirElements) {
  wire::JobView array = Job(2, "queued");
  array.display_id = "2_[1-2,5]";
  array.array_indices = "1-2,5";
  array.count = 3;
  EXPECT_EQ(Queue(SplitArrays({array, Job(9, "running")}), "%i %F %K", false), "2_1 2 1\n2_2 2 2\n2_5 2 5\n9 9 N/A\n");
}

TEST(Squeue, FinalStatesHaveSlurmsNames) {
  EXPECT_EQ(Queue({Job(1, "failed"), Job(2, "succeeded"), Job(3, "cancelled"), Job(4, "timed_out"), Job(5, "lost")},
                  "%i %t %T %R", false),
            "1 F FAILED (NonZeroExitCode)\n2 CD COMPLETED n1\n3 CA CANCELLED \n4 TO TIMEOUT (TimeLimit)\n5 NF "
            "NODE_FAIL (NodeDown)\n");
  EXPECT_EQ(StatesOf("pd"), (std::vector<std::string>{"held", "queued"}));
  EXPECT_TRUE(StatesOf("foo").empty());
  EXPECT_FALSE(StatesOf("PREEMPTED").empty());
}

TEST(Times, EachCommandHasItsOwnFormat) {
  EXPECT_EQ(Elapsed(5), "0:05");
  EXPECT_EQ(Elapsed(3723), "1:02:03");
  EXPECT_EQ(Elapsed(90000), "1-01:00:00");
  EXPECT_EQ(LongElapsed(5), "00:00:05");
  EXPECT_EQ(LongElapsed(90000), "1-01:00:00");
  EXPECT_EQ(Moment(std::nullopt), "N/A");
}

wire::GpuView Gpu(int index, const std::string& state) {
  wire::GpuView gpu;
  gpu.index = index;
  gpu.model = "NVIDIA H100 80GB HBM3";
  gpu.state = state;
  return gpu;
}

NodeRow Node() {
  NodeRow row;
  row.status.accepts_work = true;
  row.gpus = {Gpu(0, "allocated"), Gpu(1, "free"), Gpu(2, "allocated"), Gpu(3, "allocated")};
  row.jobs = {Job(1, "running")};
  row.scene = Here();
  return row;
}

TEST(Sinfo, ListingsMatchSlurms) {
  EXPECT_EQ(*FormatNodes({Node()}, kInfoDefault, "", true),
            "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\n"
            "main*        up   infinite      1    mix n1\n");
  EXPECT_EQ(*FormatNodes({Node()}, kInfoNode, "", true),
            "NODELIST   NODES PARTITION STATE \n"
            "n1             1     main* mix   \n");
  EXPECT_EQ(*FormatNodes({Node()}, kInfoSummary, "", true),
            "PARTITION AVAIL  TIMELIMIT   NODES(A/I/O/T) NODELIST\n"
            "main*        up   infinite          1/0/0/1 n1\n");
  EXPECT_EQ(*FormatNodes({Node()}, "%n %G %t %C", "", true),
            "HOSTNAMES GRES STATE CPUS(A/I/O/T)\nn1 gpu:nvidia_h100_80gb_hbm3:4 mix 1/31/0/32\n");
  EXPECT_EQ(*FormatNodes({Node()}, "", "gresused:50", false), "gpu:nvidia_h100_80gb_hbm3:3(IDX:0,2-3)            \n");
  EXPECT_FALSE(FormatNodes({Node()}, "%q", "", true));
}

TEST(Sinfo, ARequestedPartitionContainsTheServer) {
  NodeRow row = Node();
  row.partition = "gpu";
  EXPECT_EQ(*FormatNodes({row}, "%P %R %D", "", false), "gpu gpu 1\n");
  EXPECT_NE(ShowPartition({row}, false).find("PartitionName=gpu\n"), std::string::npos);
  EXPECT_NE(ShowPartition({row}, false).find("Default=NO"), std::string::npos);
  EXPECT_NE(NodesJson({Node()}).find("\"tres_used\":\"cpu=1,mem=1024M,gres/gpu=3\""), std::string::npos)
      << NodesJson({Node()});
}

TEST(Sinfo, EachNodeIsNamedOnceWithTheReasonAndItsAuthor) {
  NodeRow row = Node();
  row.view.reason = "fan, by root";
  NodeRow again = row;
  again.partition = "gpu";
  EXPECT_EQ(*FormatNodes({row, again}, kInfoReasons, "", false),
            "fan                  root      Unknown             n1\n");
  EXPECT_EQ(*FormatNodes({row, again}, "%P %D", "", false), "main* 1\ngpu 1\n");
  row.view.reason = "by root";
  EXPECT_EQ(*FormatNodes({row}, "%E %u", "", false), "none root\n");
}

TEST(Sinfo, AReservedNodeIsNotIdle) {
  NodeRow row = Node();
  row.view.state = "up";
  row.view.gpus = 2;
  row.jobs.clear();
  row.gpus = {Gpu(0, "reserved"), Gpu(1, "reserved")};
  row.gpus[0].reservation = row.gpus[1].reservation = "course";
  EXPECT_EQ(*FormatNodes({row}, "%t %F", "", false), "resv 0/0/1/1\n");
  const std::string node = ShowNode(row, true);
  EXPECT_NE(node.find(" State=IDLE+RESERVED "), std::string::npos) << node;
  EXPECT_NE(node.find(" ReservationName=course"), std::string::npos) << node;
  row.gpus[1] = Gpu(1, "free");
  EXPECT_EQ(NodeState(row), "idle");
  row.gpus[0].state = row.gpus[1].state = "restricted";
  row.view.gpus_restricted = {0, 1};
  EXPECT_EQ(*FormatNodes({row}, "%t %E", "", false), "drain GPUs restricted\n");
  row.gpus.clear();
  row.view.exclusive_job = "7";
  EXPECT_EQ(NodeState(row), "allocated");
}

TEST(Sinfo, StateFollowsTheGpus) {
  NodeRow row = Node();
  EXPECT_EQ(NodeState(row), "mixed");
  row.gpus[1].state = "allocated";
  EXPECT_EQ(NodeState(row), "allocated");
  row.gpus.clear();
  row.jobs.clear();
  EXPECT_EQ(NodeState(row), "idle");
  row.status.accepts_work = false;
  EXPECT_EQ(NodeState(row), "drained");
}

std::string Accounts(std::vector<AccountRow> rows, std::vector<std::string> fields, const std::string& delimiter = "",
                     bool has_header = true) {
  AccountFormat format{.fields = std::move(fields),
                       .style = {.delimiter = delimiter, .ends_with_delimiter = false, .has_header = has_header}};
  const auto text = FormatAccounts(rows, format, Here());
  return text ? *text : "ERROR " + text.error().message;
}

TEST(Sacct, DefaultColumnsAreThoseOfSlurm) {
  AccountRow job{.job = Job(17, "failed", "a-very-long-name")};
  job.job.exit_code = 3;
  job.job.end_time = kNow;
  AccountRow step = job;
  step.step = "batch";
  step.job.name = "batch";
  EXPECT_EQ(Accounts({job, step}, {"JobID", "JobName", "Partition", "Account", "AllocCPUS", "State", "ExitCode"}),
            "JobID           JobName  Partition    Account  AllocCPUS      State ExitCode \n"
            "------------ ---------- ---------- ---------- ---------- ---------- -------- \n"
            "17           a-very-lo+       main                     1     FAILED      3:0 \n"
            "17.batch          batch                                1     FAILED      3:0 \n");
}

TEST(Sacct, SupportsParsableOutputAndWidths) {
  AccountRow job{.job = Job(17, "cancelled", "train")};
  job.job.signal = 15;
  EXPECT_EQ(Accounts({job}, {"jobid", "STATE", "ExitCode", "Elapsed", "Start"}, "|"),
            "JobID|State|ExitCode|Elapsed|Start\n17|CANCELLED by 0|0:15|00:00:00|Unknown\n");
  EXPECT_EQ(Accounts({job}, {"State%5", "JobName%-8"}, "", false), "CANC+ train    \n");
  EXPECT_EQ(Accounts({}, {"Nonsense"}), "ERROR Invalid field requested: \"Nonsense\"");
  EXPECT_TRUE(NeedsDetail({"JobID", "maxrss%20"}));
  EXPECT_FALSE(NeedsDetail({"JobID", "State"}));
}

TEST(Sacct, FieldsAreFoundByPrefix) {
  const AccountRow job{.job = Job(17, "failed")};
  EXPECT_EQ(Accounts({job}, {"jobidr", "Alloc", "parti"}, "::", false), "17::1::main\n");
  const std::string names = AccountFieldNames();
  std::vector<std::string> all;
  for (const std::string_view name : SplitWords(names)) all.emplace_back(name);
  EXPECT_GE(all.size(), 110u);
  EXPECT_EQ(Accounts({job}, all, "|", false).find("ERROR"), std::string::npos);
}

TEST(Sacct, AnElasticJobsAllocationIsNotItsRequest) {
  AccountRow job{.job = Job(17, "running", "train")};
  job.job.request.gpus = 2;
  job.job.gpus = {0, 1, 2, 3};
  EXPECT_EQ(Accounts({job}, {"ReqGRES", "AllocGRES", "ReqTRES", "AllocTRES"}, "|", false),
            "gpu:2|gpu:4|cpu=1,node=1,billing=1,gres/gpu=2|cpu=1,node=1,billing=1,gres/gpu=4\n");
  const std::string json = AccountsJson({job}, Here(), JsonSchema::k38);
  const auto allocated = json.find("\"allocated\":");
  ASSERT_NE(allocated, std::string::npos) << json;
  EXPECT_NE(json.substr(0, allocated).find("\"name\":\"gpu\",\"count\":2"), std::string::npos) << json;
  EXPECT_NE(json.find("\"name\":\"gpu\",\"count\":4", allocated), std::string::npos) << json;
  job.job.request.gpu_type = "h100";
  job.job.request.cpus = 4;
  EXPECT_EQ(Accounts({job}, {"AllocGRES"}, "|", false), "gpu:h100:4\n");
  AccountRow waits{.job = Job(18, "queued")};
  EXPECT_EQ(Accounts({waits}, {"ReqGRES", "AllocGRES"}, "|", false), "|\n");
}

TEST(Sacct, JsonShowsHowAJobEnded) {
  AccountRow job{.job = Job(17, "cancelled", "train")};
  job.job.start_time = kNow - 9;
  job.job.signal = 15;
  job.labels = {{"slurm.wckey", "night"}};
  AccountRow step = job;
  step.step = "batch";
  step.job.name = "batch";
  const std::string json = AccountsJson({job, step}, Here(), JsonSchema::k38);
  for (const char* part : {"\"job_id\":17", "\"current\":\"CANCELLED\"", "\"status\":\"SIGNALED\"", "\"signal_id\":15",
                           "\"id\":\"17.batch\"", "\"wckey\":\"night\"", "\"type\":\"cpu\""}) {
    EXPECT_NE(json.find(part), std::string::npos) << part << "\n" << json;
  }
}

TEST(Slurm, TheNewerJsonHasObjectsForNumbersAndListsForStates) {
  AccountRow ended{.job = Job(17, "failed", "train")};
  ended.job.exit_code = 3;
  const std::string accounts = AccountsJson({ended}, Here(), JsonSchema::k40);
  for (const char* part : {"\"data_parser\":\"data_parser/v0.0.40\"", "\"current\":[\"FAILED\"]",
                           "\"exit_code\":{\"status\":[\"ERROR\"],\"return_code\":{\"set\":true,\"infinite\":false,"
                           "\"number\":3},\"signal\":{\"id\":{\"set\":false,",
                           "\"task_id\":{\"set\":false,"}) {
    EXPECT_NE(accounts.find(part), std::string::npos) << part << "\n" << accounts;
  }
  QueueRow row{Job(18, "running"), std::nullopt, nullptr};
  row.job.array_index = 0;
  const std::string queue = QueueJson({row}, Here(), JsonSchema::k40);
  for (const char* part : {"\"job_id\":18", "\"job_state\":[\"RUNNING\"]",
                           "\"array_task_id\":{\"set\":true,\"infinite\":false,\"number\":0}",
                           "\"time_limit\":{\"set\":false,\"infinite\":true,\"number\":0}"}) {
    EXPECT_NE(queue.find(part), std::string::npos) << part << "\n" << queue;
  }
}

TEST(Arrays, AWholeArrayIsSummarizedFromItsElements) {
  wire::JobView array = Job(2, "queued");
  array.array_indices = "3";
  EXPECT_TRUE(IsWholeArray(array)) << "one element is left to begin";
  array.array_indices.clear();
  array.count = 0;
  EXPECT_TRUE(IsWholeArray(array));
  wire::JobView element = Job(3, "running");
  element.array_id = JobId(2);
  element.array_index = 0;
  EXPECT_FALSE(IsWholeArray(element));
  EXPECT_FALSE(IsWholeArray(Job(4, "running")));
}

TEST(Scontrol, DetailsNameTheGpusOfEachNode) {
  wire::JobDetail job;
  job.id = JobId(17);
  job.state = "running";
  job.start_time = kNow - 65;
  job.gpus = {0, 1, 3};
  const std::string text = ShowJob(job, Here(), {.is_one_line = false, .has_details = true});
  EXPECT_NE(text.find("     Nodes=n1 CPU_IDs=(null) Mem=0 GRES=gpu:3(IDX:0-1,3)\n"), std::string::npos) << text;
}

TEST(Scontrol, ShowsAJobInSlurmsFormat) {
  wire::JobDetail job;
  job.id = JobId(17);
  job.name = "train";
  job.user = "root";
  job.state = "running";
  job.start_time = kNow - 65;
  job.submit_time = kNow - 100;
  job.request.gpus = 2;
  job.request.time_limit_s = 3600;
  job.gpus = {0, 3};
  job.directory = "/w";
  job.output = "/w/slurm-17.out";
  job.pool = "gpu";
  job.account = "vision";
  job.qos = "high";
  job.labels = {{"slurm.script", "t.sh"}};
  const std::string text = ShowJob(job, Here(), {});
  for (const char* part :
       {"JobId=17 JobName=train\n   UserId=root(0)", "JobState=RUNNING Reason=None Dependency=(null)\n",
        "Account=vision QOS=high", "Partition=gpu ", "RunTime=00:01:05 TimeLimit=01:00:00",
        "StartTime=2026-03-02T11:58:55 EndTime=2026-03-02T12:58:55", "NodeList=n1\n", "Command=t.sh\n", "WorkDir=/w\n",
        "StdOut=/w/slurm-17.out\n", "TresPerNode=gres:gpu:2\n", "GRES=gpu:2(IDX:0,3)"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  const std::string line = ShowJob(job, Here(), {.is_one_line = true, .has_details = false});
  EXPECT_EQ(line.find('\n'), line.size() - 1);
}

Result<UpdateWish> Update(const std::vector<std::string>& words) {
  dialect::ParseContext around;
  around.now = TimeFromSeconds(kNow);
  return ReadUpdate(words, around, [](const std::string&) -> Result<wire::JobDetail> {
    wire::JobDetail job;
    job.request.time_limit_s = 600;
    return job;
  });
}

TEST(Scontrol, ReadsUpdatesInSlurmsSyntax) {
  const auto wish = Update({"JobId=17", "TimeLimit=+30", "Gres=gpu:a100:2", "Name=x", "Partition=long", "Nice=10",
                            "QOS=high", "StdErr=e", "Requeue=1"});
  ASSERT_TRUE(wish) << wish.error().message;
  EXPECT_EQ(wish->update.select.ids, (std::vector<std::string>{"17"}));
  EXPECT_EQ(*wish->update.time_limit_s, 2400);
  EXPECT_EQ(*wish->update.gpus, 2);
  EXPECT_EQ(*wish->update.gpu_type, "a100");
  EXPECT_EQ(*wish->update.priority, -10);
  EXPECT_EQ(*wish->update.pool, "long");
  EXPECT_EQ(*wish->update.error, "e");
  EXPECT_EQ(wish->update.requeues_after_reboot, true);
  EXPECT_EQ(wish->notes.size(), 1u);
  EXPECT_EQ(Update({"JobId=17", "Priority=0"})->holds, true);
  EXPECT_EQ(Update({"jobid=17", "timelimit-=5"})->update.time_limit_s, 300);
  EXPECT_FALSE(Update({"JobId=17", "TimeLimit=-30"}));
  EXPECT_FALSE(Update({"TimeLimit=5"}));
  EXPECT_FALSE(Update({"JobId=17", "Colour=red"}));
  EXPECT_FALSE(Update({"JobId=17", "Gres=gpu:1:a100"}));
  EXPECT_FALSE(Update({"JobId=17", "hello"}));
}

TEST(JobIds, CommasInsideBracketsDoNotSeparateIds) {
  EXPECT_EQ(*SplitJobIds("17,18_[1-3,5],19_2"), (std::vector<std::string>{"17", "18_[1-3,5]", "19_2"}));
  for (const char* wrong : {"abc", "17;rm", "18_[1", "-1", "1,x"}) EXPECT_FALSE(SplitJobIds(wrong)) << wrong;
}

TEST(JobIds, ReadsAStepAfterADot) {
  for (const char* right : {"17.batch", "17.extern", "17_3.interactive", "17.0", "17_[1-3:2%2].12", "@", "@~1", "17+1"})
    EXPECT_TRUE(SplitJobIds(right)) << right;
  for (const char* wrong : {"17bent", "17batch", "17.", "17.bat", "17.0x", "17.batch.0", ".batch", "@.1e"})
    EXPECT_FALSE(SplitJobIds(wrong)) << wrong;
}

}  // namespace slurm_view_test
}  // namespace divvy::cli::slurm
