#include "engine/message_text.h"

#include <gtest/gtest.h>

#include "base/duration_text.h"
#include "engine/gpu_type.h"

namespace divvy {
namespace message_text_test {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

TEST(DurationText, ShowsTheTwoLargestUnits) {
  EXPECT_EQ(DurationText(Duration(0)), "0 s");
  EXPECT_EQ(DurationText(-seconds(5)), "0 s");
  EXPECT_EQ(DurationText(milliseconds(12)), "12 ms");
  EXPECT_EQ(DurationText(milliseconds(300)), "0.3 s");
  EXPECT_EQ(DurationText(seconds(45)), "45 s");
  EXPECT_EQ(DurationText(minutes(12)), "12 min");
  EXPECT_EQ(DurationText(seconds(750)), "12 min 30 s");
  EXPECT_EQ(DurationText(minutes(65)), "1 h 5 min");
  EXPECT_EQ(DurationText(hours(51) + minutes(29)), "2 d 3 h");
}

TEST(DurationText, RoundsUpIntoTheNextUnit) {
  EXPECT_EQ(DurationText(milliseconds(9'960)), "10 s");
  EXPECT_EQ(DurationText(milliseconds(59'700)), "1 min");
  EXPECT_EQ(DurationText(minutes(60) - milliseconds(1)), "1 h");
  EXPECT_EQ(DurationText(hours(24) - seconds(1)), "1 d");
}

TEST(DurationFlag, RoundsDownToACommandLineValue) {
  EXPECT_EQ(DurationFlag(seconds(90)), "90s");
  EXPECT_EQ(DurationFlag(minutes(40) + seconds(59)), "40m");
  EXPECT_EQ(DurationFlag(minutes(90)), "1h30m");
  EXPECT_EQ(DurationFlag(hours(50)), "2d2h");
}

TEST(MessageText, NamesGpusAsRanges) {
  EXPECT_EQ(GpusText(GpuSet()), "no GPU");
  EXPECT_EQ(GpusText(GpuSet::Of({3})), "GPU 3");
  EXPECT_EQ(GpusText(GpuSet::Of({3, 4})), "GPUs 3 and 4");
  EXPECT_EQ(GpusText(GpuSet::Of({0, 1, 2, 5, 7})), "GPUs 0-2, 5 and 7");
  EXPECT_EQ(GpusText(GpuSet::FirstN(64)), "GPUs 0-63");
}

TEST(MessageText, FormatsSizes) {
  EXPECT_EQ(BytesText(80_GiB), "80 GiB");
  EXPECT_EQ(BytesText(1536_MiB), "1.5 GiB");
  EXPECT_EQ(BytesText(Bytes(0)), "0 B");
  EXPECT_EQ(BytesFlag(80_GiB), "80G");
  EXPECT_EQ(BytesFlag(81559_MiB), "79G");
  EXPECT_EQ(BytesFlag(1536_MiB), "1536M");
}

TEST(MessageText, ShortensLongListsOfJobs) {
  const std::vector<JobId> jobs = {JobId(1), JobId(2), JobId(3), JobId(4), JobId(5), JobId(6)};
  EXPECT_EQ(JobsText(std::span(jobs).first(1)), "job 1");
  EXPECT_EQ(JobsText(std::span(jobs).first(2)), "jobs 1 and 2");
  EXPECT_EQ(JobsText(jobs), "jobs 1, 2, 3, 4 and 2 more");
}

TEST(GpuType, MatchesPartOfTheModelNameInAnySpelling) {
  const char* h100 = "NVIDIA H100 80GB HBM3";
  const char* a100 = "NVIDIA A100-SXM4-80GB";
  for (const char* type : {"", "h100", "H100", "nvidia h100", "nvidia_h100", "h100-80gb", "H10080GB", "hbm3", "80gb",
                           "v100|h100", "h100&80gb", "|h100|"}) {
    EXPECT_TRUE(MatchesGpuType(type, h100)) << type;
  }
  for (const char* type : {"a100", "h10", "0gb", "h100&40gb", "v100|a100", "h1008", "h100x"}) {
    EXPECT_FALSE(MatchesGpuType(type, h100)) << type;
  }
  EXPECT_TRUE(MatchesGpuType("a100-sxm4-80gb", a100));
  EXPECT_TRUE(MatchesGpuType("h100*1.0|a100*0.55", a100)) << "speeds do not matter";
  EXPECT_FALSE(MatchesGpuType("h100*1.0|l4*0.2", a100));
  EXPECT_TRUE(MatchesGpuType("a100sxm", a100));
  EXPECT_TRUE(MatchesGpuType("rtx4090", "NVIDIA GeForce RTX 4090"));
  EXPECT_TRUE(MatchesGpuType("4090", "NVIDIA GeForce RTX 4090"));
  EXPECT_TRUE(MatchesGpuType("a10", "NVIDIA A10G"));
}

TEST(GpuType, ANumberMatchesAsAWhole) {
  EXPECT_FALSE(MatchesGpuType("l4", "NVIDIA L40S"));
  EXPECT_FALSE(MatchesGpuType("a10", "NVIDIA A100-PCIE-40GB"));
  EXPECT_FALSE(MatchesGpuType("80gb", "SOME 180GB"));
}

TEST(GpuType, AlternativesHaveTheirSpeeds) {
  using List = std::vector<WeightedType>;
  EXPECT_EQ(AlternativesOf("h100&80gb*1.0|a100 * 0.55|l4"), (List{{"h100&80gb", 1000}, {"a100", 550}, {"l4", 1000}}));
  EXPECT_EQ(AlternativesOf(""), List());
  EXPECT_EQ(AlternativesOf("|&|*2"), List());
  EXPECT_EQ(AlternativesOf("h100*fast"), (List{{"h100", 1000}})) << "no number counts as 1";
  EXPECT_EQ(SpeedInThousandths("1000"), 1'000'000);
  EXPECT_EQ(SpeedInThousandths("0.001"), 1);
  EXPECT_EQ(SpeedInThousandths("0.0009"), std::nullopt);
  EXPECT_EQ(SpeedInThousandths("1000.1"), std::nullopt);
  EXPECT_EQ(SpeedInThousandths(""), std::nullopt);
}

}  // namespace message_text_test
}  // namespace divvy
