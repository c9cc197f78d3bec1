// divvy's refusals in Slurm's words.
#include "cli/shims/slurm_look/slurm_refusals.h"

#include <gtest/gtest.h>

#include "dialect/options/slurm_request.h"
#include "dialect/slurm/slurm.h"

namespace divvy::cli::slurm {
namespace slurm_refusals_test {

TEST(Refusals, NameTheSlurmOptions) {
  EXPECT_EQ(InSlurmsWords("asks for 1 GPU of type x9, but no node has any; leave --gpu-type out"),
            "Requested node configuration is not available: asks for 1 GPU of type x9, but no node has any; leave the "
            "type of the GPUs out");
  EXPECT_EQ(InSlurmsWords("asks for 8 GPUs, but pool debug gives a job 2 at most; ask for fewer, or name another pool "
                          "with --pool")
                .find("--pool"),
            std::string::npos);
}

/// The spec that sbatch would make of these words.
JobSpec Asked(const std::vector<std::string>& words) {
  JobSpec spec;
  const dialect::ParseContext nowhere;
  EXPECT_TRUE(dialect::ParseOptions(dialect::SbatchOptions(spec, nowhere), words));
  EXPECT_TRUE(dialect::FinishSlurm(spec));
  return spec;
}

TEST(Refusals, SuggestedLimitsUseTheJobsOwnUnits) {
  const auto repair = [](const std::string& ours, const std::vector<std::string>& words) {
    return InSlurmsWords("asks for too much; " + ours + " is the most", Asked(words)).substr(19);
  };
  EXPECT_EQ(repair("--memory 23G", {"--mem=1P"}), "--mem=23G is the most");
  EXPECT_EQ(repair("--cpus 2", {"-c50"}), "--cpus-per-task=2 is the most");
  EXPECT_EQ(repair("--cpus 2", {"-N2", "-c3"}), "--cpus-per-task=2 is the most") << "on each machine";
  EXPECT_EQ(repair("--cpus 9", {"-n4", "-c50"}), "--cpus-per-task=2 is the most");
  EXPECT_EQ(repair("--cpus 2", {"-n4", "-c50"}), "--ntasks=2 with --cpus-per-task=1 is the most");
  EXPECT_EQ(repair("--tasks 6", {"-n30"}), "--ntasks=6 is the most");
  EXPECT_EQ(repair("--gpus 2", {"--gres=gpu:9"}), "--gres=gpu:2 is the most");
  EXPECT_EQ(repair("--gpus 2", {"-N2", "--gpus=9"}), "--gpus=4 is the most");
  EXPECT_EQ(repair("--gpus 2", {"--gpus-per-node=9"}), "--gpus-per-node=2 is the most");
  EXPECT_EQ(repair("--gpus 2", {"-n4", "--gpus-per-task=2"}), "--gpus-per-node=2 is the most");
  EXPECT_EQ(repair("--gpus 0.25", {}), "--gpus 0.25 is the most");
  EXPECT_EQ(
      InSlurmsWords("asks for 5 h, but pool debug runs a job for 30 min at most; give --time 30m or less"),
      "Requested time limit is invalid (missing or exceeds some limit): asks for 5 h, but pool debug runs a job for "
      "30 min at most; give --time=00:30:00 or less");
  EXPECT_EQ(InSlurmsWords("in pool big; give fewer --nodes, or name another pool with --pool"),
            "in pool big; give fewer --nodes, or name another with --partition");
}

}  // namespace slurm_refusals_test
}  // namespace divvy::cli::slurm
