// Slurm's listings of jobs and nodes on a cluster with several nodes.
#include "cli/shims/slurm_look/slurm_places.h"

#include <gtest/gtest.h>

#include "cli/shims/slurm/slurm_show.h"
#include "cli/shims/slurm/slurm_update.h"
#include "cli/shims/slurm_look/slurm_accounting.h"
#include "cli/shims/slurm_look/slurm_nodes.h"
#include "cli/shims/slurm_look/slurm_queue.h"

namespace divvy::cli::slurm {
namespace slurm_places_test {

using Names = std::vector<std::string>;
constexpr double kNow = 1'772'452'800;

Scene Here() {
  Scene scene;
  scene.hostname = "head";
  scene.now = kNow;
  scene.cpus = 32;
  scene.memory_mib = 1024;
  return scene;
}

wire::JobView Job(std::uint64_t id, const std::string& state) {
  wire::JobView job;
  job.id = JobId(id);
  job.display_id = std::to_string(id);
  job.name = "train";
  job.user = "root";
  job.state = state;
  job.request.gpus = 4;
  job.request.cpus = 8;
  job.request.memory_bytes = std::int64_t{16} << 30;
  if (state == "running") job.start_time = kNow - 5;
  return job;
}

/// A job on n1 to n3, with the batch script on n1.
wire::JobView Gang(std::uint64_t id = 7) {
  wire::JobView job = Job(id, "running");
  job.request.nodes = 3;
  job.request.tasks = 6;
  job.node = "n1";
  job.gpus = {0, 1, 2, 3};
  job.allocations = {{"n1", {0, 1, 2, 3}, 2}, {"n2", {4, 5, 6, 7}, 2}, {"n3", {0, 1, 2, 3}, 2}};
  return job;
}

std::string Queue(const wire::JobView& job, const std::string& letters) {
  QueueFormat format{.letters = letters, .names = "", .sort = "", .has_header = false};
  const auto text = FormatQueue({{job, std::nullopt, nullptr}}, format, Here());
  return text ? *text : "ERROR " + text.error().message;
}

TEST(NodesOfJobs, AJobOnSeveralNodesIsShownOnAllOfThem) {
  EXPECT_EQ(Queue(Gang(), "%N %B %D %C %c %R %b"), "n[1-3] n1 3 24 8 n[1-3] gres:gpu:4\n");
  wire::JobView waiting = Job(8, "queued");
  waiting.request.nodes = 3;
  waiting.request.constraint = "ib";
  waiting.request.gpu_type = "a100";
  waiting.request.node_list = {"n1", "n2", "n3", "n4"};
  waiting.request.excluded_nodes = {"n9"};
  waiting.position = 1;
  waiting.eligible_time = kNow;
  EXPECT_EQ(Queue(waiting, "<%N> %B %D %C %R %f %n %x"), "<> n/a 3 24 (Resources) a100&ib n[1-4] n9\n");
  const std::string json = QueueJson({{Gang(), std::nullopt, nullptr}}, Here(), JsonSchema::k38);
  for (const char* part : {"\"nodes\":\"n[1-3]\"", "\"batch_host\":\"n1\"", "\"node_count\":3",
                           "\"gres_detail\":[\"gpu:4(IDX:0-3)\",\"gpu:4(IDX:4-7)\",\"gpu:4(IDX:0-3)\"]",
                           "\"tres_alloc_str\":\"cpu=24,mem=48G,node=3,billing=24,gres/gpu=12\""}) {
    EXPECT_NE(json.find(part), std::string::npos) << part << " in " << json;
  }
}

TEST(NodesOfJobs, ANodeWithoutANameIsTheController) {
  wire::JobView job = Job(7, "running");
  EXPECT_EQ(Queue(job, "%N %B %D"), "head head 1\n");
  job.node = "n2";
  EXPECT_EQ(Queue(job, "%N %B %D"), "n2 n2 1\n");
  EXPECT_TRUE(IsOnOneOf(job, {"n1", "n2.lab"}, Here()));
  EXPECT_FALSE(IsOnOneOf(job, {"n1", "localhost"}, Here()));
  EXPECT_TRUE(IsOnOneOf(Gang(), {"n3"}, Here()));
  EXPECT_FALSE(IsOnOneOf(Job(8, "queued"), {"head"}, Here()));
  EXPECT_TRUE(IsOnOneOf(Job(8, "starting"), {"localhost"}, Here()));
}

TEST(NodesOfJobs, CpusFollowTheTaskCountOfEachNode) {
  wire::JobView job = Job(7, "running");
  job.request.tasks = 4;
  job.request.spreads_tasks = true;
  job.allocations = {{"", {0, 1, 2}, 3}, {"n1", {5}, 1}};
  const std::vector<Place> places = PlacesOf(job, Here());
  ASSERT_EQ(places.size(), 2u);
  EXPECT_EQ(places[0].host, "head");
  EXPECT_EQ(places[0].cpus, 6);
  EXPECT_EQ(places[1].cpus, 2);
  EXPECT_EQ(places[1].memory_bytes, std::int64_t{4} << 30);
  EXPECT_EQ(Queue(job, "%N %D %C %b"), "head,n1 2 8 N/A\n");
}

TEST(NodesOfJobs, ScontrolShowsEachNode) {
  wire::JobDetail detail;
  const wire::JobView view = Gang();
  detail.id = view.id;
  detail.state = view.state;
  detail.start_time = view.start_time;
  detail.request = view.request;
  detail.gpus = view.gpus;
  detail.node = view.node;
  detail.allocations = view.allocations;
  const std::string text = ShowJob(detail, Here(), {.is_one_line = false, .has_details = true});
  for (const char* part :
       {"NodeList=n[1-3]\n", "BatchHost=n1\n", "NumNodes=3 NumCPUs=24 NumTasks=6 ", "JOB_GRES=gpu:12\n",
        "  Nodes=n2 CPU_IDs=(null) Mem=16384 GRES=gpu:4(IDX:4-7)\n", "TresPerNode=gres:gpu:4\n", "MinCPUsNode=8 "}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
  }
}

TEST(NodesOfJobs, AccountingCountsAllNodes) {
  AccountRow row{.job = Gang()};
  AccountFormat format{.fields = {"NodeList", "NNodes", "AllocTRES", "ReqMem", "AllocCPUS", "ReqGRES"},
                       .style = {.delimiter = "|", .ends_with_delimiter = false, .has_header = false}};
  EXPECT_EQ(*FormatAccounts({row}, format, Here()),
            "n[1-3]|3|cpu=24,mem=48G,node=3,billing=24,gres/gpu=12|48G|24|gpu:12\n");
}

NodeRow Node(const std::string& name, const std::string& state, int used, int free) {
  NodeRow row;
  row.status.accepts_work = true;
  row.view.name = name;
  row.view.state = state;
  row.view.is_controller = name == "head";
  for (int index = 0; index < used + free; ++index) {
    wire::GpuView gpu;
    gpu.index = index;
    gpu.model = "H100";
    gpu.state = index < used ? "allocated" : "free";
    row.gpus.push_back(gpu);
  }
  row.scene = Here();
  return row;
}

std::vector<NodeRow> Cluster() {
  std::vector<NodeRow> rows = {Node("head", "up", 0, 0), Node("n1", "up", 4, 4), Node("n2", "up", 4, 4),
                               Node("n3", "up", 0, 8)};
  rows[1].jobs = rows[2].jobs = {Gang()};
  rows[2].view.labels = {{"pool", "big,long"}, {"features", "nvme,ssd"}, {"os", "12"}};
  rows[3].view.labels = {{"pool", "big"}};
  return rows;
}

TEST(Nodes, EqualNodesShareALine) {
  EXPECT_EQ(*FormatNodes(Cluster(), kInfoDefault, "", true),
            "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\n"
            "main*        up   infinite      2   idle head,n3\n"
            "main*        up   infinite      2    mix n[1-2]\n");
  EXPECT_EQ(*FormatNodes(Cluster(), "%N %t %C %F %A", "", false),
            "head,n3 idle 0/64/0/64 0/2/0/2 0/2\nn[1-2] mix 16/48/0/64 2/0/0/2 2/0\n");
  EXPECT_EQ(*FormatNodes(Cluster(), kInfoNode, "", false, true),
            "head           1     main* idle  \nn1             1     main* mix   \n"
            "n2             1     main* mix   \nn3             1     main* idle  \n");
}

TEST(Nodes, StatesAreThoseOfSlurm) {
  const auto state = [](const std::string& of, int used) {
    NodeRow row = Node("n1", of, used, 1);
    if (used > 0) row.jobs = {Gang()};
    return NodeState(row) + " " + CompactState(row);
  };
  EXPECT_EQ(state("up", 0), "idle idle");
  EXPECT_EQ(state("up", 1), "mixed mix");
  EXPECT_EQ(state("cordoned", 1), "draining drng");
  EXPECT_EQ(state("cordoned", 0), "drained drain");
  EXPECT_EQ(state("draining", 1), "draining drng");
  EXPECT_EQ(state("drained", 0), "drained drain");
  EXPECT_EQ(state("lost", 1), "down* down*");
  EXPECT_EQ(state("away", 1), "mixed* mix*");
  EXPECT_EQ(state("awaited", 0), "unknown* unk*");
}

TEST(Nodes, PoolsArePartitions) {
  const std::vector<NodeRow> rows = Cluster();
  EXPECT_EQ(PartitionsOf(rows), (Names{"main", "big", "long"}));
  EXPECT_EQ(*FormatNodes(NodesIn(rows, "big"), "%P %N", "", false), "big n[2-3]\n");
  EXPECT_EQ(NodesIn(rows, "somewhere").size(), rows.size()) << "a label";
  const std::string text = ShowPartition(NodesIn(rows, "big"), false);
  EXPECT_NE(text.find("Nodes=n[2-3]\n"), std::string::npos);
  EXPECT_NE(text.find("TotalCPUs=64 TotalNodes=2 "), std::string::npos);
  EXPECT_NE(text.find("TRES=cpu=64,mem=2048M,node=2,gres/gpu=16"), std::string::npos);
}

TEST(Nodes, AreFoundByNameAndShownWithTheirFeatures) {
  const std::vector<NodeRow> rows = Cluster();
  EXPECT_EQ(NodesNamed(rows, {"n2.lab", "n3"}).size(), 2u);
  EXPECT_EQ(NodesNamed(rows, {"localhost"}).front().view.name, "head");
  EXPECT_TRUE(NodesNamed(rows, {"n9"}).empty());
  NodeRow node = rows[2];
  node.view.address = "10.0.0.2";
  node.view.reason = "disk";
  node.scene.load = -1;
  node.scene.memory_free_mib = -1;
  const std::string text = ShowNode(node, false);
  for (const char* part :
       {"NodeName=n2 ", "CPUAlloc=8 ", "CPULoad=N/A", "AvailableFeatures=nvme,os,os=12,ssd\n", "Gres=gpu:h100:8\n",
        "NodeAddr=10.0.0.2 NodeHostName=n2 ", "AllocMem=16384 FreeMem=N/A ", "State=MIXED ",
        "Partitions=main,big,long\n", "AllocTRES=cpu=8,gres/gpu=4\n", "Reason=disk\n"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
  }
  node.view.reason = "disk, by root";
  node.view.reason_since = 1'700'000'000;
  const std::string since = Moment(node.view.reason_since);
  EXPECT_NE(ShowNode(node, false).find("Reason=disk [root@" + since + "]\n"), std::string::npos);
  EXPECT_EQ(FormatNodes({node}, "%E|%u|%H", "", false).value(), "disk|root|" + since + "\n");
  node.view.reason_since.reset();
  EXPECT_EQ(FormatNodes({node}, "%E|%u|%H", "", false).value(), "disk|root|Unknown\n");
  const std::string json = NodesJson(rows);
  EXPECT_NE(json.find("\"name\":\"n3\""), std::string::npos);
  EXPECT_NE(json.find("\"partitions\":[\"main\",\"big\",\"long\"]"), std::string::npos) << json;
}

TEST(Nodes, AreDrainedAndResumedWithSlurmsStates) {
  const auto drain = ReadNodeUpdate({"NodeName=n[1-2]", "State=DRAIN", "Reason=bad disk"});
  ASSERT_TRUE(drain) << drain.error().message;
  EXPECT_EQ(drain->verb, "drain");
  EXPECT_EQ(drain->request.names, (Names{"n1", "n2"}));
  EXPECT_EQ(drain->request.reason, "bad disk");
  EXPECT_LT(drain->request.deadline_s, 0) << "what runs goes on";
  EXPECT_EQ(ReadNodeUpdate({"nodename=n1", "state=resume"})->verb, "resume");
  EXPECT_EQ(ReadNodeUpdate({"NodeName=n1", "State=drain"}).error().message,
            "You must specify a reason when DRAINING a node. Update denied");
  EXPECT_FALSE(ReadNodeUpdate({"NodeName=n1", "State=fail"}));
  EXPECT_FALSE(ReadNodeUpdate({"NodeName=n1", "Weight=3"}));
  EXPECT_FALSE(ReadNodeUpdate({"State=resume"}));
}

TEST(Nodes, TheNodesOfAWaitingJobAreUpdatedWithSlurmsKeys) {
  const auto update = [](const Names& words) {
    return ReadUpdate(words, dialect::ParseContext(),
                      [](const std::string&) -> Result<wire::JobDetail> { return wire::JobDetail(); });
  };
  const auto wish = update({"JobId=7", "NumNodes=2-4", "ReqNodeList=n[1-3]", "ExcNodeList=", "Features=a100&ib"});
  ASSERT_TRUE(wish) << wish.error().message;
  EXPECT_EQ(wish->update.nodes, 2);
  EXPECT_EQ(wish->update.node_list, (Names{"n1", "n2", "n3"}));
  EXPECT_EQ(wish->update.excluded_nodes, Names());
  EXPECT_EQ(wish->update.constraint, "ib");
  EXPECT_EQ(wish->update.gpu_type, "a100");
  EXPECT_FALSE(update({"JobId=7", "ReqNodeList=n["}));
}

}  // namespace slurm_places_test
}  // namespace divvy::cli::slurm
