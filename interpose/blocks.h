// Small allocations inside large chunks: which part of a chunk is whose. Knows addresses alone and touches none of the
// memory. Two-level segregated fit: lists of free blocks by size, so that taking and freeing are O(1) and little is
// lost between blocks (Masmano and others, "TLSF: a new dynamic memory allocator for real-time systems", 2004).
// No lock of its own.
#pragma once

#include <cstddef>
#include <cstdint>

namespace divvy::interpose {

struct Block {
  std::uint64_t address;
  std::uint64_t size;  // A multiple of kBlockUnit.
  void* chunk;         // Whose it is, as AddChunk was told.
  bool is_free;
  Block* before;  // In its chunk, by address.
  Block* after;
  Block* previous;  // In the list of its size, while it is free.
  Block* next;
};

inline constexpr std::uint64_t kBlockUnit = 512;  // cuMemAlloc aligns to 256; texture bases need 512.
inline constexpr std::uint64_t kMostBlock = std::uint64_t{1} << 21;

class Blocks {
 public:
  constexpr Blocks() = default;
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;

  /// A block of at least `bytes` (1 to kMostBlock). Null: no chunk has room, or there is no host memory.
  Block* Take(std::uint64_t bytes);

  /// `size` bytes (a multiple of kBlockUnit, at most kMostBlock) from `address` on. Null: no host memory; else the
  /// first block of the chunk, all of it and free.
  Block* AddChunk(std::uint64_t address, std::uint64_t size, void* chunk);

  /// Null, or the chunk that is wholly free by it: it is out of here then.
  void* Free(Block* block);

  void Abandon();

 private:
  static constexpr int kSteps = 4;  // Lists for each power of two.
  static constexpr int kLists = 13 * kSteps;

  static int ListOf(std::uint64_t size);
  void Link(Block* block);
  void Unlink(Block* block);
  static Block* Join(Block* left, Block* right);

  Block* lists_[kLists] = {};
  std::uint64_t full_ = 0;  // Bit for each list that is not empty.
};

}  // namespace divvy::interpose
