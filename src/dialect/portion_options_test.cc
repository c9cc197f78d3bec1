#include "dialect/portion_options.h"

#include <gtest/gtest.h>

#include "dialect/job_options.h"
#include "dialect/test_surroundings.h"

namespace divvy::dialect {
namespace {

JobSpec Read(std::vector<std::string> words) {
  JobSpec spec;
  const Surroundings around = TestSurroundings();
  const auto parsed = ParseOptions(JobOptions(spec, around), words);
  EXPECT_TRUE(parsed) << parsed.error().message;
  spec.command = {"true"};
  CompletePortion(spec);
  const Status good = CheckComplete(spec);
  EXPECT_TRUE(good) << good.error().message;
  return spec;
}

TEST(PortionOptions, PartsAreReadExactly) {
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

TEST(PortionOptions, WholeOnesStayWhole) {
  for (const char* text : {"2", "2.0", "2x1", "2x1.0"}) {
    const Request request = Read({"--gpus", text}).request;
    EXPECT_EQ(request.gpus, 2) << text;
    EXPECT_FALSE(request.is_portioned()) << text;
  }
  EXPECT_FALSE(Read({"--gpus", "0.5", "--gpus", "1"}).request.is_portioned()) << "the last word counts";
}

TEST(PortionOptions, MemoryIsAPartWhereNoNumberOfGpusIsAskedFor) {
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

TEST(PortionOptions, TimeMayBeApart) {
  const Request request = Read({"--gpus", "0.5", "--compute", "0.3:1.0", "--idle-park", "10m"}).request;
  EXPECT_EQ(request.portion.compute, GpuShare(3'000));
  EXPECT_EQ(request.portion.compute_limit, GpuShare(10'000));
  EXPECT_EQ(request.portion.idle_park, std::chrono::minutes(10));
  EXPECT_EQ(PortionReading(request), "0.5 of a GPU, 0.3 to 1 of its time, parked after 10 min idle");
}

}  // namespace
}  // namespace divvy::dialect
