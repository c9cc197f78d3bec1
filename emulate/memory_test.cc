// Memory of the stand-in driver: contents, capacity across processes, addresses, and cleanup after a process dies.
#include <fcntl.h>

#include <fstream>

#include "standin_test.h"

namespace divvy {
namespace memory_test {

std::uint64_t AllocateUntilRefused(std::size_t piece) {
  std::uint64_t bytes = 0;
  cuda::Pointer pointer = 0;
  while (CUDA(cuMemAlloc_v2)(&pointer, piece) == cuda::kSuccess) bytes += piece;
  return bytes;
}

std::uint64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  std::uint64_t size = 0;
  std::uint64_t resident = 0;
  statm >> size >> resident;
  return resident * 4096;
}

TEST_F(EmulatedCuda, ProcessesThatRaceForMemoryGetExactlyAllOfIt) {
  for (int i = 0; i < 4; ++i) {
    Start([](const Talk& talk) {
      MakeCurrent();
      talk.Say(1);
      talk.Hear();
      talk.Say(AllocateUntilRefused(64 * kMiB));
      talk.Hear();
    });
  }
  for (std::size_t i = 0; i < 4; ++i) ASSERT_EQ(Hear(i), 1U);
  for (std::size_t i = 0; i < 4; ++i) Say(i, 1);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < 4; ++i) sum += Hear(i);
  std::uint64_t residual = 0;
  for (std::size_t i = 0; i < 4; ++i) residual += static_cast<std::uint64_t>(UseOf(i, 0).residual.count());
  const auto total = static_cast<std::uint64_t>(facts_[0].memory_total.count());
  EXPECT_EQ(residual, 4 * 256 * kMiB);
  EXPECT_LE(sum + residual, total);
  EXPECT_GT(sum + residual, total - 64 * kMiB);
}

TEST_F(EmulatedCuda, MemoryOfAKilledProcessIsFreeAgain) {
  const std::size_t hog = Start([](const Talk& talk) {
    MakeCurrent();
    talk.Say(AllocateUntilRefused(256 * kMiB));
    talk.Hear();
  });
  ASSERT_GT(Hear(hog), 70 * kGiB);
  Kill(hog);
  const std::size_t next = Start([](const Talk&) {
    MakeCurrent();
    cuda::Pointer pointer = 0;
    OK(CUDA(cuMemAlloc_v2)(&pointer, 70 * kGiB));
    OK(CUDA(cuMemFree_v2)(pointer));
    std::size_t free_bytes = 0;
    std::size_t total = 0;
    OK(CUDA(cuMemGetInfo_v2)(&free_bytes, &total));
    MUST(total - 256 * kMiB, free_bytes);
  });
  EXPECT_EQ(End(next), 0);
}

TEST_F(EmulatedCuda, AProgramStartedByExecHasNoMemoryOfItsPredecessor) {
  const std::size_t child = Start([](const Talk& talk) {
    MakeCurrent();
    cuda::Pointer pointer = 0;
    OK(CUDA(cuMemAlloc_v2)(&pointer, 70 * kGiB));
    talk.Say(1);
    talk.Hear();
    execlp("sleep", "sleep", "600", nullptr);
  });
  ASSERT_EQ(Hear(child), 1U);
  EXPECT_EQ(UseOf(child, 0).memory.count(), static_cast<std::int64_t>(70 * kGiB));
  Say(child, 1);
  const double deadline = Seconds() + 60;
  while (UseOf(child, 0).memory.count() != 0 && Seconds() < deadline) usleep(1000);
  EXPECT_EQ(UseOf(child, 0).memory.count(), 0);
  const std::size_t next = Start([](const Talk&) {
    MakeCurrent();
    cuda::Pointer pointer = 0;
    OK(CUDA(cuMemAlloc_v2)(&pointer, 70 * kGiB));
  });
  EXPECT_EQ(End(next), 0);
}

TEST_F(EmulatedCuda, AGpuThatFellOffTheBusTakesNoMoreWork) {
  const std::size_t child = Start([](const Talk& talk) {
    MakeCurrent();
    const cuda::Function spin = LoadSpin();
    talk.Say(1);
    talk.Hear();
    cuda::Pointer pointer = 0;
    MUST(cuda::kUnknown, CUDA(cuMemAlloc_v2)(&pointer, kMiB));
    OK(Spin(spin, 1000));
    MUST(cuda::kUnknown, CUDA(cuCtxSynchronize)());
  });
  ASSERT_EQ(Hear(child), 1U);
  ASSERT_TRUE(DriveEmulation(directory_, {"lose", "0"}).has_value());
  Say(child, 1);
  EXPECT_EQ(End(child), 0);
}

