// GPU time shared by several processes, streams, lookup of entry points, and visible GPUs.
#include <algorithm>

#include "platform/gpu/nvml_api.h"
#include "standin_test.h"

namespace divvy {
namespace time_slices_test {

constexpr std::uint64_t kMs = 1'000'000;

// Keeps the GPU busy with kernels of `length` until told to stop.
void KeepBusy(const Talk& talk, std::uint64_t length) {
  MakeCurrent();
  const cuda::Function spin = LoadSpin();
  cuda::Event events[8] = {};
  for (cuda::Event& event : events) OK(CUDA(cuEventCreate)(&event, cuda::kEventDisableTiming));
  talk.Say(1);
  for (std::size_t i = 0;; ++i) {
    cuda::Event event = events[i % 8];
    OK(CUDA(cuEventSynchronize)(event));
    for (std::uint64_t done = 0; done < 4 * kMs; done += length) OK(Spin(spin, length));
    OK(CUDA(cuEventRecord)(event, nullptr));
  }
}

TEST_F(EmulatedCuda, TwoBusyProcessesGetHalfOfTheGpuEachWhateverTheirKernelLengths) {
  const std::size_t a = Start([](const Talk& talk) { KeepBusy(talk, 20 * kMs); });
  const std::size_t b = Start([](const Talk& talk) { KeepBusy(talk, 100'000); });
  ASSERT_EQ(Hear(a), 1U);
  ASSERT_EQ(Hear(b), 1U);
  const double deadline = Seconds() + 60;
  while ((UseOf(a, 0).busy_ns == 0 || UseOf(b, 0).busy_ns == 0) && Seconds() < deadline) usleep(1000);
  const std::int64_t first_a = UseOf(a, 0).busy_ns;
  const std::int64_t first_b = UseOf(b, 0).busy_ns;
  while (UseOf(a, 0).busy_ns < first_a + 500'000'000 && Seconds() < deadline) usleep(1000);
  const auto used_a = static_cast<double>(UseOf(a, 0).busy_ns - first_a);
  const auto used_b = static_cast<double>(UseOf(b, 0).busy_ns - first_b);
  EXPECT_NEAR(used_a / (used_a + used_b), 0.5, 0.1);
}

TEST_F(EmulatedCuda, AKilledProcessDoesNotKeepItsTimeSlice) {
  const std::size_t killed = Start([](const Talk& talk) {
    MakeCurrent();
    OK(Spin(LoadSpin(), 3'600'000 * kMs));
    talk.Say(1);
    talk.Hear();
  });
  ASSERT_EQ(Hear(killed), 1U);
  const double deadline = Seconds() + 60;
  while (UseOf(killed, 0).busy_ns == 0 && Seconds() < deadline) usleep(1000);
  Kill(killed);
  const std::size_t next = Start([](const Talk&) {
    MakeCurrent();
    OK(Spin(LoadSpin(), 10 * kMs));
    OK(CUDA(cuCtxSynchronize)());
  });
  EXPECT_EQ(End(next), 0);
}

TEST_F(EmulatedCuda, AStoppedProcessDoesNotKeepItsTimeSlice) {
  const std::size_t stopped = Start([](const Talk& talk) { KeepBusy(talk, 2 * kMs); });
  ASSERT_EQ(Hear(stopped), 1U);
  const double deadline = Seconds() + 60;
  while (UseOf(stopped, 0).busy_ns == 0 && Seconds() < deadline) usleep(1000);
  ASSERT_EQ(kill(PidOf(stopped), SIGSTOP), 0);
  const std::size_t other = Start([](const Talk&) {
    MakeCurrent();
    OK(Spin(LoadSpin(), 100 * kMs));
    OK(CUDA(cuCtxSynchronize)());
  });
  EXPECT_EQ(End(other), 0);
  const std::int64_t busy = UseOf(stopped, 0).busy_ns;
  ASSERT_EQ(kill(PidOf(stopped), SIGCONT), 0);
  while (UseOf(stopped, 0).busy_ns == busy && Seconds() < deadline) usleep(1000);
  EXPECT_GT(UseOf(stopped, 0).busy_ns, busy);
}

TEST_F(EmulatedCuda, ManyShortKernelsTakeTheSumOfTheirTimes) {
  const std::size_t child = Start([](const Talk& talk) {
    MakeCurrent();
    const cuda::Function spin = LoadSpin();
    const double start = Seconds();
    for (int i = 0; i < 20'000; ++i) OK(Spin(spin, 10'000));
    OK(CUDA(cuCtxSynchronize)());
    talk.Say(static_cast<std::uint64_t>((Seconds() - start) * 1e6));
    talk.Hear();
  });
  EXPECT_GE(Hear(child), 199'000U);  // In microseconds: 20,000 kernels of 10 us.
  EXPECT_EQ(UseOf(child, 0).busy_ns, 200 * 1'000'000);
}

TEST_F(EmulatedCuda, NvmlShowsTheProcessItsMemoryAndTheLoad) {
  const std::size_t child = Start([](const Talk& talk) {
    MakeCurrent();
    cuda::Pointer pointer = 0;
    OK(CUDA(cuMemAlloc_v2)(&pointer, 3 * kGiB));
    KeepBusy(talk, 2 * kMs);
  });
  ASSERT_EQ(Hear(child), 1U);
  const double deadline = Seconds() + 60;
  while (UseOf(child, 0).busy_ns < 1'500'000'000 && Seconds() < deadline) usleep(10'000);
  void* library = dlopen((directory_ + "/libnvidia-ml.so.1").c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr);
#define NVML(name) (reinterpret_cast<decltype(&name)>(dlsym(library, #name)))
  ASSERT_EQ(NVML(nvmlInit_v2)(), nvml::kSuccess);
  nvml::Device device = nullptr;
  ASSERT_EQ(NVML(nvmlDeviceGetHandleByIndex_v2)(0, &device), nvml::kSuccess);
  nvml::ProcessUse list[4];
  unsigned count = 4;
  ASSERT_EQ(NVML(nvmlDeviceGetComputeRunningProcesses_v3)(device, &count, list), nvml::kSuccess);
  ASSERT_EQ(count, 1U);
  EXPECT_EQ(list[0].pid, static_cast<unsigned>(PidOf(child)));
  EXPECT_EQ(list[0].used_memory, 3 * kGiB + 256 * kMiB + 2 * kMiB);  // Including its context and code.
  nvml::Memory memory;
  ASSERT_EQ(NVML(nvmlDeviceGetMemoryInfo)(device, &memory), nvml::kSuccess);
  EXPECT_EQ(memory.used, list[0].used_memory);
  nvml::Utilisation load;
  ASSERT_EQ(NVML(nvmlDeviceGetUtilizationRates)(device, &load), nvml::kSuccess);
  EXPECT_GT(load.gpu, 50U);
  Kill(child);
  count = 4;
  ASSERT_EQ(NVML(nvmlDeviceGetComputeRunningProcesses_v3)(device, &count, list), nvml::kSuccess);
  EXPECT_EQ(count, 0U);
  EXPECT_EQ(NVML(nvmlShutdown)(), nvml::kSuccess);
#undef NVML
  dlclose(library);
}

TEST_F(EmulatedCuda, AStreamThatWaitsForAnEventRunsAfterIt) {
  const std::size_t child = Start([](const Talk&) {
    MakeCurrent();
    const cuda::Function spin = LoadSpin();
    cuda::Stream first = nullptr;
    cuda::Stream second = nullptr;
    cuda::Event event = nullptr;
    OK(CUDA(cuStreamCreate)(&first, cuda::kStreamNonBlocking));
    OK(CUDA(cuStreamCreate)(&second, cuda::kStreamNonBlocking));
    OK(CUDA(cuEventCreate)(&event, 0));
    cuda::Pointer pointer = 0;
    OK(CUDA(cuMemAlloc_v2)(&pointer, kMiB));
    OK(Spin(spin, 50 * kMs, first));
    OK(CUDA(cuMemsetD32Async)(pointer, 7, 1, first));
    OK(CUDA(cuEventRecord)(event, first));
    MUST(cuda::kNotReady, CUDA(cuEventQuery)(event));
    unsigned got = 0;
    OK(CUDA(cuStreamWaitEvent)(second, event, 0));
    OK(CUDA(cuMemcpyDtoHAsync_v2)(&got, pointer, sizeof(got), second));
    OK(CUDA(cuStreamSynchronize)(second));
    MUST(7U, got);
  });
  EXPECT_EQ(End(child), 0);
}

TEST_F(EmulatedCuda, StreamZeroWaitsForOtherStreamsUnlessItIsPerThread) {
  const std::size_t child = Start([](const Talk&) {
    MakeCurrent();
    const cuda::Function spin = LoadSpin();
    cuda::Stream blocking = nullptr;
    OK(CUDA(cuStreamCreate)(&blocking, 0));
    OK(Spin(spin, 100 * kMs, blocking));
    OK(CUDA(cuStreamSynchronize_ptsz)(nullptr));
    MUST(cuda::kNotReady, CUDA(cuStreamQuery)(blocking));
    OK(CUDA(cuStreamSynchronize)(nullptr));
    OK(CUDA(cuStreamQuery)(blocking));
    // Stream 0 never waits for non-blocking streams.
    cuda::Stream free_stream = nullptr;
    OK(CUDA(cuStreamCreate)(&free_stream, cuda::kStreamNonBlocking));
    OK(Spin(spin, 3'600'000 * kMs, free_stream));
    cuda::Pointer pointer = 0;
    OK(CUDA(cuMemAlloc_v2)(&pointer, kMiB));
    unsigned got = 1;
    OK(CUDA(cuMemcpyDtoH_v2)(&got, pointer, sizeof(got)));
    MUST(0U, got);
    MUST(cuda::kNotReady, CUDA(cuStreamQuery)(free_stream));
  });
  EXPECT_EQ(End(child), 0);
}

TEST_F(EmulatedCuda, RecordedWorkRunsWhenItsGraphIsLaunched) {
  const std::size_t child = Start([](const Talk&) {
    MakeCurrent();
    cuda::Stream stream = nullptr;
    cuda::Pointer pointer = 0;
    OK(CUDA(cuStreamCreate)(&stream, 0));
    OK(CUDA(cuMemAlloc_v2)(&pointer, kMiB));
    OK(CUDA(cuStreamBeginCapture_v2)(stream, 0));
    OK(CUDA(cuMemsetD32Async)(pointer, 11, 1, stream));
    cuda::Graph graph = nullptr;
    OK(CUDA(cuStreamEndCapture)(stream, &graph));
    unsigned got = 0;
    OK(CUDA(cuMemcpyDtoH_v2)(&got, pointer, sizeof(got)));
    MUST(0U, got);
    cuda::GraphExec exec = nullptr;
    OK(CUDA(cuGraphInstantiateWithFlags)(&exec, graph, 0));
    OK(CUDA(cuGraphLaunch)(exec, stream));
    OK(CUDA(cuStreamSynchronize)(stream));
    OK(CUDA(cuMemcpyDtoH_v2)(&got, pointer, sizeof(got)));
    MUST(11U, got);
    OK(CUDA(cuGraphExecDestroy)(exec));
    OK(CUDA(cuGraphDestroy)(graph));
  });
  EXPECT_EQ(End(child), 0);
}

TEST_F(EmulatedCuda, GetProcAddressReturnsTheVersionThatTheProgramKnows) {
  const std::size_t child = Start([](const Talk&) {
    void* found = nullptr;
    cuda::ProcAddressResult result = cuda::kProcFound;
    OK(CUDA(cuGetProcAddress_v2)("cuMemAlloc", &found, 12000, 0, &result));
    MUST(dlsym(cuda_library, "cuMemAlloc_v2") == found, true);
    OK(CUDA(cuGetProcAddress_v2)("cuLaunchKernel", &found, 12000, cuda::kProcPerThreadStream, &result));
    MUST(dlsym(cuda_library, "cuLaunchKernel_ptsz") == found, true);
    OK(CUDA(cuGetProcAddress_v2)("cuCheckpointProcessLock", &found, 11000, 0, &result));
    MUST(cuda::kProcVersionNotSufficient, result);
    MUST(found == nullptr, true);
    OK(CUDA(cuGetProcAddress_v2)("cuNoSuchThing", &found, 13000, 0, &result));
    MUST(cuda::kProcNotFound, result);
  });
  EXPECT_EQ(End(child), 0);
}

TEST_F(EmulatedCuda, TheTablesOfTheCudaRuntimeAreRefusedWithOneMessage) {
  const std::size_t child = Start([](const Talk&) {
    int ends[2];
    MUST(0, pipe(ends));
    const int errors = dup(2);
    dup2(ends[1], 2);
    const void* table = &ends;
    const cuda::Uuid id = {};
    const cuda::Return first = CUDA(cuGetExportTable)(&table, &id);
    const cuda::Return second = CUDA(cuGetExportTable)(&table, &id);
    dup2(errors, 2);
    close(ends[1]);
    MUST(cuda::kNotSupported, first);
    MUST(cuda::kNotSupported, second);
    MUST(table == nullptr, true);
    std::string text(2000, ' ');
    text.resize(static_cast<std::size_t>(read(ends[0], text.data(), text.size())));
    MUST(1, std::count(text.begin(), text.end(), '\n'));
    MUST(text.find("emulated GPUs cannot run programs of the CUDA runtime") != std::string::npos, true);
    MUST(0, read(ends[0], text.data(), text.size()));
  });
  EXPECT_EQ(End(child), 0);
}

TEST_F(EmulatedCuda, VisibleDevicesAreNamedByIndexAndByUuid) {
  const std::string uuid = facts_[1].uuid;
  const std::size_t child = Start(
      [&uuid](const Talk&) {
        setenv("CUDA_VISIBLE_DEVICES", (uuid + ",0,7,1").c_str(), 1);
        OK(CUDA(cuInit)(0));
        int count = 0;
        OK(CUDA(cuDeviceGetCount)(&count));
        MUST(2, count);  // Entry 7 matches no GPU and ends the list.
        cuda::Uuid first = {};
        OK(CUDA(cuDeviceGetUuid_v2)(&first, 0));
        MUST(std::stoi(uuid.substr(4, 2), nullptr, 16), first.bytes[0]);
        MUST(std::stoi(uuid.substr(38, 2), nullptr, 16), first.bytes[15]);
      },
      false);
  EXPECT_EQ(End(child), 0);
  const std::size_t blind = Start(
      [](const Talk&) {
        setenv("CUDA_VISIBLE_DEVICES", "", 1);
        MUST(cuda::kNoDevice, CUDA(cuInit)(0));
      },
      false);
  EXPECT_EQ(End(blind), 0);
}

TEST_F(EmulatedCuda, AForkedChildOfACudaProgramGetsAnError) {
  const std::size_t child = Start([](const Talk&) {
    MakeCurrent();
    const pid_t forked = fork();
    if (forked == 0) {
      cuda::Pointer pointer = 0;
      _exit(CUDA(cuMemAlloc_v2)(&pointer, kMiB) == cuda::kNotInitialized ? 0 : 1);
    }
    int status = 1;
    waitpid(forked, &status, 0);
    MUST(0, status);
  });
  EXPECT_EQ(End(child), 0);
}

}  // namespace time_slices_test
}  // namespace divvy
