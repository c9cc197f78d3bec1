// Event sets. A set stores, for each registered device, how many XIDs it has already reported.
#include <string.h>
#include <time.h>

#include "nvml_world.h"

using namespace divvy::nvml;       // NOLINT: the entry points are outside the namespace by their ABI.
using namespace divvy::emulation;  // NOLINT: same reason.

namespace {

constexpr unsigned kMaxSets = 16;
constexpr long kPollNanoseconds = 2'000'000;

struct Set {
  bool is_used;
  bool is_registered[kMaxGpus];
  unsigned long long told[kMaxGpus];
};
Set sets[kMaxSets];

Set* Find(EventSet set) {
  for (Set& candidate : sets) {
    if (reinterpret_cast<EventSet>(&candidate) == set && candidate.is_used) return &candidate;
  }
  return nullptr;
}

bool TakeEvent(Set& set, Event& event) {
  const World& world = *OpenWorld();
  for (unsigned i = 0; i < world.gpu_count; ++i) {
    if (!set.is_registered[i]) continue;
    WorldState state;
    ReadState(world.gpus[i], state);
    if (set.told[i] >= state.xid_count) continue;
    if (state.xid_count - set.told[i] > kMaxXids) set.told[i] = state.xid_count - kMaxXids;
    event = {DeviceAt(i), kEventXid, state.xids[set.told[i] % kMaxXids], kNoInstance, kNoInstance};
    ++set.told[i];
    return true;
  }
  return false;
}

long long NowNanoseconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

}  // namespace

Return nvmlEventSetCreate(EventSet* set) {
  Locked lock;
  if (OpenWorld() == nullptr) return kUninitialized;
  if (set == nullptr) return kInvalidArgument;
  for (Set& candidate : sets) {
    if (candidate.is_used) continue;
    memset(&candidate, 0, sizeof(candidate));
    candidate.is_used = true;
    *set = reinterpret_cast<EventSet>(&candidate);
    return kSuccess;
  }
  return kUnknown;
}

Return nvmlEventSetFree(EventSet set) {
  Locked lock;
  Set* found = Find(set);
  if (found == nullptr) return kInvalidArgument;
  found->is_used = false;
  return kSuccess;
}

Return nvmlDeviceGetSupportedEventTypes(Device device, unsigned long long* types) {
  Look look(device);
  if (look.result != kSuccess) return look.result;
  if (types == nullptr) return kInvalidArgument;
  *types = kEventXid;
  return kSuccess;
}

Return nvmlDeviceRegisterEvents(Device device, unsigned long long types, EventSet set) {
  Look look(device);
  if (look.result != kSuccess) return look.result;
  Set* found = Find(set);
  if (found == nullptr) return kInvalidArgument;
  if ((types & ~kEventXid) != 0) return kNotSupported;
  found->is_registered[look.index] = (types & kEventXid) != 0;
  found->told[look.index] = look.state.xid_count;
  return kSuccess;
}

Return nvmlEventSetWait_v2(EventSet set, Event* event, unsigned timeout_ms) {
  if (event == nullptr) return kInvalidArgument;
  const long long end = NowNanoseconds() + timeout_ms * 1'000'000LL;
  for (;;) {
    {
      Locked lock;
      if (OpenWorld() == nullptr) return kUninitialized;
      Set* found = Find(set);
      if (found == nullptr) return kInvalidArgument;
      if (TakeEvent(*found, *event)) return kSuccess;
    }
    if (NowNanoseconds() >= end) return kTimeout;
    const timespec pause = {0, kPollNanoseconds};
    nanosleep(&pause, nullptr);
  }
}
Return nvmlEventSetWait(EventSet set, Event* event, unsigned timeout_ms) {
  return nvmlEventSetWait_v2(set, event, timeout_ms);
}
