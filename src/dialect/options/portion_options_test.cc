#include "dialect/options/portion_options.h"

#include <gtest/gtest.h>

#include "dialect/options/job_options.h"
#include "dialect/options/test_surroundings.h"

namespace divvy::dialect {
namespace portion_options_test {

JobSpec Read(std::vector<std::string> words) {
  JobSpec spec;
  const ParseContext around = TestParseContext();
  const auto parsed = ParseOptions(JobOptions(spec, around), words);
  EXPECT_TRUE(parsed) << parsed.error().message;
  spec.command = {"true"};
  CompletePortion(spec);
  const Status good = CheckComplete(spec);
  EXPECT_TRUE(good) << good.error().message;
  return spec;
}

TEST(FractionOptions, FractionsAreReadExactly) {
  const Request quarter = Read({"--gpus", "0.25", "--gpu-limit", "0.8"}).request;
  EXPECT_EQ(quarter.gpus, 1);
  EXPECT_EQ(quarter.portion.request, GpuShare(2'500));
  EXPECT_EQ(quarter.portion.limit, GpuShare(8'000));
  EXPECT_EQ(PortionReading(quarter), "0.25 of a GPU, up to 0.8");
  EXPECT_EQ(Read({"--gpus", ".3333"}).request.portion.request, GpuShare(3'333));

  const Request two = Read({"--gpus", "2x0.5"}).request;
  EXPECT_EQ(two.gpus, 2);
  EXPECT_EQ(PortionReading(two), "0.5 of each of 2 GPUs");
}

TEST(FractionOptions, WholeGpusStayWhole) {
  for (const char* text : {"2", "2.0", "2x1", "2x1.0"}) {
    const Request request = Read({"--gpus", text}).request;
    EXPECT_EQ(request.gpus, 2) << text;
    EXPECT_FALSE(request.is_portioned()) << text;
  }
  EXPECT_FALSE(Read({"--gpus", "0.5", "--gpus", "1"}).request.is_portioned()) << "the last word counts";
}

TEST(FractionOptions, GpuMemoryWithoutAGpuCountRequestsAFraction) {
  const Request request = Read({"--gpu-memory", "20G", "--gpu-memory-limit", "40G"}).request;
  EXPECT_EQ(request.gpus, 1);
  EXPECT_EQ(request.portion.memory, 20_GiB);
  EXPECT_EQ(request.portion.memory_limit, 40_GiB);
  EXPECT_EQ(request.gpu_memory, Bytes());
  EXPECT_EQ(PortionReading(request), "20 GiB of a GPU, up to 40 GiB");

  const Request shared = Read({"--gpus", "2", "--shared", "--gpu-memory", "20G"}).request;
  EXPECT_EQ(shared.gpus, 2);
  EXPECT_EQ(shared.portion.memory, 20_GiB);

  const Request whole = Read({"--gpus", "1", "--gpu-memory", "20G"}).request;
  EXPECT_FALSE(whole.is_portioned()) << "a whole GPU that has at least so much";
  EXPECT_EQ(whole.gpu_memory, 20_GiB);
}

std::string Refused(const std::vector<std::string>& words) {
  JobSpec spec;
  const ParseContext around = TestParseContext();
  const auto parsed = ParseOptions(JobOptions(spec, around), words);
  if (!parsed) return parsed.error().message;
  spec.command = {"true"};
  CompletePortion(spec);
  const Status good = CheckComplete(spec);
  return good ? "" : good.error().message;
}

TEST(FractionOptions, AnEmptyMemoryIsNoFractionAndKeepsWholeGpus) {
  EXPECT_EQ(Refused({"--gpu-memory", "0"}),
            "--gpu-memory 0 is not a GPU fraction; request 512M or more, or omit it to run without a GPU");
  EXPECT_EQ(Read({"--gpus", "1", "--gpu-memory", "40G", "--gpu-memory", "0"}).request.gpu_memory, Bytes());
}

TEST(FractionOptions, AnErrorNamesTheValueAndTheAllowedRange) {
  for (const auto& [text, meant] : std::vector<std::pair<std::string, std::string>>{
           {"abc", "0.25"}, {"-0.5", "0.25"}, {"50%", "0.5"}, {"1/2", "0.5"}, {"0,5", "0.5"}}) {
    EXPECT_EQ(Refused({"--gpus", text}),
              "--gpus: '" + text +
                  "' is not a number of GPUs; write whole GPUs (2), a range (2..8), a fraction of one GPU (" + meant +
                  ") or of several GPUs (2x0.5)");
  }
  EXPECT_EQ(Refused({"--gpus", "0.25x2"}),
            "--gpus: '0.25x2': write the number of GPUs before the x and the fraction of each after it: 2x0.25");
  for (const std::string text : {"2x", "x0.5"})
    EXPECT_NE(Refused({"--gpus", text}).find("the fraction of each after it: 2x0.5"), std::string::npos) << text;
  EXPECT_NE(Refused({"--gpus", "2x0"}).find("a number above 0 and below 1"), std::string::npos);
  EXPECT_NE(Refused({"--gpus", "0.5", "--gpu-limit", "80%"}).find("at most 1, in steps of 0.0001, such as 0.8"),
            std::string::npos);
  EXPECT_EQ(
      Refused({"--gpus", "0.5", "--gpu-memory-limit", "60G"}),
      "--gpu-memory-limit 60 GiB is a memory limit, but --gpus 0.5 requests a fraction; write --gpu-limit FRACTION, "
      "or --gpu-memory SIZE instead of --gpus");
  EXPECT_EQ(Refused({"--gpus", "0.5", "--gpu-memory", "20G"}),
            "--gpus 0.5 and --gpu-memory 20 GiB both set the request; give only one of them");
  EXPECT_NE(Refused({"--slice", ">=0G"}).find("'0G' of GPU memory is too little"), std::string::npos);
}

TEST(FractionOptions, ComputeMayDifferFromMemory) {
  const Request request = Read({"--gpus", "0.5", "--compute", "0.3:1.0", "--idle-park", "10m"}).request;
  EXPECT_EQ(request.portion.compute, GpuShare(3'000));
  EXPECT_EQ(request.portion.compute_limit, GpuShare(10'000));
  EXPECT_EQ(request.portion.idle_park, std::chrono::minutes(10));
  EXPECT_EQ(PortionReading(request), "0.5 of a GPU, 0.3 to 1 of its time, parked after 10 min idle");
}

}  // namespace portion_options_test
}  // namespace divvy::dialect
