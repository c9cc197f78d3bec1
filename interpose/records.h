// Memory that is counted but cannot be moved: bytes and device of a pointer or handle.
#pragma once

#include <cstdint>

#include "platform/gpu/cuda_types.h"

namespace divvy::interpose {

/// Handles of different kinds may have the same value.
enum RecordKind : unsigned { kPointers, kArrays, kMipmaps, kExternals, kIpcPointers, kRecordKinds };

struct Counted {
  std::uint64_t bytes;
  unsigned device;
  cuda::Context context;
};

/// Records an allocation of `bytes`, which the caller has counted already (Take), together with the current context.
/// `key`: its pointer or handle.
void Remember(RecordKind kind, std::uint64_t key, unsigned device, std::uint64_t bytes);
unsigned DeviceOfRecord(RecordKind kind, std::uint64_t key);

/// Removes a record around a driver call. The record leaves the table before the call, so that another thread that gets
/// the same handle meanwhile can record it. The bytes are given back afterwards.
class Forgetting {
 public:
  Forgetting(RecordKind kind, std::uint64_t key);
  ~Forgetting();
  Forgetting(const Forgetting&) = delete;
  Forgetting& operator=(const Forgetting&) = delete;
  /// Restores the removed record, because the driver failed to free the allocation.
  void Undo();
  bool is_known() const { return is_known_; }

 private:
  RecordKind kind_;
  std::uint64_t key_;
  Counted counted_{};
  bool is_known_ = false;
};

/// Removes the records of all allocations that belonged to a destroyed context.
void DropRecordsOf(cuda::Context context);
void ForgetRecords();

template <typename Handle>
std::uint64_t KeyOf(Handle handle) {
  return reinterpret_cast<std::uint64_t>(handle);
}

}  // namespace divvy::interpose
