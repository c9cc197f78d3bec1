// divvy simulate as users and programs call it: its output and its errors.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <tuple>

#include "cli/client/commands.h"
#include "cli/simulate/simulate_replay.h"

namespace divvy::cli {
namespace simulate_test {

class Simulate : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "divvy-simulate-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    std::ofstream nodes(folder_ + "/nodes.csv");
    nodes << "sn,cpu_milli,memory_mib,gpu,model\n";
    for (int i = 0; i < 5; ++i) nodes << "n" << i << ",64000,65536,4,A\n";
    std::ofstream jobs(folder_ + "/jobs.csv");
    jobs << "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n";
    for (int i = 0; i < 20; ++i) jobs << "j" << i << ",1000,1024,1,1000\n";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// A trace of three jobs whose nodes come from a provider.
  std::string RunProviders(Words words, int code = 0) {
    std::ofstream trace(folder_ + "/trace.csv");
    trace << "timestamp,duration,num_gpus,cluster\n";
    for (int i = 0; i < 3; ++i) trace << "2017-10-01 00:00:0" << i << ",3600,1,a\n";
    trace.close();
    std::ofstream providers(folder_ + "/providers.toml");
    providers << "[[providers]]\nname = \"p\"\n[[providers.shapes]]\nname = \"s\"\ngpu_model = \"V100\"\ngpus = 4\n"
                 "cpus = 32\nmemory = \"64G\"\nprice = 2\nstartup = \"3min\"\n";
    providers.close();
    words.insert(words.begin(), {"philly", "--jobs", folder_ + "/trace.csv"});
    return RunPlain(words, code);
  }

  std::string Run(Words words, int code = 0) {
    words.insert(words.begin(), {"openb", "--nodes", folder_ + "/nodes.csv", "--jobs", folder_ + "/jobs.csv"});
    return RunPlain(words, code);
  }
  static std::string RunPlain(const Words& words, int code) {
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    EXPECT_EQ(SimulateMain(words), code);
    return testing::internal::GetCapturedStdout() + testing::internal::GetCapturedStderr();
  }

