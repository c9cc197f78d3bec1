#include "records.h"

#include "driver.h"
#include "sync.h"
#include "table.h"
#include "tenant.h"

namespace divvy::interpose {

namespace {

Mutex g_mutex;
Table<Counted> g_tables[kRecordKinds];

}  // namespace

void Remember(RecordKind kind, std::uint64_t key, unsigned device, std::uint64_t bytes) {
  Counted counted = {bytes, device, nullptr};
  DRIVER(cuCtxGetCurrent)(&counted.context);
  const Locked locked(g_mutex);
  g_tables[kind].Put(key, counted);  // Without host memory for it the bytes stay counted until the process ends.
}

void Drop(RecordKind kind, std::uint64_t key) {
  Counted counted{};
  {
    const Locked locked(g_mutex);
    const Counted* const found = g_tables[kind].Find(key);
    if (found == nullptr) return;
    counted = *found;
    g_tables[kind].Remove(key);
  }
  GiveBack(counted.device, counted.bytes);
}

Forgetting::Forgetting(RecordKind kind, std::uint64_t key) : kind_(kind), key_(key) {
  const Locked locked(g_mutex);
  const Counted* const found = g_tables[kind].Find(key);
  if (found == nullptr) return;
  counted_ = *found;
  is_known_ = true;
  g_tables[kind].Remove(key);
}

void Forgetting::Undo() {
  if (!is_known_) return;
  is_known_ = false;
  const Locked locked(g_mutex);
  g_tables[kind_].Put(key_, counted_);
}

Forgetting::~Forgetting() {
  if (is_known_) GiveBack(counted_.device, counted_.bytes);
}

unsigned DeviceOfRecord(RecordKind kind, std::uint64_t key) {
  const Locked locked(g_mutex);
  const Counted* const found = g_tables[kind].Find(key);
  return found == nullptr ? kNotOurs : found->device;
}

void DropRecordsOf(cuda::Context context) {
  for (unsigned kind = 0; kind < kRecordKinds; ++kind) {
    for (bool is_left = true; is_left;) {
      std::uint64_t key = 0;
      is_left = false;
      {
        const Locked locked(g_mutex);
        g_tables[kind].ForEach([&](std::uint64_t at, const Counted& counted) {
          if (counted.context != context) return;
          key = at;
          is_left = true;
        });
      }
      if (is_left) Drop(static_cast<RecordKind>(kind), key);
    }
  }
}

void ForgetRecords() {
  g_mutex.Renew();
  for (auto& table : g_tables) table.Abandon();
}

}  // namespace divvy::interpose
