// What is counted and cannot be moved: how many bytes of which device are behind a pointer or a handle.
#pragma once

#include <cstdint>

#include "platform/gpu/cuda_types.h"

namespace divvy::interpose {

/// Handles of different kinds may have the same number.
enum RecordKind : unsigned { kPointers, kArrays, kMipmaps, kExternals, kIpcPointers, kRecordKinds };

struct Counted {
  std::uint64_t bytes;
  unsigned device;
  cuda::Context context;
};

/// `bytes` were taken already. Remembers the current context with it.
void Remember(RecordKind kind, std::uint64_t key, unsigned device, std::uint64_t bytes);
unsigned DeviceOfRecord(RecordKind kind, std::uint64_t key);

/// A record that goes together with a call of the driver: out of the table before it, so that another thread that gets
/// the same number meanwhile enters it anew, and its bytes given back after.
class Forgetting {
 public:
  Forgetting(RecordKind kind, std::uint64_t key);
  ~Forgetting();
  Forgetting(const Forgetting&) = delete;
  Forgetting& operator=(const Forgetting&) = delete;
  /// The driver did not do it.
  void Undo();
  bool is_known() const { return is_known_; }

 private:
  RecordKind kind_;
  std::uint64_t key_;
  Counted counted_{};
  bool is_known_ = false;
};

/// The context is gone, and all that it had.
void DropRecordsOf(cuda::Context context);
void ForgetRecords();

template <typename Handle>
std::uint64_t KeyOf(Handle handle) {
  return reinterpret_cast<std::uint64_t>(handle);
}

}  // namespace divvy::interpose
