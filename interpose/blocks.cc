#include "blocks.h"

#include <stdlib.h>

namespace divvy::interpose {

namespace {

int Log2(std::uint64_t value) { return 63 - __builtin_clzll(value); }

}  // namespace

int Blocks::ListOf(std::uint64_t size) {
  const std::uint64_t units = size / kBlockUnit;
  const int power = Log2(units);
  const int step =
      power < 2 ? static_cast<int>((units << 2 >> power) & 3) : static_cast<int>((units >> (power - 2)) & 3);
  return power * kSteps + step;
}

void Blocks::Link(Block* block) {
  const int list = ListOf(block->size);
  block->is_free = true;
  block->previous = nullptr;
  block->next = lists_[list];
  if (block->next != nullptr) block->next->previous = block;
  lists_[list] = block;
  full_ |= std::uint64_t{1} << list;
}

void Blocks::Unlink(Block* block) {
  const int list = ListOf(block->size);
  block->is_free = false;
  (block->previous != nullptr ? block->previous->next : lists_[list]) = block->next;
  if (block->next != nullptr) block->next->previous = block->previous;
  if (lists_[list] == nullptr) full_ &= ~(std::uint64_t{1} << list);
}

Block* Blocks::Take(std::uint64_t bytes) {
  if (bytes == 0 || bytes > kMostBlock) return nullptr;
  const std::uint64_t size = (bytes + kBlockUnit - 1) / kBlockUnit * kBlockUnit;
  Block* found = nullptr;
  // The list for blocks of this size may have one that is large enough; only a few are checked. All blocks in the lists
  // for larger sizes are.
  const int list = ListOf(size);
  int looks = 4;
  for (Block* block = lists_[list]; block != nullptr && found == nullptr && looks > 0; block = block->next, --looks) {
    if (block->size >= size) found = block;
  }
  if (found == nullptr) {
    const std::uint64_t above = list + 1 < 64 ? full_ & ~((std::uint64_t{1} << (list + 1)) - 1) : 0;
    if (above == 0) return nullptr;
    found = lists_[__builtin_ctzll(above)];
  }
  Block* rest = nullptr;
  if (found->size > size) {
    rest = static_cast<Block*>(malloc(sizeof(Block)));
    if (rest == nullptr) return nullptr;
  }
  Unlink(found);
  if (rest != nullptr) {
    *rest = {found->address + size, found->size - size, found->chunk, false, found, found->after, nullptr, nullptr};
    if (rest->after != nullptr) rest->after->before = rest;
    found->after = rest;
    found->size = size;
    Link(rest);
  }
  return found;
}

Block* Blocks::AddChunk(std::uint64_t address, std::uint64_t size, void* chunk) {
  auto* const block = static_cast<Block*>(malloc(sizeof(Block)));
  if (block == nullptr) return nullptr;
  *block = {address, size, chunk, false, nullptr, nullptr, nullptr, nullptr};
  Link(block);
  return block;
}

Block* Blocks::Join(Block* left, Block* right) {
  left->size += right->size;
  left->after = right->after;
  if (left->after != nullptr) left->after->before = left;
  free(right);
  return left;
}

void* Blocks::Free(Block* block) {
  if (block->after != nullptr && block->after->is_free) {
    Unlink(block->after);
    Join(block, block->after);
  }
  if (block->before != nullptr && block->before->is_free) {
    Block* const before = block->before;
    Unlink(before);
    block = Join(before, block);
  }
  if (block->before != nullptr || block->after != nullptr) {
    Link(block);
    return nullptr;
  }
  void* const chunk = block->chunk;
  free(block);
  return chunk;
}

void Blocks::Abandon() {
  for (Block*& list : lists_) list = nullptr;
  full_ = 0;
}

}  // namespace divvy::interpose
