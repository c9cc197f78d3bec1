// A hash table from words to small records, e.g. for pointers and handles of the driver. Open addressing with linear
// probing. Removal closes the gap (Knuth, volume 3, algorithm 6.4R), so lookups stay O(1) regardless of history. Not
// thread-safe.
#pragma once

#include <stdlib.h>

#include <cstddef>
#include <cstdint>

namespace divvy::interpose {

template <typename Record>
class Table {
 public:
  constexpr Table() = default;
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  std::size_t size() const { return size_; }

  /// Returns the record with this key; null if there is none. The pointer is valid until the table's next change.
  Record* Find(std::uint64_t key) {
    if (cells_ == nullptr) return nullptr;
    for (std::size_t at = HomeOf(key);; at = Next(at)) {
      if (!cells_[at].is_full) return nullptr;
      if (cells_[at].key == key) return &cells_[at].record;
    }
  }

  /// Adds or replaces a record. Returns false, with nothing changed, if host memory is exhausted.
  bool Put(std::uint64_t key, const Record& record) {
    if (Record* const there = Find(key)) {
      *there = record;
      return true;
    }
    if (size_ * 4 >= capacity_ * 3 && !Grow()) return false;
    Place(key, record);
    ++size_;
    return true;
  }

  bool Remove(std::uint64_t key) {
    Record* const there = Find(key);
    if (there == nullptr) return false;
    std::size_t hole = static_cast<std::size_t>(
        reinterpret_cast<Cell*>(reinterpret_cast<char*>(there) - offsetof(Cell, record)) - cells_);
    for (std::size_t at = Next(hole); cells_[at].is_full; at = Next(at)) {
      // An entry whose home lies after the hole, on the way to `at`, stays.
      const std::size_t home = HomeOf(cells_[at].key);
      const bool is_between = hole <= at ? hole < home && home <= at : hole < home || home <= at;
      if (is_between) continue;
      cells_[hole] = cells_[at];
      hole = at;
    }
    cells_[hole].is_full = false;
    --size_;
    return true;
  }

  /// Calls visit(key, record) for each record, in no particular order. `visit` must not change the table.
  template <typename Visit>
  void ForEach(Visit visit) {
    for (std::size_t at = 0; at < capacity_; ++at) {
      if (cells_[at].is_full) visit(cells_[at].key, cells_[at].record);
    }
  }

  /// Frees all memory. There is no destructor: tables live as long as the process, and its last threads may still use
  /// them.
  void Clear() {
    free(cells_);
    Abandon();
  }

  /// Makes the table empty without freeing its memory. For the child of a fork, where another thread may have been in
  /// the middle of a change.
  void Abandon() {
    cells_ = nullptr;
    capacity_ = 0;
    size_ = 0;
  }

 private:
  struct Cell {
    std::uint64_t key;
    bool is_full;
    Record record;
  };

  std::size_t Next(std::size_t at) const { return (at + 1) & (capacity_ - 1); }
  /// Fibonacci hashing, because addresses are multiples of large powers of two.
  std::size_t HomeOf(std::uint64_t key) const {
    return static_cast<std::size_t>((key * 0x9E3779B97F4A7C15U) >> 20) & (capacity_ - 1);
  }

  void Place(std::uint64_t key, const Record& record) {
    std::size_t at = HomeOf(key);
    while (cells_[at].is_full) at = Next(at);
    cells_[at] = {key, true, record};
  }

  bool Grow() {
    const std::size_t more = capacity_ == 0 ? 64 : capacity_ * 2;
    auto* const cells = static_cast<Cell*>(calloc(more, sizeof(Cell)));
    if (cells == nullptr) return false;
    Cell* const before = cells_;
    const std::size_t count = capacity_;
    cells_ = cells;
    capacity_ = more;
    for (std::size_t i = 0; i < count; ++i) {
      if (before[i].is_full) Place(before[i].key, before[i].record);
    }
    free(before);
    return true;
  }

  Cell* cells_ = nullptr;
  std::size_t capacity_ = 0;  // 0, or a power of two.
  std::size_t size_ = 0;
};

/// Keys of a table, collected in one pass, for iteration without the table's lock.
template <typename Key>
class KeyList {
 public:
  KeyList() = default;
  ~KeyList() { Clear(); }
  KeyList(const KeyList&) = delete;
  KeyList& operator=(const KeyList&) = delete;

  /// Replaces the list by the keys of all records for which `is_wanted` is true. If host memory is short, by some of
  /// them (is_partial).
  template <typename Record, typename Wanted>
  void Gather(Table<Record>& table, Wanted is_wanted) {
    Clear();
    if (auto* const more = static_cast<Key*>(malloc(table.size() * sizeof(Key) + 1))) {
      keys_ = more;
      room_ = table.size();
    }
    table.ForEach([&](std::uint64_t key, const Record& record) {
      if (!is_wanted(record)) return;
      if (count_ < room_) {
        keys_[count_++] = key;
      } else {
        is_partial_ = true;
      }
    });
  }
  /// Returns true if some keys are missing in the list, because host memory was short.
  bool is_partial() const { return is_partial_; }
  const Key* begin() const { return keys_; }
  const Key* end() const { return keys_ + count_; }

 private:
  static constexpr std::size_t kFew = 256;
  void Clear() {
    if (keys_ != few_) free(keys_);
    keys_ = few_;
    room_ = kFew;
    count_ = 0;
    is_partial_ = false;
  }

  Key few_[kFew];
  Key* keys_ = few_;
  std::size_t room_ = kFew;
  std::size_t count_ = 0;
  bool is_partial_ = false;
};

}  // namespace divvy::interpose
