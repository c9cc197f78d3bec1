#include "memory.h"

#include <algorithm>
#include <array>

extern "C" const char divvy_burn_kernels[];

namespace divvy::burn {
namespace {

constexpr std::uint64_t kFirstFactor = 0x9E3779B97F4A7C15;
constexpr std::uint64_t kSecondFactor = 0xD1B54A32D192ED03;
constexpr std::size_t kWords = 8;
constexpr std::uint64_t kLargest = 256 << 20;
constexpr std::uint64_t kSmallest = 2 << 20;
constexpr unsigned kBlocks = 256;
constexpr unsigned kThreads = 256;

using Words = std::array<std::uint64_t, kWords>;

Words WordsAt(std::uint64_t seed, std::uint64_t index) {
  Words words;
  for (std::size_t i = 0; i < kWords; ++i) words[i] = (seed + index) * kFirstFactor + i * kSecondFactor;
  return words;
}

}  // namespace

Result<Kernels> LoadKernels(const Driver& driver) {
  Kernels kernels;
  DIVVY_CUDA_TRY(driver, cuModuleLoadData, &kernels.module, divvy_burn_kernels);
  DIVVY_CUDA_TRY(driver, cuModuleGetFunction, &kernels.nothing, kernels.module, "divvy_nothing");
  DIVVY_CUDA_TRY(driver, cuModuleGetFunction, &kernels.spin, kernels.module, "divvy_spin");
  DIVVY_CUDA_TRY(driver, cuModuleGetFunction, &kernels.stamp, kernels.module, "divvy_stamp");
  DIVVY_CUDA_TRY(driver, cuModuleGetFunction, &kernels.check, kernels.module, "divvy_check");
  return kernels;
}

Memory::~Memory() {
  for (const Piece& piece : pieces_) piece.free();
  if (errors_ != 0) driver_.cuMemFree_v2(errors_);
  driver_.cuCtxSynchronize();
  if (pool_ != nullptr) driver_.cuMemPoolDestroy(pool_);
  if (kind_ == "graph") driver_.cuDeviceGraphMemTrim(device_);
}

Result<Piece> Memory::Make(std::uint64_t bytes) {
  if (kind_ == "array") return MakeArray(bytes);
  if (kind_ == "vmm") return MakeMapped(bytes);
  if (kind_ == "graph") return MakeOfGraph(bytes);
  if (kind_ == "async" || kind_ == "pool") return MakePooled(bytes);
  Piece piece;
  piece.bytes = bytes;
  if (kind_ == "managed") {
    DIVVY_CUDA_TRY(driver_, cuMemAllocManaged, &piece.pointer, bytes, 1);
  } else if (kind_ == "pitch") {
    constexpr std::size_t kWidth = 1000;  // Less than the pitch of 1024.
    std::size_t pitch = 0;
    DIVVY_CUDA_TRY(driver_, cuMemAllocPitch_v2, &piece.pointer, &pitch, kWidth,
                   std::max<std::uint64_t>(bytes / 1024, 1), 4);
    piece.bytes = pitch * std::max<std::uint64_t>(bytes / 1024, 1);
  } else {
    DIVVY_CUDA_TRY(driver_, cuMemAlloc_v2, &piece.pointer, bytes);
  }
  piece.free = [this, pointer = piece.pointer] { driver_.cuMemFree_v2(pointer); };
  return piece;
}

Result<Piece> Memory::MakePooled(std::uint64_t bytes) {
  Piece piece;
  piece.bytes = bytes;
  if (kind_ == "pool") {
    if (pool_ == nullptr) {
      cuda::PoolProperties properties = {};
      properties.type = cuda::kAllocationPinned;
      properties.location = {cuda::kLocationDevice, device_};
      DIVVY_CUDA_TRY(driver_, cuMemPoolCreate, &pool_, &properties);
    }
    DIVVY_CUDA_TRY(driver_, cuMemAllocFromPoolAsync, &piece.pointer, bytes, pool_, nullptr);
  } else {
    DIVVY_CUDA_TRY(driver_, cuMemAllocAsync, &piece.pointer, bytes, nullptr);
  }
  piece.free = [this, pointer = piece.pointer] { driver_.cuMemFreeAsync(pointer, nullptr); };
  return piece;
}

Result<Piece> Memory::MakeMapped(std::uint64_t bytes) {
  cuda::AllocationProperties properties = {};
  properties.type = cuda::kAllocationPinned;
  properties.location = {cuda::kLocationDevice, device_};
  std::size_t unit = 0;
  DIVVY_CUDA_TRY(driver_, cuMemGetAllocationGranularity, &unit, &properties, cuda::kGranularityMinimum);
  Piece piece;
  const std::uint64_t size = piece.bytes = std::max<std::uint64_t>(bytes / unit * unit, unit);
  cuda::Allocation handle = 0;
  DIVVY_CUDA_TRY(driver_, cuMemCreate, &handle, size, &properties, 0);
  cuda::Pointer pointer = 0;
  const cuda::Return reserved = driver_.cuMemAddressReserve(&pointer, size, 0, 0, 0);
  if (reserved != cuda::kSuccess) {
    driver_.cuMemRelease(handle);
    return CudaError(driver_, "cuMemAddressReserve", reserved);
  }
  DIVVY_CUDA_TRY(driver_, cuMemMap, pointer, size, 0, handle, 0);
  const cuda::AccessRights rights = {{cuda::kLocationDevice, device_}, cuda::kAccessReadWrite};
  DIVVY_CUDA_TRY(driver_, cuMemSetAccess, pointer, size, &rights, 1);
  piece.pointer = pointer;
  piece.free = [this, pointer, size, handle] {
    driver_.cuMemUnmap(pointer, size);
    driver_.cuMemRelease(handle);
    driver_.cuMemAddressFree(pointer, size);
  };
  return piece;
}

Result<Piece> Memory::MakeArray(std::uint64_t bytes) {
  // Rows of 64 KiB: 4096 elements of four 32-bit channels.
  Piece piece;
  const std::uint64_t rows = std::clamp<std::uint64_t>(bytes / kStride, 1, 32768);
  const cuda::ArrayShape shape = {kStride / 16, rows, cuda::kFormatUnsigned32, 4};
  DIVVY_CUDA_TRY(driver_, cuArrayCreate_v2, &piece.array, &shape);
  piece.bytes = rows * kStride;
  piece.free = [this, array = piece.array] { driver_.cuArrayDestroy(array); };
  return piece;
}

Result<Piece> Memory::MakeOfGraph(std::uint64_t bytes) {
  cuda::Graph graph = nullptr;
  cuda::GraphNode node = nullptr;
  cuda::GraphExec exec = nullptr;
  cuda::AllocNode wanted = {};
  wanted.pool.type = cuda::kAllocationPinned;
  wanted.pool.location = {cuda::kLocationDevice, device_};
  wanted.bytes = bytes;
  DIVVY_CUDA_TRY(driver_, cuGraphCreate, &graph, 0);
  DIVVY_CUDA_TRY(driver_, cuGraphAddMemAllocNode, &node, graph, nullptr, 0, &wanted);
  cuda::Return error = driver_.cuGraphInstantiateWithFlags(&exec, graph, 0);
  if (error == cuda::kSuccess) error = driver_.cuGraphLaunch(exec, nullptr);
  if (error == cuda::kSuccess) error = driver_.cuCtxSynchronize();
  if (error != cuda::kSuccess) {
    if (exec != nullptr) driver_.cuGraphExecDestroy(exec);
    driver_.cuGraphDestroy(graph);
    return CudaError(driver_, "cuGraphLaunch", error);
  }
  Piece piece;
  piece.pointer = wanted.pointer;
  piece.bytes = bytes;
  piece.free = [this, graph, exec, pointer = wanted.pointer] {
    driver_.cuMemFree_v2(pointer);
    driver_.cuGraphExecDestroy(exec);
    driver_.cuGraphDestroy(graph);
  };
  return piece;
}

Status Memory::Add(std::uint64_t bytes) {
  DIVVY_TRY(Piece piece, Make(bytes));
  bytes_ += piece.bytes;
  pieces_.push_back(std::move(piece));
  return {};
}

Status Memory::Allocate(std::uint64_t bytes) {
  DIVVY_CUDA_TRY(driver_, cuMemAlloc_v2, &errors_, 8);
  // Pieces of 1, 2, ... 8 parts in 36: all sizes differ, and they are multiples of pages, not of 2 MiB chunks.
  constexpr std::uint64_t kPieces = 8;
  const std::uint64_t count = bytes < kPieces * kSmallest ? 1 : kPieces;
  const std::uint64_t parts = count * (count + 1) / 2;
  for (std::uint64_t i = 1; i <= count; ++i) {
    DIVVY_CHECK(Add(std::max<std::uint64_t>(bytes / parts * i / 4096 * 4096, 4096)));
  }
  for (std::size_t i = 0; i < pieces_.size(); ++i) DIVVY_CHECK(Stamp(i));
  return {};
}

Status Memory::AllocateAll() {
  for (std::uint64_t size = kLargest; size >= kSmallest;) {
    if (!Add(size)) size /= 2;
  }
  return pieces_.empty() ? Status(LimitExceeded("the driver allocated no memory")) : Status{};
}

Status Memory::Stamp(std::size_t index) {
  const Piece& piece = pieces_[index];
  if (piece.array != nullptr) return StampArray(index);
  cuda::Pointer pointer = piece.pointer;
  std::uint64_t bytes = piece.bytes;
  std::uint64_t stride = stride_;
  std::uint64_t seed = SeedOf(index);
  std::array<void*, 4> arguments = {&pointer, &bytes, &stride, &seed};
  DIVVY_CUDA_TRY(driver_, cuLaunchKernel, kernels_.stamp, kBlocks, 1, 1, kThreads, 1, 1, 0, nullptr, arguments.data(),
                 nullptr);
  DIVVY_CUDA_TRY(driver_, cuCtxSynchronize);
  return {};
}

namespace {

cuda::Copy2D ArrayRow(cuda::Array array, std::uint64_t row, Words& words, bool is_read) {
  cuda::Copy2D copy = {};
  copy.width_bytes = sizeof(Words);
  copy.height = 1;
  copy.source_type = is_read ? cuda::kMemoryArray : cuda::kMemoryHost;
  copy.target_type = is_read ? cuda::kMemoryHost : cuda::kMemoryArray;
  copy.source_array = copy.target_array = array;
  copy.source_host = copy.target_host = words.data();
  copy.source_pitch = copy.target_pitch = sizeof(Words);
  copy.source_y = is_read ? row : 0;
  copy.target_y = is_read ? 0 : row;
  return copy;
}

}  // namespace

Status Memory::StampArray(std::size_t index) {
  const Piece& piece = pieces_[index];
  for (std::uint64_t row = 0; row < piece.bytes / kStride; ++row) {
    Words words = WordsAt(SeedOf(index), row);
    const cuda::Copy2D copy = ArrayRow(piece.array, row, words, false);
    DIVVY_CUDA_TRY(driver_, cuMemcpy2D_v2, &copy);
  }
  return {};
}

Result<std::uint64_t> Memory::CountErrorsOfArray(std::size_t index) {
  const Piece& piece = pieces_[index];
  std::uint64_t errors = 0;
  for (std::uint64_t row = 0; row < piece.bytes / kStride; ++row) {
    Words words = {};
    const cuda::Copy2D copy = ArrayRow(piece.array, row, words, true);
    DIVVY_CUDA_TRY(driver_, cuMemcpy2D_v2, &copy);
    const Words expected = WordsAt(SeedOf(index), row);
    for (std::size_t i = 0; i < kWords; ++i) errors += words[i] != expected[i] ? 1 : 0;
  }
  return errors;
}

Result<std::uint64_t> Memory::CountErrors() {
  std::uint64_t errors = 0;
  DIVVY_CUDA_TRY(driver_, cuMemsetD8_v2, errors_, 0, 8);
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    if (pieces_[i].array != nullptr) {
      DIVVY_TRY(const std::uint64_t wrong, CountErrorsOfArray(i));
      errors += wrong;
      continue;
    }
    cuda::Pointer pointer = pieces_[i].pointer;
    std::uint64_t bytes = pieces_[i].bytes;
    std::uint64_t stride = stride_;
    std::uint64_t seed = SeedOf(i);
    std::array<void*, 5> arguments = {&pointer, &bytes, &stride, &seed, &errors_};
    DIVVY_CUDA_TRY(driver_, cuLaunchKernel, kernels_.check, kBlocks, 1, 1, kThreads, 1, 1, 0, nullptr, arguments.data(),
                   nullptr);
  }
  std::uint64_t counted = 0;
  DIVVY_CUDA_TRY(driver_, cuMemcpyDtoH_v2, &counted, errors_, sizeof(counted));
  return errors + counted;
}

}  // namespace divvy::burn
