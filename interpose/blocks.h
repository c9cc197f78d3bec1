// Divides large chunks into small allocations. Works on addresses only and never touches the memory. Uses two-level
// segregated fit: lists of free blocks by size make Take and Free O(1) with little fragmentation (Masmano and others,
// "TLSF: a new dynamic memory allocator for real-time systems", 2004). Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

namespace divvy::interpose {

struct Block {
  std::uint64_t address;
  std::uint64_t size;  // A multiple of kBlockUnit.
  void* chunk;         // The owner passed to AddChunk.
  bool is_free;
  Block* before;  // Neighbours in the chunk, by address.
  Block* after;
  Block* previous;  // Neighbours in the list of free blocks of its size.
  Block* next;
};

inline constexpr std::uint64_t kBlockUnit = 512;  // cuMemAlloc aligns to 256; texture bases need 512.
inline constexpr std::uint64_t kMostBlock = std::uint64_t{1} << 21;

class Blocks {
 public:
  constexpr Blocks() = default;
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;

  /// Allocates a block of at least `bytes` (1 to kMostBlock) from one of the chunks. Returns null if no chunk has room,
  /// or host memory is exhausted.
  Block* Take(std::uint64_t bytes);

  /// Adds a chunk: `size` bytes at `address`, from which blocks are allocated. `size` is a multiple of kBlockUnit, at
  /// most kMostBlock; `chunk` is its owner. Returns the first block, which is free and covers the whole chunk. Returns
  /// null if host memory is exhausted.
  Block* AddChunk(std::uint64_t address, std::uint64_t size, void* chunk);

  /// Frees a block. If its whole chunk is free then, removes the chunk and returns the owner that AddChunk got;
  /// otherwise returns null.
  void* Free(Block* block);

  void Abandon();

 private:
  static constexpr int kSteps = 4;  // Number of lists per power of two.
  static constexpr int kLists = 13 * kSteps;

  static int ListOf(std::uint64_t size);
  void Link(Block* block);
  void Unlink(Block* block);
  static Block* Join(Block* left, Block* right);

  Block* lists_[kLists] = {};
  std::uint64_t full_ = 0;  // One bit per non-empty list.
};

}  // namespace divvy::interpose
