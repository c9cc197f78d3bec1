#include "place.h"

#include <stdlib.h>
#include <string.h>

#include "tenant.h"

namespace divvy::interpose {

namespace {

constexpr const char* kVisible = "CUDA_VISIBLE_DEVICES";
constexpr unsigned kName = sizeof share::PageDevice::uuid;
constexpr unsigned kNowhere = ~0U;

/// A list of GPUs' UUIDs, separated by commas.
class UuidList {
 public:
  void Add(const share::PageDevice& device) {
    if (count_ == share::kMaxDevices) return;
    if (count_++ != 0) text_[length_++] = ',';
    const unsigned long length = strnlen(device.uuid, kName);
    memcpy(text_ + length_, device.uuid, length);
    length_ += length;
    text_[length_] = 0;
  }
  const char* text() const { return text_; }
  unsigned count() const { return count_; }

 private:
  char text_[share::kMaxDevices * (kName + 1) + 1] = {};
  unsigned long length_ = 0;
  unsigned count_ = 0;
};

/// Returns the number of GPUs that `text` names by UUID; 0 if any entry is not a UUID.
unsigned CountUuids(const char* text) {
  unsigned count = 0;
  for (const char* at = text; at != nullptr; ++count) {
    if (strncmp(at, "GPU-", 4) != 0) return 0;
    at = strchr(at, ',');
    if (at != nullptr) ++at;
  }
  return count;
}

/// Returns the position of the first entry of `entry` in `list`.
unsigned PositionOf(const char* entry, const char* list) {
  const unsigned long length = strcspn(entry, ",");
  unsigned position = 0;
  for (const char* at = list; at != nullptr; ++position) {
    if (length != 0 && strcspn(at, ",") == length && strncmp(at, entry, length) == 0) return position;
    at = strchr(at, ',');
    if (at != nullptr) ++at;
  }
  return kNowhere;
}

/// Translates the GPUs that a job with whole GPUs names by their numbers, or by the UUIDs of its start. Returns false
/// if an entry is none of these.
bool TranslateWhole(const share::Page& page, const char* visible, UuidList& list) {
  // If the job can open only some GPUs of the node, CUDA counts only these.
  const char* numbers = getenv("DIVVY_CUDA_INDICES");
  if (numbers == nullptr) numbers = getenv("DIVVY_GPUS");
  const char* const uuids = getenv("DIVVY_GPU_UUIDS");
  for (const char* at = visible; at != nullptr;) {
    unsigned position = PositionOf(at, numbers);
    if (position == kNowhere) position = PositionOf(at, uuids);
    if (position >= page.device_count || list.count() == share::kMaxDevices) return false;
    list.Add(page.devices[position]);
    at = strchr(at, ',');
    if (at != nullptr) ++at;
  }
  return true;
}

}  // namespace

void FollowTenant() {
  const share::Page* const page = SharedPage();
  const char* const visible = getenv(kVisible);
  if (page == nullptr || visible == nullptr) return;
  UuidList all;
  for (unsigned device = 0; device < page->device_count && device < share::kMaxDevices; ++device)
    all.Add(page->devices[device]);
  if (CountUuids(all.text()) != page->device_count) return;
  const bool is_whole = page->devices[0].shown_total == 0;
  // The GPU numbers in the environment are right as long as the job has the GPUs with which it started.
  const char* const started = getenv("DIVVY_GPU_UUIDS");
  if (is_whole && (started == nullptr || strcmp(started, all.text()) == 0)) return;
  UuidList translated;
  if (is_whole && TranslateWhole(*page, visible, translated)) {
    setenv(kVisible, translated.text(), 1);
    return;
  }
  if (CountUuids(visible) == page->device_count && strcmp(all.text(), visible) != 0) setenv(kVisible, all.text(), 1);
}

}  // namespace divvy::interpose