TEST_F(EmulatedCuda, CopiesOfUnwrittenMemoryTakeNoHostMemory) {
  const std::size_t child = Start([](const Talk&) {
    MakeCurrent();
    cuda::Pointer device = 0;
    cuda::Pointer other = 0;
    void* host = nullptr;
    OK(CUDA(cuMemAlloc_v2)(&device, kGiB));
    OK(CUDA(cuMemAlloc_v2)(&other, kGiB));
    OK(CUDA(cuMemHostAlloc)(&host, kGiB, 0));
    const std::uint64_t word = 0x1122334455667788;
    OK(CUDA(cuMemcpyHtoD_v2)(device + 777 * kMiB + 24, &word, sizeof(word)));
    // The target's former contents are overwritten even where the source is a hole.
    OK(CUDA(cuMemsetD8_v2)(other + 5 * kMiB, 0xff, kMiB));
    const std::uint64_t before = ResidentBytes();
    OK(CUDA(cuMemcpyDtoH_v2)(host, device, kGiB));
    OK(CUDA(cuMemcpyHtoD_v2)(other, host, kGiB));
    MUST(true, ResidentBytes() < before + 16 * kMiB);
    std::uint64_t got = 0;
    OK(CUDA(cuMemcpyDtoH_v2)(&got, other + 777 * kMiB + 24, sizeof(got)));
    MUST(word, got);
    OK(CUDA(cuMemcpyDtoH_v2)(&got, other + 5 * kMiB + 4096, sizeof(got)));
    MUST(0U, got);
  });
  EXPECT_EQ(End(child), 0);
}

TEST_F(EmulatedCuda, CopiesFindAllDataBetweenHolesWhereverTheMemoryIs) {
  for (const char* folder : {"", "/tmp"}) {
    if (folder[0] != '\0') {
      const int file = ::open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
      if (file < 0) continue;  // Its file system, such as an overlay of an old kernel, has no files without names.
      ::close(file);
    }
    const std::size_t child = Start([folder](const Talk&) {
      if (folder[0] != '\0') setenv("DIVVY_EMULATE_MEMORY", folder, 1);
      MakeCurrent();
      cuda::Pointer device = 0;
      OK(CUDA(cuMemAlloc_v2)(&device, 16 * kMiB));
      std::vector<char> expected(16 * kMiB);
      // Data of many lengths, at offsets within pages.
      for (std::size_t at = 100; at + 9000 < expected.size(); at += 3 * 4096 + 1234 + at / 7) {
        const std::size_t length = 1 + at % 9000;
        OK(CUDA(cuMemsetD8_v2)(device + at, static_cast<unsigned char>(1 + at % 200), length));
        memset(expected.data() + at, static_cast<int>(1 + at % 200), length);
      }
      std::vector<char> got(16 * kMiB, 'x');
      OK(CUDA(cuMemcpyDtoH_v2)(got.data() + 77, device + 77, got.size() - 77));
      MUST(true, memcmp(got.data() + 77, expected.data() + 77, got.size() - 77) == 0);
    });
    EXPECT_EQ(End(child), 0);
  }
}

