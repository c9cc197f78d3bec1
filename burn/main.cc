// divvy-burn: uses a GPU for a given time with a given amount of memory, and reports whether the memory stayed intact.
#include <csignal>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "work.h"

namespace divvy::burn {
namespace {

constexpr int kMemoryWrong = 1;
constexpr int kCudaFailed = 2;
constexpr int kUsage = 64;

int Fail(const Error& error, int code) {
  std::fprintf(stderr, "divvy-burn: %s\n", error.message.c_str());
  return code;
}

void OnSignal(int) { is_told_to_end = true; }

Result<int> Run(const Options& options) {
  DIVVY_TRY(const Driver driver, LoadDriver());
  DIVVY_CUDA_TRY(driver, cuInit, 0);
  cuda::Device device = 0;
  cuda::Context context = nullptr;
  DIVVY_CUDA_TRY(driver, cuDeviceGet, &device, options.device);
  DIVVY_CUDA_TRY(driver, cuDevicePrimaryCtxRetain, &context, device);
  DIVVY_CUDA_TRY(driver, cuCtxSetCurrent, context);
  DIVVY_TRY(const Kernels kernels, LoadKernels(driver));
  if (options.bench_launches != 0) {
    DIVVY_TRY(const double nanoseconds, MeasureLaunches(driver, kernels, options.bench_launches));
    std::printf("launch %.1f ns\n", nanoseconds);
    return 0;
  }
  if (options.bench_copy != 0) {
    DIVVY_TRY(const CopyRates rates, MeasureCopies(driver, options.bench_copy));
    std::printf(
        "copy to host %.0f bytes/s, to device %.0f bytes/s; fresh host memory %.0f bytes/s, again %.0f bytes/s\n",
        rates.to_host, rates.to_device, rates.fresh_first, rates.fresh_again);
    return 0;
  }
  Outcome outcome;
  std::uint64_t vram = 0;
  {
    Memory memory(driver, kernels, options.alloc_kind, device, options.seed, options.is_dense);
    if (options.is_hog) {
      DIVVY_CHECK(memory.AllocateAll());
      std::printf("hog %llu bytes in %zu allocations\n", static_cast<unsigned long long>(memory.bytes()),
                  memory.pieces());
      std::fflush(stdout);
      Hold(options.hold_seconds);
    } else {
      if (options.vram != 0) DIVVY_CHECK(memory.Allocate(options.vram));
      std::printf("ready\n");
      std::fflush(stdout);
      DIVVY_TRY(outcome, Compute(driver, kernels, options, options.vram != 0 ? &memory : nullptr));
      if (options.hold_seconds > 0) {
        Hold(options.hold_seconds);
        if (options.is_checked) {
          DIVVY_TRY(const std::uint64_t errors, memory.CountErrors());
          outcome.errors += errors;
          ++outcome.checks;
        }
      }
    }
    vram = memory.bytes();
  }
  DIVVY_CUDA_TRY(driver, cuModuleUnload, kernels.module);
  DIVVY_CUDA_TRY(driver, cuDevicePrimaryCtxRelease_v2, device);
  std::printf("gpu_seconds=%.3f wall_seconds=%.3f kernels=%llu vram=%llu checks=%llu errors=%llu\n",
              outcome.gpu_seconds, outcome.wall_seconds, static_cast<unsigned long long>(outcome.kernels),
              static_cast<unsigned long long>(vram), static_cast<unsigned long long>(outcome.checks),
              static_cast<unsigned long long>(outcome.errors));
  return outcome.errors == 0 ? 0 : kMemoryWrong;
}

int Main(const std::vector<std::string>& words) {
  const Result<Options> options = ReadOptions(words);
  if (!options) return Fail(options.error(), kUsage);
  if (options->wants_help) {
    std::fputs(std::string(Usage()).c_str(), stdout);
    return 0;
  }
  std::signal(SIGTERM, OnSignal);
  std::signal(SIGINT, OnSignal);
  const Result<int> code = Run(*options);
  return code ? *code : Fail(code.error(), kCudaFailed);
}

}  // namespace
}  // namespace divvy::burn

int main(int argc, char** argv) { return divvy::burn::Main({argv + 1, argv + argc}); }