  std::string folder_;
};

TEST_F(Simulate, ComparesWaysOfRequestingNodes) {
  const std::string table = RunProviders({"--providers", folder_ + "/providers.toml"});
  EXPECT_NE(table.find("COST"), std::string::npos) << table;
  for (const char* policy : {"node-per-job", "cheapest-first", "divvy"})
    EXPECT_NE(table.find(std::string("\n") + policy + " "), std::string::npos) << table;
  // Without nodes of its own, a cluster that requests none would run nothing.
  EXPECT_EQ(table.find("\nnone "), std::string::npos) << table;
  const std::string json = RunProviders({"--providers", folder_ + "/providers.toml", "--growth", "divvy", "--json"});
  EXPECT_NE(json.find("\"nodes_requested\": 1,"), std::string::npos) << json;
  const std::string page = folder_ + "/page.html";
  RunProviders({"--providers", folder_ + "/providers.toml", "--nodes", "1x1:V100", "--html", page});
  std::ifstream file(page);
  const std::string html{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(html.find("Nodes from providers"), std::string::npos);
}

TEST_F(Simulate, RefusesWrongProviders) {
  EXPECT_NE(RunProviders({"--growth", "divvy"}, 2).find("--growth needs --providers FILE"), std::string::npos);
  EXPECT_NE(RunProviders({"--providers", folder_ + "/none.toml"}, 3).find("cannot read"), std::string::npos);
  EXPECT_NE(
      RunProviders({"--providers", folder_ + "/providers.toml", "--growth", "divy"}, 2).find("'divy' is not valid"),
      std::string::npos);
  std::ofstream(folder_ + "/empty.toml") << "[queue]\n";
  EXPECT_NE(RunProviders({"--providers", folder_ + "/empty.toml"}, 2).find("has no [[providers]]"), std::string::npos);
  EXPECT_NE(RunProviders({"--providers", folder_ + "/providers.toml", "--policy", "sjf-strict"}, 2)
                .find("need a queue policy of divvy's, not sjf-strict"),
            std::string::npos);
}

TEST_F(Simulate, OnePolicyIsPrintedAsOneJsonObject) {
  const std::string out = Run({"--seeds", "1..3", "--json"});
  EXPECT_TRUE(
      out.starts_with("{\"policy\": \"default\", \"allocation_percent_at_100\": 100.0000, "
                      "\"allocation_percent_at_130\": 100.0000, \"sd\": 0.0000, "))
      << out;
  EXPECT_NE(out.find("\"runs\": [{\"seed\": 1, "), std::string::npos) << out;
  EXPECT_NE(out.find("{\"seed\": 3, "), std::string::npos) << out;
  EXPECT_EQ(out.find("{\"seed\": 4, "), std::string::npos) << out;
}

TEST_F(Simulate, SeveralPoliciesArePrintedAsRowsAndAnArray) {
  const std::string table = Run({"--policy", "fgd,random", "--seeds", "1", "-o", "policy,runs", "--csv"});
  EXPECT_NE(table.find("fgd,1\nrandom,1\n"), std::string::npos) << table;
  EXPECT_TRUE(Run({"--compare", "fgd,random", "--seeds", "1", "--json"}).starts_with("[{\"policy\": \"fgd\""));
}

TEST_F(Simulate, ADemandThatWasNotReachedIsNull) {
  const std::string out = Run({"--fill", "1.1", "--seeds", "1", "--json"});
  EXPECT_NE(out.find("\"allocation_percent_at_100\": 100.0000, \"allocation_percent_at_130\": null"), std::string::npos)
      << out;
}

TEST_F(Simulate, RefusesUnknownInputAndNamesTheChoices) {
  EXPECT_NE(Run({"--policy", "fdg"}, 2).find("did you mean fgd?"), std::string::npos);
  EXPECT_NE(Run({"--seeds", "9..1"}, 2).find("write 1000..1009"), std::string::npos);
  EXPECT_NE(Run({"--seeds", "0..99999999"}, 2).find("at most 10000 seeds"), std::string::npos);
  EXPECT_NE(Run({"--fill", "0"}, 2).find("not a number above 0"), std::string::npos);
  EXPECT_NE(Run({"--moves", "99"}, 2).find("from 0 to 16"), std::string::npos);
  EXPECT_NE(RunPlain({}, 2).find("divvy simulate FORMAT --jobs FILE, or divvy simulate history"), std::string::npos);
  EXPECT_NE(RunPlain({"phily"}, 2).find("unknown trace format 'phily'; did you mean philly?"), std::string::npos);
  EXPECT_NE(RunPlain({"helios", "philly"}, 2).find("'philly' is an unexpected argument"), std::string::npos);
  EXPECT_NE(RunPlain({"openb"}, 2).find("needs --nodes FILE and --jobs FILE"), std::string::npos);
  EXPECT_NE(RunPlain({"openb", "--nodes", folder_ + "/none.csv", "--jobs", "x"}, 3).find("none.csv: No such file"),
            std::string::npos);
}

// --- Replays

class Replays : public Simulate {
 protected:
  void SetUp() override {
    Simulate::SetUp();
    std::ofstream jobs(folder_ + "/philly.csv");
    jobs << "timestamp,duration,num_gpus,gpu_time,cluster\n"
            "2017-10-01 00:00:00,100,6,600,a\n"
            "2017-10-01 00:00:01,10,8,80,a\n"
            "2017-10-01 00:00:02,50,2,100,b\n"
            "2017-10-02 00:00:00,60,1,60,b\n";
  }
  std::string Replay(Words words, int code = 0) {
    words.insert(words.begin(), {"philly", "--jobs", folder_ + "/philly.csv", "--nodes", "1x8"});
    return RunPlain(words, code);
  }
  std::string FileText(const std::string& name) const {
    std::ifstream file(folder_ + "/" + name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
};

TEST_F(Replays, PoliciesAreShownSideBySide) {
  const std::string table = Replay({"--compare", "fifo-strict,fifo:true", "-o", "policy,mean wait,unfinished"});
  EXPECT_EQ(table.substr(0, table.find("philly")),
            "POLICY       MEAN WAIT  UNFINISHED\n"
            "fifo-strict       52 s           0\n"
            "fifo:true         25 s           0\n")
      << table;
  EXPECT_NE(table.find("philly philly.csv: 4 jobs, 1 node, 8 GPUs"), std::string::npos) << table;
}

TEST_F(Replays, JsonNamesRunsAndFigures) {
  const std::string out = Replay({"--json", "--to", "2017-10-02"});
  EXPECT_NE(out.find("\"policy\": \"small-first\""), std::string::npos) << out;
  EXPECT_NE(out.find("\"all\": {\"jobs\": 3, "), std::string::npos) << out;
  for (const char* key : {"jct_seconds", "wait_seconds", "rho", "by_size", "by_team", "by_hour", "load"})
    EXPECT_NE(out.find("\"" + std::string(key) + "\": "), std::string::npos) << key;
}

TEST_F(Replays, OtherHardwareIsASeparateRun) {
  const std::string csv =
      Replay({"--what-if", "+8", "--csv", "-o", "policy,wait_mean_seconds", "--policy", "fifo:true"});
  EXPECT_EQ(csv, "policy,wait_mean_seconds\nfifo:true,24.750\nfifo:true +8,0.000\n");
}

TEST_F(Replays, WritesFilesToTheRequestedFolder) {
  Replay({"--csv=" + folder_ + "/out", "--html", folder_ + "/page.html", "--by", "team"});
  for (const char* name : {"summary.csv", "by_size.csv", "by_team.csv", "by_hour.csv", "jobs.csv"})
    EXPECT_FALSE(FileText("out/" + std::string(name)).empty()) << name;
  EXPECT_NE(FileText("page.html").find("</html>"), std::string::npos);
}

TEST_F(Replays, SeedsShiftSubmissionTimes) {
  const std::string csv = Replay({"--seeds", "1..2", "--csv", "--no-header", "-o", "policy"});
  EXPECT_EQ(csv, "small-first #1\nsmall-first #2\n");
}

TEST_F(Replays, ReportMissingArguments) {
  EXPECT_NE(RunPlain({"philly"}, 2).find("divvy simulate philly needs --jobs FILE"), std::string::npos);
  EXPECT_NE(RunPlain({"philly", "--jobs", folder_ + "/philly.csv"}, 2).find("write --nodes FILE or --nodes 96x8"),
            std::string::npos);
  EXPECT_NE(Replay({"--policy", "shortst"}, 2).find("did you mean shortest?"), std::string::npos);
  EXPECT_NE(Replay({"--predict", "magic"}, 2).find("expected history, true or none"), std::string::npos);
  EXPECT_NE(Replay({"--ageing", "-1"}, 2).find("is not a number from 0 to 1000"), std::string::npos);
  EXPECT_NE(Replay({"--from", "yesterday"}, 2).find("is not a date; write 2020-09-01"), std::string::npos);
  EXPECT_NE(Replay({"--from", "2030-01-01"}, 3).find("no jobs in that period"), std::string::npos);
  EXPECT_NE(Replay({"--what-if", "-8"}, 2).find("has fewer GPUs"), std::string::npos);
  EXPECT_NE(Replay({"--what-if", "+8 X99"}, 2).find("unknown GPU model 'X99'"), std::string::npos);
  EXPECT_NE(Replay({"-o", "colour"}, 2).find("columns are policy, jobs, mean jct"), std::string::npos);
}

TEST(SimulateHistoryParts, EndedJobsBecomeTheTraceAndGpusTheCluster) {
  wire::JobView ended;
  ended.id = JobId(7);
  ended.user = "ada";
  ended.name = "train";
  ended.team = "vision";
  ended.state = "succeeded";
  ended.request.gpus = 2;
  ended.request.time_limit_s = 600;
  ended.gpus = {0, 1};
  ended.submit_time = 100;
  ended.eligible_time = 150;
  ended.start_time = 200;
  ended.end_time = 260;
  wire::JobView waiting = ended;
  waiting.id = JobId(8);
  waiting.state = "queued";
  waiting.start_time = waiting.end_time = std::nullopt;
  const simulate::Workload workload = WorkloadOf({ended, waiting});
  ASSERT_EQ(workload.jobs.size(), 1U);
  const simulate::TraceJob& job = workload.jobs.front();
  EXPECT_EQ(std::tuple(job.user, job.name, job.team, job.gpus), std::tuple("ada", "train", "vision", 2));
  EXPECT_EQ(job.submit, TimeFromSeconds(150)) << "before, nobody could have started it";
  EXPECT_EQ(job.runtime, std::chrono::seconds(60));
  EXPECT_EQ(job.limit, std::chrono::minutes(10));
  wire::GpuView gpu;
  gpu.model = "H100";
  const simulate::TraceCluster cluster = ClusterOf({gpu, gpu, gpu});
  ASSERT_EQ(cluster.groups.size(), 1U);
  EXPECT_EQ(std::tuple(cluster.groups[0].count, cluster.groups[0].gpus, cluster.groups[0].model),
            std::tuple(1, 3, "H100"));
}

TEST(SimulateHistoryParts, NodesAreNotMerged) {
  std::vector<wire::GpuView> gpus;
  const auto add = [&](const std::string& node, const std::string& model, int count) {
    wire::GpuView gpu;
    gpu.node = node;
    gpu.model = model;
    gpus.insert(gpus.end(), static_cast<std::size_t>(count), gpu);
  };
  add("a", "H100", 8);
  add("b", "H100", 4);
  add("c", "H100", 8);
  add("d", "A100", 4);
  std::string shown;
  for (const simulate::NodeGroup& group : ClusterOf(gpus).groups)
    shown += std::to_string(group.count) + "x" + std::to_string(group.gpus) + ":" + group.model + " ";
  EXPECT_EQ(shown, "2x8:H100 1x4:H100 1x4:A100 ");
}

}  // namespace simulate_test
}  // namespace divvy::cli