TEST_F(EmulatedCuda, MappedMemoryKeepsItsContentsWhereverItIsMapped) {
  const std::size_t child = Start([](const Talk&) {
    MakeCurrent();
    cuda::AllocationProperties properties = {};
    properties.type = cuda::kAllocationPinned;
    properties.location = {cuda::kLocationDevice, 0};
    std::size_t unit = 0;
    OK(CUDA(cuMemGetAllocationGranularity)(&unit, &properties, 0));
    MUST(2 * kMiB, unit);
    cuda::Allocation handle = 0;
    cuda::Pointer addresses = 0;
    MUST(cuda::kInvalidValue, CUDA(cuMemCreate)(&handle, kMiB, &properties, 0));
    OK(CUDA(cuMemCreate)(&handle, 4 * kMiB, &properties, 0));
    OK(CUDA(cuMemAddressReserve)(&addresses, 64 * kMiB, 0, 0, 0));
    OK(CUDA(cuMemMap)(addresses, 4 * kMiB, 0, handle, 0));
    const std::uint64_t word = 42;
    std::uint64_t got = 0;
    // No access rights yet.
    MUST(cuda::kInvalidValue, CUDA(cuMemcpyHtoD_v2)(addresses, &word, sizeof(word)));
    const cuda::AccessRights rights = {{cuda::kLocationDevice, 0}, cuda::kAccessReadWrite};
    OK(CUDA(cuMemSetAccess)(addresses, 4 * kMiB, &rights, 1));
    OK(CUDA(cuMemcpyHtoD_v2)(addresses + 3 * kMiB, &word, sizeof(word)));
    OK(CUDA(cuMemUnmap)(addresses, 4 * kMiB));
    MUST(cuda::kInvalidValue, CUDA(cuMemcpyDtoH_v2)(&got, addresses + 3 * kMiB, sizeof(got)));
    OK(CUDA(cuMemMap)(addresses + 32 * kMiB, 4 * kMiB, 0, handle, 0));
    OK(CUDA(cuMemSetAccess)(addresses + 32 * kMiB, 4 * kMiB, &rights, 1));
    OK(CUDA(cuMemcpyDtoH_v2)(&got, addresses + 35 * kMiB, sizeof(got)));
    MUST(word, got);
    OK(CUDA(cuMemRelease)(handle));
    std::size_t free_before = 0;
    std::size_t free_after = 0;
    std::size_t total = 0;
    OK(CUDA(cuMemGetInfo_v2)(&free_before, &total));
    OK(CUDA(cuMemUnmap)(addresses + 32 * kMiB, 4 * kMiB));
    OK(CUDA(cuMemGetInfo_v2)(&free_after, &total));
    MUST(free_before + 4 * kMiB, free_after);
    OK(CUDA(cuMemAddressFree)(addresses, 64 * kMiB));
  });
  EXPECT_EQ(End(child), 0);
}

TEST_F(EmulatedCuda, PoolsKeepFreedMemoryUntilASynchronization) {
  const std::size_t child = Start([](const Talk&) {
    MakeCurrent();
    std::size_t start = 0;
    std::size_t now = 0;
    std::size_t total = 0;
    OK(CUDA(cuMemGetInfo_v2)(&start, &total));
    cuda::Pointer pointer = 0;
    OK(CUDA(cuMemAllocAsync)(&pointer, 10 * kMiB, nullptr));
    OK(CUDA(cuMemFreeAsync)(pointer, nullptr));
    cuda::Pool pool = nullptr;
    OK(CUDA(cuDeviceGetDefaultMemPool)(&pool, 0));
    unsigned long long keep = 100 * kMiB;
    OK(CUDA(cuMemPoolSetAttribute)(pool, cuda::kPoolReleaseThreshold, &keep));
    OK(CUDA(cuCtxSynchronize)());
    OK(CUDA(cuMemGetInfo_v2)(&now, &total));
    MUST(start - 10 * kMiB, now);
    OK(CUDA(cuMemPoolTrimTo)(pool, 0));
    OK(CUDA(cuMemGetInfo_v2)(&now, &total));
    MUST(start, now);
  });
  EXPECT_EQ(End(child), 0);
}

TEST_F(EmulatedCuda, AnotherProcessCanReadExportedMemory) {
  const std::size_t owner = Start([](const Talk& talk) {
    MakeCurrent();
    cuda::Pointer pointer = 0;
    OK(CUDA(cuMemAlloc_v2)(&pointer, 8 * kMiB));
    const std::uint64_t word = 4711;
    OK(CUDA(cuMemcpyHtoD_v2)(pointer + kMiB, &word, sizeof(word)));
    cuda::IpcMemory handle;
    OK(CUDA(cuIpcGetMemHandle)(&handle, pointer));
    std::uint64_t words[8];
    std::memcpy(words, &handle, sizeof(words));
    for (const std::uint64_t part : words) talk.Say(part);
    talk.Hear();
  });
  std::uint64_t words[8];
  for (std::uint64_t& word : words) word = Hear(owner);
  const std::size_t reader = Start([&words](const Talk&) {
    MakeCurrent();
    cuda::IpcMemory handle;
    std::memcpy(&handle, words, sizeof(words));
    cuda::Pointer pointer = 0;
    OK(CUDA(cuIpcOpenMemHandle_v2)(&pointer, handle, 1));
    std::uint64_t got = 0;
    OK(CUDA(cuMemcpyDtoH_v2)(&got, pointer + kMiB, sizeof(got)));
    MUST(4711U, got);
    OK(CUDA(cuIpcCloseMemHandle)(pointer));
  });
  EXPECT_EQ(End(reader), 0);
}

}  // namespace memory_test
}  // namespace divvy
