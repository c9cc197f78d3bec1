#include "place.h"

#include <stdlib.h>
#include <string.h>

#include "tenant.h"

namespace divvy::interpose {

namespace {

constexpr const char* kVisible = "CUDA_VISIBLE_DEVICES";

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

}  // namespace

void FollowTenant() {
  const share::Page* const page = SharedPage();
  const char* const visible = getenv(kVisible);
  if (page == nullptr || visible == nullptr || CountUuids(visible) != page->device_count) return;
  constexpr unsigned kName = sizeof page->devices[0].uuid;
  char text[share::kMaxDevices * (kName + 1)];
  char* out = text;
  for (unsigned device = 0; device < page->device_count && device < share::kMaxDevices; ++device) {
    if (device != 0) *out++ = ',';
    const unsigned long length = strnlen(page->devices[device].uuid, kName);
    memcpy(out, page->devices[device].uuid, length);
    out += length;
  }
  *out = 0;
  if (CountUuids(text) == page->device_count && strcmp(text, visible) != 0) setenv(kVisible, text, 1);
}

}  // namespace divvy::interpose
