#include "driver.h"

#include <dlfcn.h>
#include <string.h>

#include <atomic>
#include <cstdint>

namespace divvy::interpose {

namespace {

enum Streams : std::uint8_t { kLegacyStream, kThreadStream };

/// A name with a version that selects a slot. Rows of one name are adjacent, oldest first.
struct Name {
  const char* name;
  int since;
  Streams streams;
  Slot slot;
};

constexpr Name kNames[] = {
// The forms for the thread's own stream were added in CUDA 7.0.
#define DIVVY_CUDA(name, symbol, since, parameters) {#name, since, kLegacyStream, kSlot_##symbol},
#define DIVVY_CUDA_PTSZ(name, symbol, since, parameters) \
  {#name, since, kLegacyStream, kSlot_##symbol},         \
      {#name, (since) < 7000 ? 7000 : (since), kThreadStream, kSlot_##symbol##_ptsz},
#define DIVVY_CUDA_PTDS(name, symbol, since, parameters) \
  {#name, since, kLegacyStream, kSlot_##symbol},         \
      {#name, (since) < 7000 ? 7000 : (since), kThreadStream, kSlot_##symbol##_ptds},
#define DIVVY_CUDA_ALIAS(name, symbol, since) {#name, since, kLegacyStream, kSlot_##symbol},
#include "more_functions.inc"
#include "platform/gpu/cuda_functions.inc"
#undef DIVVY_CUDA
#undef DIVVY_CUDA_PTSZ
#undef DIVVY_CUDA_PTDS
#undef DIVVY_CUDA_ALIAS
};

constexpr const char* kSymbols[kSlots] = {
#define DIVVY_CUDA(name, symbol, since, parameters) #symbol,
#define DIVVY_CUDA_PTSZ(name, symbol, since, parameters) #symbol, #symbol "_ptsz",
#define DIVVY_CUDA_PTDS(name, symbol, since, parameters) #symbol, #symbol "_ptds",
#define DIVVY_CUDA_ALIAS(name, symbol, since)
#include "more_functions.inc"
#include "platform/gpu/cuda_functions.inc"
#undef DIVVY_CUDA
#undef DIVVY_CUDA_PTSZ
#undef DIVVY_CUDA_PTDS
#undef DIVVY_CUDA_ALIAS
};

constexpr std::uint32_t HashOf(const char* text) {  // FNV-1a: compares integers before strings.
  std::uint32_t hash = 2166136261U;
  for (; *text != 0; ++text) hash = (hash ^ static_cast<unsigned char>(*text)) * 16777619U;
  return hash;
}

struct SymbolHashes {
  std::uint32_t of[kSlots] = {};
  constexpr SymbolHashes() {
    for (int slot = 0; slot < kSlots; ++slot) of[slot] = HashOf(kSymbols[slot]);
  }
};
constexpr SymbolHashes kHashes;

std::atomic<EntryPoint> g_real[kSlots];
std::atomic<void*> g_driver;
std::atomic<bool> g_is_cut_off{false};

cuda::Return Missing() { return cuda::kNotFound; }
cuda::Return CutOff() { return cuda::kContextIsDestroyed; }

}  // namespace

Slot SlotOfSymbol(const char* symbol) {
  const std::uint32_t hash = HashOf(symbol);
  for (int slot = 0; slot < kSlots; ++slot) {
    if (kHashes.of[slot] == hash && strcmp(kSymbols[slot], symbol) == 0) return static_cast<Slot>(slot);
  }
  return kNoEntry;
}

Slot SlotOfName(const char* name, int version, bool is_per_thread) {
  Slot legacy = kNoEntry;
  Slot own = kNoEntry;
  int legacy_since = 0;
  int own_since = 0;
  for (const Name& row : kNames) {
    if (row.since > version || strcmp(row.name, name) != 0) continue;
    if (row.streams == kLegacyStream && row.since >= legacy_since) {
      legacy = row.slot;
      legacy_since = row.since;
    }
    if (row.streams == kThreadStream && row.since >= own_since) {
      own = row.slot;
      own_since = row.since;
    }
  }
  return is_per_thread && own != kNoEntry ? own : legacy;
}

Slot SlotAt(const char* name, EntryPoint entry_point) {
  for (const Name& row : kNames) {
    if (strcmp(row.name, name) == 0 && RealEntryPoint(row.slot, false) == entry_point) return row.slot;
  }
  return kNoEntry;
}

bool HasUnknownForm(const char* name) {
  char symbol[128];
  const std::size_t length = strlen(name);
  if (length + 4 > sizeof symbol) return false;
  memcpy(symbol, name, length);
  memcpy(symbol + length, "_v2", 4);
  for (char digit = '2'; digit <= '9'; ++digit) {
    symbol[length + 2] = digit;
    if (SlotOfSymbol(symbol) != kNoEntry) continue;
    void* const driver = DriverHandle(false);
    if (driver != nullptr && RealDlsym(driver, symbol) != nullptr) return true;
  }
  return false;
}

void* LibcDlsym() {
  static std::atomic<void*> real{nullptr};
  void* found = real.load(std::memory_order_relaxed);
  constexpr const char* kVersions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
  for (int i = 0; found == nullptr && i < 3; ++i) found = dlvsym(RTLD_NEXT, "dlsym", kVersions[i]);
  real.store(found, std::memory_order_relaxed);
  return found;
}

void* RealDlsym(void* handle, const char* name) {
  using Dlsym = void* (*)(void*, const char*);
  const auto real = reinterpret_cast<Dlsym>(LibcDlsym());
  return real == nullptr ? nullptr : real(handle, name);
}

void* DriverHandle(bool is_loading) {
  void* handle = g_driver.load(std::memory_order_acquire);
  if (handle != nullptr) return handle;
  handle = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr && is_loading) handle = dlopen("libcuda.so.1", RTLD_LAZY);
  if (handle != nullptr) g_driver.store(handle, std::memory_order_release);
  return handle;
}

EntryPoint RealEntryPoint(Slot slot, bool is_loading) {
  EntryPoint entry_point = g_real[slot].load(std::memory_order_relaxed);
  if (entry_point != nullptr) return entry_point;
  void* const driver = DriverHandle(is_loading);
  if (driver == nullptr) return nullptr;
  entry_point = reinterpret_cast<EntryPoint>(RealDlsym(driver, kSymbols[slot]));
  g_real[slot].store(entry_point, std::memory_order_relaxed);
  return entry_point;
}

void CutOffDriver() { g_is_cut_off.store(true, std::memory_order_relaxed); }

EntryPoint CallableEntryPoint(Slot slot) {
  if (__builtin_expect(g_is_cut_off.load(std::memory_order_relaxed), 0)) return reinterpret_cast<EntryPoint>(&CutOff);
  const EntryPoint entry_point = RealEntryPoint(slot);
  return entry_point != nullptr ? entry_point : reinterpret_cast<EntryPoint>(&Missing);
}

}  // namespace divvy::interpose
