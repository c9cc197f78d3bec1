#include "work.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

namespace divvy::burn {

std::atomic<bool> is_told_to_end = false;

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kInFlightNs = 10'000'000;
constexpr std::size_t kMostInFlight = 64;
constexpr double kCheckEverySeconds = 1;

double Since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Kernels in flight, each with the event recorded after it.
class Flight {
 public:
  Flight(const Driver& driver, const Kernels& kernels, std::size_t depth)
      : driver_(driver), kernels_(kernels), events_(depth) {}
  Flight(const Flight&) = delete;
  Flight& operator=(const Flight&) = delete;
  ~Flight() {
    for (const auto& flown : events_) {
      if (flown.event != nullptr) driver_.cuEventDestroy_v2(flown.event);
    }
    if (stream_ != nullptr) driver_.cuStreamDestroy_v2(stream_);
  }

  Status Begin() {
    DIVVY_CUDA_TRY(driver_, cuStreamCreate, &stream_, cuda::kStreamNonBlocking);
    for (Flown& flown : events_) DIVVY_CUDA_TRY(driver_, cuEventCreate, &flown.event, cuda::kEventDisableTiming);
    return {};
  }

  Status Launch(std::uint64_t nanoseconds) {
    Flown& flown = events_[next_++ % events_.size()];
    DIVVY_CHECK(Land(flown));
    std::array<void*, 1> arguments = {&nanoseconds};
    DIVVY_CUDA_TRY(driver_, cuLaunchKernel, kernels_.spin, 1, 1, 1, 1, 1, 1, 0, stream_, arguments.data(), nullptr);
    DIVVY_CUDA_TRY(driver_, cuEventRecord, flown.event, stream_);
    flown.nanoseconds = nanoseconds;
    return {};
  }

  Status LandAll() {
    for (Flown& flown : events_) DIVVY_CHECK(Land(flown));
    return {};
  }

  std::uint64_t done_ns() const { return done_ns_; }
  std::uint64_t kernels() const { return done_; }

 private:
  struct Flown {
    cuda::Event event = nullptr;
    std::uint64_t nanoseconds = 0;  // 0: slot unused.
  };

  Status Land(Flown& flown) {
    if (flown.nanoseconds == 0) return {};
    DIVVY_CUDA_TRY(driver_, cuEventSynchronize, flown.event);
    done_ns_ += flown.nanoseconds;
    ++done_;
    flown.nanoseconds = 0;
    return {};
  }

  const Driver& driver_;
  const Kernels& kernels_;
  cuda::Stream stream_ = nullptr;
  std::vector<Flown> events_;
  std::size_t next_ = 0;
  std::uint64_t done_ns_ = 0;
  std::uint64_t done_ = 0;
};

Status Check(Memory* memory, Outcome& outcome) {
  if (memory == nullptr) return {};
  DIVVY_TRY(const std::uint64_t errors, memory->CountErrors());
  ++outcome.checks;
  outcome.errors += errors;
  return {};
}

// Prints progress lines: the steps, and the rate of each second.
class Progress {
 public:
  Progress(const Options& options, Clock::time_point start) : options_(options), start_(start), rated_(start) {}

  void Show(std::uint64_t done_ns) {
    const double done = static_cast<double>(done_ns) / 1e9;
    while (step_ < options_.steps && done >= options_.gpu_seconds * (step_ + 1) / options_.steps - 1e-9) {
      std::printf("step %d/%d gpu %.3f s wall %.3f s\n", ++step_, options_.steps, done, Since(start_));
      std::fflush(stdout);
    }
    if (!options_.prints_rate || Since(rated_) < 1) return;
    std::printf("rate %.3f gpu %.3f s wall %.3f s\n", (done - rated_done_) / Since(rated_), done, Since(start_));
    std::fflush(stdout);
    rated_ = Clock::now();
    rated_done_ = done;
  }

 private:
  const Options& options_;
  Clock::time_point start_;
  Clock::time_point rated_;
  double rated_done_ = 0;
  int step_ = 0;
};

}  // namespace

