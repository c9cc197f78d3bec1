// Records which MIG instances of this machine divvy created, and on which GPUs it switched MIG mode on. It is one small
// file, written before the driver is asked to create an instance and again after one was destroyed. So divvy never
// touches instances of others and never forgets its own, whichever process is killed. The keeper writes it; the probe
// reads it to recognise instances of others.
//
// Instances do not survive a reboot, and the file is void after one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/gpus/gpu_slice.h"

namespace divvy {

struct OwnSlice {
  std::string gpu;  // The GPU's UUID.
  std::uint64_t job = 0;
  std::uint32_t attempt = 0;
  GpuSlice slice;
  std::string uuid;  // UUID of the MIG device; empty: it may not have been created yet.

  friend bool operator==(const OwnSlice&, const OwnSlice&) = default;
};

struct SliceRecord {
  std::vector<OwnSlice> slices;
  std::vector<std::string> switched;  // GPUs whose MIG mode divvy switched on, by UUID.

  const OwnSlice* Find(std::string_view gpu, int start, int size) const;
  bool HasSwitched(std::string_view gpu) const;
  friend bool operator==(const SliceRecord&, const SliceRecord&) = default;
};

/// True if `text` can be a UUID or a MIG profile: letters, digits, and ".+_:-". Text from the daemon is checked with it
/// before it is written into a line of the file.
bool IsDriverName(std::string_view text);

/// Name of the file in the keeper's folder.
inline constexpr std::string_view kSliceRecordFile = "slices";

/// Reads the record of the MIG instances that divvy has created. The record is empty if there is no file or the file is
/// from an earlier boot. kCorruptData if the file cannot be parsed.
Result<SliceRecord> ReadSliceRecord(const std::string& directory);
/// Writes the record of the MIG instances that divvy has created: replaces the file atomically, or removes it if the
/// record is empty.
Status WriteSliceRecord(const std::string& directory, const SliceRecord& record);

}  // namespace divvy
