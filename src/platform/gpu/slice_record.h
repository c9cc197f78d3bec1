// Which MIG instances of this machine divvy made, and which GPUs' MIG mode it switched on: one small file that is
// written before the driver is asked to make anything, and again when it has unmade it. So nobody's else are ever
// touched, and none of divvy's are forgotten, whoever is killed when. The keeper writes it; the probe reads it, to tell
// others' instances.
//
// Instances do not outlive the boot, and the file counts for nothing after it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/gpus/gpu_slice.h"

namespace divvy {

struct OwnSlice {
  std::string gpu;  // Its UUID.
  std::uint64_t job = 0;
  std::uint32_t attempt = 0;
  GpuSlice slice;
  std::string uuid;  // Of the device; empty: it may not have been made yet.

  friend bool operator==(const OwnSlice&, const OwnSlice&) = default;
};

struct SliceRecord {
  std::vector<OwnSlice> slices;
  std::vector<std::string> switched;  // GPUs, by UUID.

  const OwnSlice* Find(std::string_view gpu, int start, int size) const;
  bool HasSwitched(std::string_view gpu) const;
  friend bool operator==(const SliceRecord&, const SliceRecord&) = default;
};

/// Whether `text` can be a UUID or a MIG profile: letters, digits, and ".+_:-". What the daemon sends is checked with
/// it before it becomes a word of a line.
bool IsDriverName(std::string_view text);

/// In the folder of the keeper.
inline constexpr std::string_view kSliceRecordFile = "slices";

/// Empty where there is none, or it is of an earlier boot. Fails with kCorruptData on what cannot be understood.
Result<SliceRecord> ReadSliceRecord(const std::string& directory);
/// Whole or not at all. An empty one takes the file away.
Status WriteSliceRecord(const std::string& directory, const SliceRecord& record);

}  // namespace divvy
