// divvy simulate as people and programs call it: what it prints and what it refuses.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "cli/commands.h"

namespace divvy::cli {
namespace {

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

TEST_F(Simulate, OnePolicyIsOneJsonObject) {
  const std::string out = Run({"--seeds", "1..3", "--json"});
  EXPECT_TRUE(
      out.starts_with("{\"policy\": \"default\", \"allocation_percent_at_100\": 100.0000, "
                      "\"allocation_percent_at_130\": 100.0000, \"sd\": 0.0000, "))
      << out;
  EXPECT_NE(out.find("\"runs\": [{\"seed\": 1, "), std::string::npos) << out;
  EXPECT_NE(out.find("{\"seed\": 3, "), std::string::npos) << out;
  EXPECT_EQ(out.find("{\"seed\": 4, "), std::string::npos) << out;
}

TEST_F(Simulate, SeveralPoliciesAreRowsAndAnArray) {
  const std::string table = Run({"--policy", "fgd,random", "--seeds", "1", "-o", "policy,runs", "--csv"});
  EXPECT_NE(table.find("fgd,1\nrandom,1\n"), std::string::npos) << table;
  EXPECT_TRUE(Run({"--compare", "fgd,random", "--seeds", "1", "--json"}).starts_with("[{\"policy\": \"fgd\""));
}

TEST_F(Simulate, WhatWasNotReachedIsNull) {
  const std::string out = Run({"--fill", "1.1", "--seeds", "1", "--json"});
  EXPECT_NE(out.find("\"allocation_percent_at_100\": 100.0000, \"allocation_percent_at_130\": null"), std::string::npos)
      << out;
}

TEST_F(Simulate, RefusesWhatItCannotDoAndSaysWhatItCan) {
  EXPECT_NE(Run({"--policy", "fdg"}, 2).find("did you mean fgd?"), std::string::npos);
  EXPECT_NE(Run({"--seeds", "9..1"}, 2).find("write 1000..1009"), std::string::npos);
  EXPECT_NE(Run({"--seeds", "0..99999999"}, 2).find("more than 10000 seeds"), std::string::npos);
  EXPECT_NE(Run({"--fill", "0"}, 2).find("not above 0"), std::string::npos);
  EXPECT_NE(Run({"--moves", "99"}, 2).find("from 0 to 16"), std::string::npos);
  EXPECT_NE(RunPlain({}, 2).find("divvy simulate openb"), std::string::npos);
  EXPECT_NE(RunPlain({"philly"}, 2).find("no trace format 'philly'"), std::string::npos);
  EXPECT_NE(RunPlain({"openb"}, 2).find("needs --nodes FILE and --jobs FILE"), std::string::npos);
  EXPECT_NE(RunPlain({"openb", "--nodes", folder_ + "/none.csv", "--jobs", "x"}, 3).find("none.csv: No such file"),
            std::string::npos);
}

}  // namespace
}  // namespace divvy::cli
