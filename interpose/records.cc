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
  // Without host memory for the record, the bytes stay counted until the process ends.
  g_tables[kind].Put(key, counted);
}

namespace {

/// Drops a record of that context and gives its bytes back.
void Drop(RecordKind kind, std::uint64_t key, cuda::Context context) {
  Counted counted{};
  {
    const Locked locked(g_mutex);
    const Counted* const found = g_tables[kind].Find(key);
    if (found == nullptr || found->context != context) return;
    counted = *found;
    g_tables[kind].Remove(key);
  }
  GiveBack(counted.device, counted.bytes);
}

}  // namespace

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
    KeyList<std::uint64_t> keys;
    do {
      {
        const Locked locked(g_mutex);
        keys.Gather(g_tables[kind], [&](const Counted& counted) { return counted.context == context; });
      }
      for (const std::uint64_t key : keys) Drop(static_cast<RecordKind>(kind), key, context);
    } while (keys.is_partial());
  }
}

void ForgetRecords() {
  g_mutex.Renew();
  for (auto& table : g_tables) table.Abandon();
}

}  // namespace divvy::interpose
