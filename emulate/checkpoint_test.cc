// Checkpoints of other processes, and injected faults.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "platform/emulation/emulation_cuda.h"
#include "platform/emulation/emulation_cuda_file.h"
#include "standin_test.h"

namespace divvy {
namespace checkpoint_test {

constexpr std::uint64_t kWord = 0xfeedfacecafe;

cuda::Uuid UuidOf(const GpuFacts& gpu) {
  cuda::Uuid uuid = {};
  std::string digits;
  for (const char c : gpu.uuid.substr(4)) {
    if (c != '-') digits += c;
  }
  for (std::size_t i = 0; i < 16; ++i) {
    uuid.bytes[i] = static_cast<unsigned char>(std::stoi(digits.substr(2 * i, 2), nullptr, 16));
  }
  return uuid;
}

// The CUDA runtime closes the driver when its start fails, and threads of the driver may run then.
TEST(StandIn, StaysLoadedWhenAProgramClosesIt) {
  void* const library = dlopen(DIVVY_STANDIN, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  dlclose(library);
  EXPECT_NE(dlopen(DIVVY_STANDIN, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD), nullptr);
}

// Holds a stamped gigabyte on GPU 0. On each request, reports its present GPU and whether the stamp is intact.
void Hold(const Talk& talk) {
  MakeCurrent();
  cuda::Pointer pointer = 0;
  OK(CUDA(cuMemAlloc_v2)(&pointer, kGiB));
  OK(CUDA(cuMemcpyHtoD_v2)(pointer + 500 * kMiB, &kWord, sizeof(kWord)));
  talk.Say(1);
  while (talk.Hear() == 1) {
    std::uint64_t got = 0;
    OK(CUDA(cuMemcpyDtoH_v2)(&got, pointer + 500 * kMiB, sizeof(got)));
    MUST(kWord, got);
    cuda::Uuid uuid = {};
    OK(CUDA(cuDeviceGetUuid_v2)(&uuid, 0));
    std::uint64_t part = 0;
    std::memcpy(&part, &uuid.bytes[8], sizeof(part));
    talk.Say(part);
  }
}

std::uint64_t PartOf(const GpuFacts& gpu) {
  const cuda::Uuid uuid = UuidOf(gpu);
  std::uint64_t part = 0;
  std::memcpy(&part, &uuid.bytes[8], sizeof(part));
  return part;
}

TEST_F(EmulatedCuda, ACheckpointedProcessIsRestoredOnAnotherGpuWithAllItsMemory) {
  const std::size_t tenant = Start(Hold);
  ASSERT_EQ(Hear(tenant), 1U);
  const auto pid = static_cast<int>(PidOf(tenant));
  const std::vector<GpuFacts>& gpus = facts_;
  const std::size_t keeper = Start([pid, &gpus](const Talk& talk) {
    MUST(cuda::kIllegalState, CUDA(cuCheckpointProcessCheckpoint)(pid, nullptr));
    OK(CUDA(cuCheckpointProcessLock)(pid, nullptr));
    OK(CUDA(cuCheckpointProcessCheckpoint)(pid, nullptr));
    cuda::ProcessState state = cuda::kProcessRunning;
    OK(CUDA(cuCheckpointProcessGetState)(pid, &state));
    MUST(cuda::kProcessCheckpointed, state);
    talk.Say(1);
    talk.Hear();
    cuda::GpuPair pairs[2] = {{UuidOf(gpus[0]), UuidOf(gpus[1])}, {UuidOf(gpus[1]), UuidOf(gpus[0])}};
    cuda::CheckpointRestore options = {};
    options.pairs = pairs;
    options.pair_count = 1;
    MUST(cuda::kInvalidValue, CUDA(cuCheckpointProcessRestore)(pid, &options));  // The map lacks a GPU.
    options.pair_count = 2;
    OK(CUDA(cuCheckpointProcessRestore)(pid, &options));
    OK(CUDA(cuCheckpointProcessUnlock)(pid, nullptr));
    talk.Say(2);
  });
  ASSERT_EQ(Hear(keeper), 1U);
  EXPECT_EQ(UseOf(tenant, 0).memory.count(), 0);
  EXPECT_EQ(UseOf(tenant, 0).residual.count(), 0);
  Say(tenant, 1);  // Its next call waits until it is restored.
  Say(keeper, 1);
  ASSERT_EQ(Hear(keeper), 2U);
  EXPECT_EQ(Hear(tenant), PartOf(facts_[1]));
  EXPECT_EQ(UseOf(tenant, 0).memory.count(), 0);
  EXPECT_EQ(UseOf(tenant, 1).memory.count(), static_cast<std::int64_t>(kGiB));
  EXPECT_GT(UseOf(tenant, 1).residual.count(), 0);
  Say(tenant, 0);
  EXPECT_EQ(End(tenant), 0);
  EXPECT_EQ(End(keeper), 0);
}

TEST_F(EmulatedCuda, AProcessThatIsMovedAHundredTimesUnderLoadKeepsItsMemory) {
  // Repeatedly writes a changing value to memory and reads it back after a kernel.
  const std::size_t tenant = Start([](const Talk& talk) {
    MakeCurrent();
    const cuda::Function spin = LoadSpin();
    cuda::Pointer pointer = 0;
    OK(CUDA(cuMemAlloc_v2)(&pointer, kGiB));
    talk.Say(1);
    for (unsigned round = 1;; ++round) {
      const cuda::Pointer at = pointer + round % 512 * kMiB;
      unsigned got = 0;
      OK(CUDA(cuMemsetD32Async)(at, round, 16, nullptr));
      OK(Spin(spin, 50'000));
      OK(CUDA(cuMemcpyDtoH_v2)(&got, at, sizeof(got)));
      MUST(round, got);
    }
  });
  ASSERT_EQ(Hear(tenant), 1U);
  const auto pid = static_cast<int>(PidOf(tenant));
  const std::vector<GpuFacts>& gpus = facts_;
  const std::size_t keeper = Start([pid, &gpus](const Talk& talk) {
    cuda::GpuPair pairs[2] = {{UuidOf(gpus[0]), UuidOf(gpus[1])}, {UuidOf(gpus[1]), UuidOf(gpus[0])}};
    cuda::CheckpointRestore options = {};
    options.pairs = pairs;
    options.pair_count = 2;
    for (int i = 0; i < 101; ++i) {
      OK(CUDA(cuCheckpointProcessLock)(pid, nullptr));
      OK(CUDA(cuCheckpointProcessCheckpoint)(pid, nullptr));
      OK(CUDA(cuCheckpointProcessRestore)(pid, &options));
      OK(CUDA(cuCheckpointProcessUnlock)(pid, nullptr));
    }
    talk.Say(1);
  });
  ASSERT_EQ(Hear(keeper), 1U);
  EXPECT_EQ(End(keeper), 0);
  EXPECT_EQ(kill(PidOf(tenant), 0), 0);
  EXPECT_EQ(UseOf(tenant, 0).memory.count(), 0);
  EXPECT_EQ(UseOf(tenant, 1).memory.count(), static_cast<std::int64_t>(kGiB));
  const std::int64_t busy = UseOf(tenant, 1).busy_ns;
  const double deadline = Seconds() + 60;
  while (UseOf(tenant, 1).busy_ns == busy && Seconds() < deadline) usleep(1000);
  EXPECT_GT(UseOf(tenant, 1).busy_ns, busy);  // It continues on the other GPU.
  EXPECT_EQ(waitpid(PidOf(tenant), nullptr, WNOHANG), 0);
}

TEST_F(EmulatedCuda, ARestoreWithoutRoomLeavesTheProcessCheckpointed) {
  const std::size_t tenant = Start(Hold);
  ASSERT_EQ(Hear(tenant), 1U);
  const auto pid = static_cast<int>(PidOf(tenant));
  const std::size_t keeper = Start([pid](const Talk& talk) {
    OK(CUDA(cuCheckpointProcessLock)(pid, nullptr));
    OK(CUDA(cuCheckpointProcessCheckpoint)(pid, nullptr));
    MakeCurrent();
    cuda::Pointer pointer = 0;
    std::size_t free_bytes = 0;
    std::size_t total = 0;
    OK(CUDA(cuMemGetInfo_v2)(&free_bytes, &total));
    OK(CUDA(cuMemAlloc_v2)(&pointer, free_bytes - 100 * kMiB));
    MUST(cuda::kOutOfMemory, CUDA(cuCheckpointProcessRestore)(pid, nullptr));
    OK(CUDA(cuMemFree_v2)(pointer));
    OK(CUDA(cuCheckpointProcessRestore)(pid, nullptr));
    OK(CUDA(cuCheckpointProcessUnlock)(pid, nullptr));
    talk.Say(1);
  });
  ASSERT_EQ(Hear(keeper), 1U);
  Say(tenant, 1);
  EXPECT_EQ(Hear(tenant), PartOf(facts_[0]));
}

TEST_F(EmulatedCuda, ALockThatTimesOutLeavesTheProcessRunning) {
  const std::size_t tenant = Start([](const Talk& talk) {
    MakeCurrent();
    OK(Spin(LoadSpin(), 3'600'000'000'000));
    talk.Say(1);
    talk.Hear();
    std::size_t free_bytes = 0;
    std::size_t total = 0;
    OK(CUDA(cuMemGetInfo_v2)(&free_bytes, &total));
  });
  ASSERT_EQ(Hear(tenant), 1U);
  const auto pid = static_cast<int>(PidOf(tenant));
  const std::size_t keeper = Start([pid](const Talk&) {
    cuda::CheckpointLock options = {};
    options.timeout_ms = 20;
    MUST(cuda::kNotReady, CUDA(cuCheckpointProcessLock)(pid, &options));
    cuda::ProcessState state = cuda::kProcessLocked;
    OK(CUDA(cuCheckpointProcessGetState)(pid, &state));
    MUST(cuda::kProcessRunning, state);
  });
  EXPECT_EQ(End(keeper), 0);
  Say(tenant, 1);
  EXPECT_EQ(End(tenant), 0);
}

TEST_F(EmulatedCuda, ACallOfAKilledKeeperCompletesBeforeTheNextKeepersCall) {
  const std::size_t tenant = Start([](const Talk& talk) {
    MakeCurrent();
    OK(Spin(LoadSpin(), 200'000'000));
    talk.Say(1);
    talk.Hear();
    OK(CUDA(cuCtxSynchronize)());
  });
  ASSERT_EQ(Hear(tenant), 1U);
  const auto pid = static_cast<int>(PidOf(tenant));
  const std::size_t killed = Start([pid](const Talk& talk) {
    talk.Say(1);
    CUDA(cuCheckpointProcessLock)(pid, nullptr);  // Waits for the kernel.
  });
  ASSERT_EQ(Hear(killed), 1U);
  // Its order was submitted and waits for the kernel.
  const int fd = open((EmulatedWorldPath(directory_) + emulation::kCudaSuffix).c_str(), O_RDONLY);
  const void* mapped = mmap(nullptr, sizeof(emulation::CudaFile), PROT_READ, MAP_SHARED, fd, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  close(fd);
  const auto& process = static_cast<const emulation::CudaFile*>(mapped)->processes[0];
  ASSERT_EQ(process.pid, static_cast<unsigned>(pid));
  const double deadline = Seconds() + 60;
  while (__atomic_load_n(&process.order.asked, __ATOMIC_ACQUIRE) == 0 && Seconds() < deadline) usleep(100);
  Kill(killed);
  const std::size_t next = Start([pid](const Talk&) {
    OK(CUDA(cuCheckpointProcessCheckpoint)(pid, nullptr));
    OK(CUDA(cuCheckpointProcessRestore)(pid, nullptr));
    OK(CUDA(cuCheckpointProcessUnlock)(pid, nullptr));
  });
  EXPECT_EQ(End(next), 0);
  munmap(const_cast<void*>(mapped), sizeof(emulation::CudaFile));
  Say(tenant, 1);
  EXPECT_EQ(End(tenant), 0);
}

TEST_F(EmulatedCuda, ProcessesWithManagedMemoryAreNotCheckpointed) {
  const std::size_t tenant = Start([](const Talk& talk) {
    MakeCurrent();
    cuda::Pointer pointer = 0;
    OK(CUDA(cuMemAllocManaged)(&pointer, kMiB, 1));
    talk.Say(1);
    talk.Hear();
  });
  ASSERT_EQ(Hear(tenant), 1U);
  const auto pid = static_cast<int>(PidOf(tenant));
  const std::size_t keeper = Start([pid](const Talk&) {
    OK(CUDA(cuCheckpointProcessLock)(pid, nullptr));
    MUST(cuda::kNotSupported, CUDA(cuCheckpointProcessCheckpoint)(pid, nullptr));
    OK(CUDA(cuCheckpointProcessUnlock)(pid, nullptr));
    MUST(cuda::kInvalidValue, CUDA(cuCheckpointProcessLock)(1, nullptr));  // A process that does not use CUDA.
  });
  EXPECT_EQ(End(keeper), 0);
}

TEST_F(EmulatedCuda, FaultsAffectOnlyTheCallForWhichTheyAreEnabled) {
  ASSERT_TRUE(SetCudaFault(directory_, 0, "oom-at", 2).has_value());
  const std::size_t child = Start([](const Talk& talk) {
    MakeCurrent();
    cuda::Pointer pointer = 0;
    OK(CUDA(cuMemAlloc_v2)(&pointer, kMiB));
    MUST(cuda::kOutOfMemory, CUDA(cuMemAlloc_v2)(&pointer, kMiB));
    OK(CUDA(cuMemAlloc_v2)(&pointer, kMiB));
    const cuda::Function spin = LoadSpin();
    talk.Say(1);
    talk.Hear();
    OK(Spin(spin, 1000));
    MUST(cuda::kIllegalAddress, CUDA(cuCtxSynchronize)());
    MUST(cuda::kIllegalAddress, CUDA(cuMemAlloc_v2)(&pointer, kMiB));  // The error is permanent.
  });
  ASSERT_EQ(Hear(child), 1U);
  ASSERT_TRUE(SetCudaFault(directory_, 0, "sticky", cuda::kIllegalAddress).has_value());
  Say(child, 1);
  EXPECT_EQ(End(child), 0);
  EXPECT_FALSE(SetCudaFault(directory_, 0, "bad-luck", 1).has_value());

  ASSERT_TRUE(DriveEmulation(directory_, {"cuda-fault", "0", "copy-rate", "100MiB"}).has_value());
  const std::size_t slow = Start([](const Talk& talk) {
    MakeCurrent();
    cuda::Pointer pointer = 0;
    std::vector<char> bytes(10 * kMiB);
    OK(CUDA(cuMemAlloc_v2)(&pointer, bytes.size()));
    const double start = Seconds();
    OK(CUDA(cuMemcpyHtoD_v2)(pointer, bytes.data(), bytes.size()));
    talk.Say(static_cast<std::uint64_t>((Seconds() - start) * 1000));
  });
  EXPECT_GE(Hear(slow), 99U);  // In milliseconds.
  EXPECT_EQ(End(slow), 0);
}

TEST_F(EmulatedCuda, ARefusedRestoreCanBeTriedAgain) {
  const std::size_t tenant = Start(Hold);
  ASSERT_EQ(Hear(tenant), 1U);
  const auto pid = static_cast<int>(PidOf(tenant));
  ASSERT_TRUE(SetCudaFault(directory_, 0, "refuse-restore", 1).has_value());
  const std::size_t keeper = Start([pid](const Talk& talk) {
    OK(CUDA(cuCheckpointProcessLock)(pid, nullptr));
    OK(CUDA(cuCheckpointProcessCheckpoint)(pid, nullptr));
    MUST(cuda::kUnknown, CUDA(cuCheckpointProcessRestore)(pid, nullptr));
    talk.Say(1);
    talk.Hear();
    OK(CUDA(cuCheckpointProcessRestore)(pid, nullptr));
    OK(CUDA(cuCheckpointProcessUnlock)(pid, nullptr));
  });
  ASSERT_EQ(Hear(keeper), 1U);
  ASSERT_TRUE(SetCudaFault(directory_, 0, "none", 0).has_value());
  Say(keeper, 1);
  EXPECT_EQ(End(keeper), 0);
  Say(tenant, 1);
  EXPECT_EQ(Hear(tenant), PartOf(facts_[0]));
}

}  // namespace checkpoint_test
}  // namespace divvy
