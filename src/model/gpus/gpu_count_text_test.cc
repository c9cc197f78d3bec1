#include "model/gpus/gpu_count_text.h"

#include <gtest/gtest.h>

namespace divvy {
namespace gpu_count_text_test {

TEST(GpuCountText, FractionsAndLargeCountsAreRounded) {
  EXPECT_EQ(CountedGpus(1), "1 GPU");
  EXPECT_EQ(CountedGpus(0.25), "0.25 GPUs");
  EXPECT_EQ(GpuCountText(0.1875), "0.188");
  EXPECT_EQ(GpuCountText(99.96), "100");
  EXPECT_EQ(CountedGpus(1008), "1008 GPUs");
  EXPECT_EQ(GpuCountText(12345), "12345");
}

}  // namespace gpu_count_text_test
}  // namespace divvy
