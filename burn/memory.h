// The device memory of divvy-burn: allocations of one kind, filled with stamps that can be checked. A stamp is 64
// bytes. By default there is one stamp per 64 KiB, so that emulated GPUs need little real memory; dense memory consists
// entirely of stamps.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "driver.h"

namespace divvy::burn {

inline constexpr std::uint64_t kStride = 64 << 10;
inline constexpr std::uint64_t kStampBytes = 64;

/// The kernels of kernels.ptx.
struct Kernels {
  cuda::Module module = nullptr;
  cuda::Function nothing = nullptr;
  cuda::Function spin = nullptr;
  cuda::Function stamp = nullptr;
  cuda::Function check = nullptr;
};
Result<Kernels> LoadKernels(const Driver& driver);

/// One allocation, and the function that frees it.
struct Piece {
  cuda::Pointer pointer = 0;    // 0 for an array.
  cuda::Array array = nullptr;  // Rows of kStride bytes.
  std::uint64_t bytes = 0;
  std::function<void()> free;
};

class Memory {
 public:
  Memory(const Driver& driver, const Kernels& kernels, std::string kind, int device, std::uint64_t seed, bool is_dense)
      : driver_(driver),
        kernels_(kernels),
        kind_(std::move(kind)),
        device_(device),
        seed_(seed),
        stride_(is_dense ? kStampBytes : kStride) {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory();

  /// Allocates several pieces of GPU memory of different sizes, at most `bytes` in total, and fills them with stamps
  /// that CountErrors can check.
  Status Allocate(std::uint64_t bytes);
  /// Allocates pieces of GPU memory of 256 MiB, then ever smaller ones down to 2 MiB, until the driver refuses. Writes
  /// nothing into them.
  Status AllocateAll();
  /// Returns the number of words in the GPU memory that no longer have the value that was written.
  Result<std::uint64_t> CountErrors();

  std::uint64_t bytes() const { return bytes_; }
  std::size_t pieces() const { return pieces_.size(); }

 private:
  Result<Piece> Make(std::uint64_t bytes);
  Result<Piece> MakePooled(std::uint64_t bytes);
  Result<Piece> MakeMapped(std::uint64_t bytes);
  Result<Piece> MakeArray(std::uint64_t bytes);
  Result<Piece> MakeOfGraph(std::uint64_t bytes);
  Status Add(std::uint64_t bytes);
  std::uint64_t SeedOf(std::size_t piece) const { return seed_ * 1'000'003 + (piece << 32); }
  Status Stamp(std::size_t piece);
  Status StampArray(std::size_t piece);
  Result<std::uint64_t> CountErrorsOfArray(std::size_t piece);

  const Driver& driver_;
  const Kernels& kernels_;
  std::string kind_;
  int device_;
  std::uint64_t seed_;
  std::uint64_t stride_;  // Distance between stamps; always kStride for arrays.
  std::uint64_t bytes_ = 0;
  cuda::Pool pool_ = nullptr;
  cuda::Pointer errors_ = 0;
  std::vector<Piece> pieces_;
};

}  // namespace divvy::burn
