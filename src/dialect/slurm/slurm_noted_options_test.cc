// Options that are accepted without effect: Slurm's own, and those of a site's plugins.
#include "dialect/slurm/slurm_noted_options.h"

#include <gtest/gtest.h>

#include "dialect/options/test_surroundings.h"
#include "dialect/slurm/slurm.h"

namespace divvy::dialect {
namespace slurm_noted_options_test {

/// Parses a "#SBATCH" line, followed by a second one.
Result<JobSpec> Read(const std::string& line, const std::string& more = "-n1") {
  JobSpec spec;
  DIVVY_CHECK(
      ReadSlurmLines("#!/bin/sh\n#SBATCH " + line + "\n#SBATCH " + more + "\n", "job.sh", TestParseContext(), spec));
  return spec;
}

JobSpec Good(const std::string& line, const std::string& more = "-n1") {
  auto spec = Read(line, more);
  EXPECT_TRUE(spec) << line << ": " << (spec ? "" : spec.error().message);
  return spec ? *spec : JobSpec();
}

TEST(SlurmNoted, OptionsWithoutEffectAreNotedOnceAndNeverFatal) {
  for (const char* line :
       {"--switches=1@10", "--hint=nomultithread", "--container-name=a", "--reservation=x", "-L matlab",
        "-m block:cyclic", "--mail-type=END,TIME_LIMIT_90", "--uenv=pytorch", "--get-user-env", "--threads-per-core=1",
        "--cpu-freq=high", "--contiguous", "--disable-dcgm", "--disable-perfparanoid"}) {
    EXPECT_FALSE(Good(line).notes.empty()) << line;
  }
  for (const char* line : {"--wait-all-nodes=1", "--gpu-bind=closest", "--overcommit", "--propagate",
                           "--partition=gpu,long", "--account=proj", "--qos=high", "--comment=anything",
                           "--mail-type=NONE", "--mail-type=END,FAIL --mail-user=a@b"}) {
    EXPECT_TRUE(Good(line).notes.empty()) << line;
  }
  EXPECT_EQ(Good("--hint=nomultithread", "--hint=nomultithread").notes.size(), 1u);
}

TEST(SlurmNoted, OptionsOfSitePluginsAreNotedAndNeverFatal) {
  const std::string own = ": not one of Slurm's own options, so probably of a site plugin; it has no effect in divvy";
  using Notes = std::vector<std::string>;
  EXPECT_EQ(Good("--mysite-option=4").notes, Notes{"--mysite-option=4" + own});
  const JobSpec behind = Good("--mysite-option 4 --lustre-stripe --gres=gpu:2");
  EXPECT_EQ(behind.notes, (Notes{"--mysite-option=4" + own, "--lustre-stripe" + own}));
  EXPECT_EQ(behind.request.gpus, 2) << "what stands behind them is read";
  const ParseContext around = TestParseContext();
  JobSpec spec;
  const auto parsed =
      ReadSlurmWords(SbatchOptions(spec, around), {"--mysite-flag", "train.sh", "--mysite-flag"}, around, spec);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->positional, (Notes{"train.sh", "--mysite-flag"})) << "on a command line the script stands behind";
  EXPECT_EQ(spec.notes, Notes{"--mysite-flag" + own});
  // Likely misspellings, and options that define a job's resources, are still errors.
  for (const char* line : {"--ouput=x", "--gpu-count=2", "--memory-limit=4G", "--walltime=1:00", "--time-limit=5"})
    EXPECT_FALSE(Read(line)) << line;
  EXPECT_NE(Read("--gpu-count=2").error().message.find("did you mean --gpus?"), std::string::npos);
}

TEST(SlurmLimits, PropagateSelectsTheSubmittersLimits) {
  const auto kept = [](const std::string& line) {
    JobSpec spec = Good(line);
    spec.capture.limits = {{"nofile", 1024}, {"stack", 8192}};
    CompleteSlurm(spec, 8);
    return spec.capture.limits;
  };
  using Limits = std::map<std::string, std::int64_t>;
  EXPECT_EQ(kept("-n1"), (Limits{{"nofile", 1024}, {"stack", 8192}}));
  EXPECT_EQ(kept("--propagate"), (Limits{{"nofile", 1024}, {"stack", 8192}}));
  EXPECT_EQ(kept("--propagate=ALL"), (Limits{{"nofile", 1024}, {"stack", 8192}}));
  EXPECT_EQ(kept("--propagate=STACK,AS"), (Limits{{"stack", 8192}}));
  EXPECT_EQ(kept("--propagate=NONE"), Limits());
}

}  // namespace slurm_noted_options_test
}  // namespace divvy::dialect
