#include "model/container_plan.h"

#include <gtest/gtest.h>

namespace divvy {
namespace container_plan_test {

TEST(ContainerPlan, IsReadBackUnchanged) {
  ContainerPlan plan;
  plan.image = "nvcr.io/nvidia/pytorch:24.01";
  plan.mounts = {{"/data set", "/in", true}, {"/a\\n\nb", "/b", false}};
  plan.directory = "/in";
  plan.variables = {"LR", "SEED"};
  plan.interpreter = "/bin/bash -e";
  const auto read = ParseContainerPlan(FormatContainerPlan(plan));
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, plan);
}

TEST(ContainerPlan, RefusesOtherText) {
  for (const char* text :
       {"", "mount /a\nat /b\n", "image x\nmount /a\n", "image x\nmount /a\nat b\n", "image x\nwhat y\n"})
    EXPECT_FALSE(ParseContainerPlan(text)) << text;
}

TEST(ContainerScript, KeepsItsLineNumbers) {
  const ContainerScript bash = WrapScript("#! /bin/bash -e\necho $LINENO\n", "/usr/bin/divvy");
  EXPECT_EQ(bash.text, "#!/usr/bin/divvy internal-container\necho $LINENO\n");
  EXPECT_EQ(bash.interpreter, "/bin/bash -e");
  const ContainerScript plain = WrapScript("echo hi\n", "/usr/bin/divvy");
  EXPECT_EQ(plain.text, "#!/usr/bin/divvy internal-container\necho hi\n");
  EXPECT_EQ(plain.interpreter, "/bin/sh");
  EXPECT_EQ(WrapScript("#!/bin/true", "d").text, "#!d internal-container\n");
}

TEST(ContainerLog, ListsContainersThatStillExist) {
  const std::string first = ContainerBegunText("/usr/bin/podman", "divvy-1-1-5", {"HOME=/home/ada"});
  const std::string second = ContainerBegunText("/usr/bin/podman", "divvy-1-1-6", {"HOME=/home/ada"});
  const ContainerLog log = ReadContainerLog(first + second + ContainerEndedText("divvy-1-1-5"));
  EXPECT_EQ(log.left, std::vector<std::string>{"divvy-1-1-6"});
  EXPECT_EQ(log.engine, "/usr/bin/podman");
  EXPECT_EQ(log.environment, std::vector<std::string>{"HOME=/home/ada"});
  EXPECT_EQ(log.failure, "");
  EXPECT_EQ(ReadContainerLog(ContainerFailedText("no image\n\x1b[31m")).failure, "no image  [31m");
}

TEST(ContainerLog, ForeignLinesNameNoContainers) {
  for (const char* name : {"--all", "divvy-1;x", "postgres", "divvy-../x"})
    EXPECT_TRUE(ReadContainerLog("engine /usr/bin/podman\nbegun " + std::string(name) + "\n").left.empty()) << name;
  EXPECT_EQ(ReadContainerLog("engine podman\n").engine, "") << "not looked for in a PATH";
}

TEST(ContainerLog, LimitsWhatItReadsFromAUsersFile) {
  std::string text = "engine /usr/bin/podman\nenv LD_PRELOAD=/x.so\nenv HOME=/home/ada\nenv HOME=/home/eve\n";
  for (std::size_t i = 0; i < 2 * kContainersMost; ++i) text += "begun divvy-1-" + std::to_string(i) + "\n";
  ContainerLog log = ReadContainerLog(text);
  EXPECT_EQ(log.left.size(), kContainersMost);
  EXPECT_EQ(log.environment, std::vector<std::string>{"HOME=/home/eve"}) << "the last value, of known names alone";
  log = ReadContainerLog(std::string(kContainerLogMost, 'x') + "\nbegun divvy-1-1\n");
  EXPECT_TRUE(log.left.empty());
}

TEST(ContainerNeeds, AreReadBackUnchanged) {
  ContainerNeeds needs;
  needs.mounts = {{"/runs/share/17.1", "/runs/share/17.1", false}, {"/l\nib.so", "/l\nib.so", true}};
  needs.environment = {"LD_PRELOAD=/lib.so", "EMPTY="};
  needs.gpu_indices = {"0", "1"};
  needs.gpu_uuids = {"GPU-a", "GPU-b"};
  const auto read = ParseContainerNeeds(FormatContainerNeeds(needs));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, needs);
  const auto none = ParseContainerNeeds("");
  ASSERT_TRUE(none);
  EXPECT_TRUE(none->empty());
  for (const char* wrong : {"image x\n", "mount /a\n", "env NAME\n"}) EXPECT_FALSE(ParseContainerNeeds(wrong)) << wrong;
}

}  // namespace container_plan_test
}  // namespace divvy
