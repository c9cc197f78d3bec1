// divvy-burn on emulated GPUs, started as by a user.
#include <array>
#include <cstring>

#include "standin_test.h"

namespace divvy {
namespace burn_test {

struct Ran {
  int code = -1;
  std::string text;
};

class Burn : public EmulatedCuda {
 protected:
  Ran Run(const std::string& options) { return Shell(std::string(DIVVY_BURN) + " " + options); }

  Ran Shell(const std::string& words) {
    const std::string command = "export LD_LIBRARY_PATH='" + directory_ + "'; exec 2>&1; " + words;
    Ran ran;
    FILE* pipe = popen(command.c_str(), "r");
    std::array<char, 4096> buffer;
    while (const std::size_t got = fread(buffer.data(), 1, buffer.size(), pipe)) ran.text.append(buffer.data(), got);
    const int status = pclose(pipe);
    ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    return ran;
  }
};

TEST_F(Burn, VerifiesMemoryOfEveryAllocationType) {
  for (const char* kind : {"malloc", "pitch", "async", "pool", "vmm", "managed", "array", "graph"}) {
    const Ran ran = Run(std::string("--gpu-seconds 20ms --vram 300M --check --alloc-kind ") + kind);
    EXPECT_EQ(ran.code, 0) << kind << ": " << ran.text;
    EXPECT_NE(ran.text.find("gpu_seconds=0.020"), std::string::npos) << ran.text;
    EXPECT_NE(ran.text.find("checks=1 errors=0"), std::string::npos) << ran.text;
  }
}

TEST_F(Burn, ReportsWhatTheDriverRefuses) {
  const Ran ran = Run("--vram 90G");
  EXPECT_EQ(ran.code, 2);
  EXPECT_NE(ran.text.find("cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY (2)"), std::string::npos) << ran.text;
}

TEST_F(Burn, HogOptionAllocatesAllFreeMemory) {
  const Ran ran = Run("--hog --hold 0");
  EXPECT_EQ(ran.code, 0) << ran.text;
  const std::uint64_t total = static_cast<std::uint64_t>(facts_[0].memory_total.count());
  std::uint64_t got = 0;
  ASSERT_EQ(std::sscanf(ran.text.c_str(), "hog %lu bytes", &got), 1) << ran.text;
  EXPECT_GT(got + 260 * kMiB, total);  // Everything except its context and code.
  EXPECT_LT(got, total);
}

TEST_F(Burn, ReportsCopyBandwidth) {
  const Ran ran = Run("--bench copy 64M");
  EXPECT_EQ(ran.code, 0) << ran.text;
  double to_host = 0;
  double to_device = 0;
  ASSERT_EQ(std::sscanf(ran.text.c_str(), "copy to host %lf bytes/s, to device %lf bytes/s", &to_host, &to_device), 2)
      << ran.text;
  EXPECT_GT(to_host, 1e8);
  EXPECT_GT(to_device, 1e8);
  EXPECT_EQ(Run("--bench copies 64M").code, 64);
}

TEST_F(Burn, AlternatesBetweenWorkAndIdleTime) {
  const Ran ran = Run("--gpu-seconds 40ms --idle-after 20ms --wake-after 1ms --vram 20M --check --steps 2");
  EXPECT_EQ(ran.code, 0) << ran.text;
  const std::size_t idle = ran.text.find("step 1/2");
  EXPECT_LT(idle, ran.text.find("idle\nawake\nstep 2/2")) << ran.text;
  EXPECT_NE(ran.text.find("gpu_seconds=0.040"), std::string::npos) << ran.text;
}

TEST_F(Burn, ExitsCleanlyOnSigterm) {
  const Ran ran =
      Shell("cd '" + directory_ + "'; " + DIVVY_BURN +
            " --gpu-seconds 600 --vram 20M --check > out & pid=$!; "
            "until grep -q ready out; do sleep 0.01; done; kill -TERM $pid; wait $pid; echo code $?; cat out");
  EXPECT_NE(ran.text.find("code 0"), std::string::npos) << ran.text;
  EXPECT_NE(ran.text.find("checks=1 errors=0"), std::string::npos) << ran.text;
}

TEST_F(Burn, RefusesContradictoryOptions) {
  EXPECT_EQ(Run("").code, 64);
  EXPECT_EQ(Run("--gpu-seconds soon").code, 64);
  EXPECT_EQ(Run("--check --gpu-seconds 1").code, 64);
  EXPECT_EQ(Run("--vram 1G --alloc-kind heap").code, 64);
}

}  // namespace burn_test
}  // namespace divvy