void Hold(double seconds) {
  const Clock::time_point start = Clock::now();
  while (!is_told_to_end && (seconds < 0 || Since(start) < seconds)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

Result<Outcome> Compute(const Driver& driver, const Kernels& kernels, const Options& options, Memory* memory) {
  Memory* checked = options.is_checked ? memory : nullptr;
  Outcome outcome;
  const Clock::time_point start = Clock::now();
  Clock::time_point checked_at = start;
  Flight flight(driver, kernels, std::clamp<std::size_t>(kInFlightNs / options.kernel_ns, 2, kMostInFlight));
  DIVVY_CHECK(flight.Begin());
  Progress progress(options, start);
  auto left = static_cast<std::uint64_t>(options.gpu_seconds * 1e9);
  const auto all = left;
  auto idle_at = options.idle_after > 0 ? static_cast<std::uint64_t>(options.idle_after * 1e9) : all + 1;
  while (left > 0 && !is_told_to_end) {
    const std::uint64_t length = std::min(left, options.kernel_ns);
    DIVVY_CHECK(flight.Launch(length));
    left -= length;
    progress.Show(flight.done_ns());
    if (checked != nullptr && Since(checked_at) >= kCheckEverySeconds) {
      DIVVY_CHECK(Check(checked, outcome));
      checked_at = Clock::now();
    }
    if (all - left < idle_at) continue;
    idle_at = all + 1;
    DIVVY_CHECK(flight.LandAll());
    progress.Show(flight.done_ns());
    std::printf("idle\n");
    std::fflush(stdout);
    Hold(options.wake_after);
    std::printf("awake\n");
    std::fflush(stdout);
  }
  DIVVY_CHECK(flight.LandAll());
  progress.Show(flight.done_ns());
  DIVVY_CHECK(Check(checked, outcome));
  outcome.gpu_seconds = static_cast<double>(flight.done_ns()) / 1e9;
  outcome.kernels = flight.kernels();
  outcome.wall_seconds = Since(start);
  return outcome;
}

Result<double> MeasureLaunches(const Driver& driver, const Kernels& kernels, std::uint64_t count) {
  cuda::Stream stream = nullptr;
  DIVVY_CUDA_TRY(driver, cuStreamCreate, &stream, cuda::kStreamNonBlocking);
  constexpr std::uint64_t kWarm = 1000;
  Clock::time_point start;
  for (std::uint64_t i = 0; i < kWarm + count; ++i) {
    if (i == kWarm) {
      DIVVY_CUDA_TRY(driver, cuStreamSynchronize, stream);
      start = Clock::now();
    }
    DIVVY_CUDA_TRY(driver, cuLaunchKernel, kernels.nothing, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr);
  }
  DIVVY_CUDA_TRY(driver, cuStreamSynchronize, stream);
  const double seconds = Since(start);
  DIVVY_CUDA_TRY(driver, cuStreamDestroy_v2, stream);
  return seconds * 1e9 / static_cast<double>(count);
}

namespace {

/// Returns the rate, in bytes per second, at which threads write to `bytes` of newly allocated memory.
Result<double> MeasureFreshMemory(std::uint64_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return InvalidArgument("the host does not have enough memory");
  madvise(memory, bytes, MADV_HUGEPAGE);
  const std::uint64_t count = std::clamp(std::thread::hardware_concurrency(), 1U, 8U);
  const Clock::time_point start = Clock::now();
  {
    std::vector<std::jthread> threads;
    for (std::uint64_t i = 0; i < count; ++i) {
      char* const begin = static_cast<char*>(memory) + bytes * i / count;
      char* const end = static_cast<char*>(memory) + bytes * (i + 1) / count;
      threads.emplace_back([begin, end] { std::memset(begin, 1, static_cast<std::size_t>(end - begin)); });
    }
  }
  const double seconds = Since(start);
  munmap(memory, bytes);
  return static_cast<double>(bytes) / seconds;
}

}  // namespace

Result<CopyRates> MeasureCopies(const Driver& driver, std::uint64_t bytes) {
  void* host = nullptr;
  cuda::Pointer device = 0;
  DIVVY_CUDA_TRY(driver, cuMemAlloc_v2, &device, bytes);
  DIVVY_CUDA_TRY(driver, cuMemHostAlloc, &host, bytes, 0);
  std::memset(host, 1, bytes);  // Untouched pages would cost nothing to copy.
  CopyRates rates;
  const auto count = static_cast<double>(bytes);
  for (int i = 0; i < 3; ++i) {
    Clock::time_point start = Clock::now();
    DIVVY_CUDA_TRY(driver, cuMemcpyHtoD_v2, device, host, bytes);
    DIVVY_CUDA_TRY(driver, cuCtxSynchronize);
    rates.to_device = std::max(rates.to_device, count / Since(start));
    start = Clock::now();
    DIVVY_CUDA_TRY(driver, cuMemcpyDtoH_v2, host, device, bytes);
    rates.to_host = std::max(rates.to_host, count / Since(start));
  }
  DIVVY_CUDA_TRY(driver, cuMemFreeHost, host);
  DIVVY_CUDA_TRY(driver, cuMemFree_v2, device);
  DIVVY_TRY(rates.fresh_first, MeasureFreshMemory(bytes));
  DIVVY_TRY(rates.fresh_again, MeasureFreshMemory(bytes));
  return rates;
}

}  // namespace divvy::burn
