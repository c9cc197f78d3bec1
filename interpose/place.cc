#include "place.h"

#include <stdlib.h>
#include <string.h>

#include "tenant.h"

namespace divvy::interpose {

namespace {

constexpr const char* kVisible = "CUDA_VISIBLE_DEVICES";

unsigned CountEntries(const char* text) {
  unsigned count = 1;
  for (; *text != 0; ++text) count += *text == ',' ? 1 : 0;
  return count;
}

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
  if (page == nullptr || visible == nullptr) return;
  // A job with whole GPUs names them by their numbers, which are right until it has returned to other GPUs.
  const char* const started = getenv("DIVVY_GPU_UUIDS");
  const bool is_whole = page->devices[0].shown_total == 0 && started != nullptr;
  const unsigned named = is_whole ? CountEntries(visible) : CountUuids(visible);
  if (named != page->device_count) return;
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
  if (is_whole && strcmp(text, started) == 0) return;
  if (CountUuids(text) == page->device_count && strcmp(text, visible) != 0) setenv(kVisible, text, 1);
}

}  // namespace divvy::interpose
