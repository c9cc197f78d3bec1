// Hooks for NCCL communicators: which process creates one, and with how many ranks. Everything else stays with NCCL. A
// communicator derived from another one (ncclCommSplit) belongs to a process that already has one.
#include "nccl_hooks.h"

#include <dlfcn.h>
#include <string.h>

#include <atomic>

#include "link.h"
#include "symbol_lookup.h"
#include "tenant.h"

namespace divvy::interpose {

namespace {

/// NCCL's ABI passes ncclUniqueId by value.
struct UniqueId {
  char internal[128];
};
using Communicator = void*;
using Outcome = int;
constexpr Outcome kInvalidUsage = 5;

enum Maker : int { kRank, kRankConfig, kRankScalable, kAll, kMakers };
constexpr const char* kNames[kMakers] = {"ncclCommInitRank", "ncclCommInitRankConfig", "ncclCommInitRankScalable",
                                         "ncclCommInitAll"};

constexpr int kMostCopies = 8;  // Copies of NCCL in one process; further ones are ignored.
std::atomic<void*> g_copies[kMakers][kMostCopies];

Maker MakerOf(const char* name) {
  int maker = 0;
  while (maker < kMakers && strcmp(kNames[maker], name) != 0) ++maker;
  return static_cast<Maker>(maker);
}

void Note(int ranks) {
  if (ranks <= 1 || SharedPage() == nullptr) return;
  BeforePinning(share::kCollectives);
  SetFlags(share::kCollectives);
}

template <typename... Parameters>
Outcome Call(void* real, Parameters... parameters) {
  return real == nullptr ? kInvalidUsage : reinterpret_cast<Outcome (*)(Parameters...)>(real)(parameters...);
}

Outcome InitRank(void* real, Communicator* made, int ranks, UniqueId id, int rank) {
  Note(ranks);
  return Call(real, made, ranks, id, rank);
}
Outcome InitRankConfig(void* real, Communicator* made, int ranks, UniqueId id, int rank, void* config) {
  Note(ranks);
  return Call(real, made, ranks, id, rank, config);
}
Outcome InitRankScalable(void* real, Communicator* made, int ranks, int rank, int ids, UniqueId* id, void* config) {
  Note(ranks);
  return Call(real, made, ranks, rank, ids, id, config);
}
Outcome InitAll(void* real, Communicator* made, int devices, const int* list) {
  Note(devices);
  return Call(real, made, devices, list);
}

template <int copy>
struct Bound {
  static void* Real(Maker maker) { return g_copies[maker][copy].load(std::memory_order_acquire); }
  static Outcome Rank(Communicator* made, int ranks, UniqueId id, int rank) {
    return InitRank(Real(kRank), made, ranks, id, rank);
  }
  static Outcome RankConfig(Communicator* made, int ranks, UniqueId id, int rank, void* config) {
    return InitRankConfig(Real(kRankConfig), made, ranks, id, rank, config);
  }
  static Outcome RankScalable(Communicator* made, int ranks, int rank, int ids, UniqueId* id, void* config) {
    return InitRankScalable(Real(kRankScalable), made, ranks, rank, ids, id, config);
  }
  static Outcome All(Communicator* made, int devices, const int* list) {
    return InitAll(Real(kAll), made, devices, list);
  }
};

EntryPoint BoundEntryPoint(Maker maker, int copy) {
#define COPY(n)                                                                                             \
  {                                                                                                         \
    reinterpret_cast<EntryPoint>(&Bound<n>::Rank), reinterpret_cast<EntryPoint>(&Bound<n>::RankConfig),     \
        reinterpret_cast<EntryPoint>(&Bound<n>::RankScalable), reinterpret_cast<EntryPoint>(&Bound<n>::All) \
  }
  static const EntryPoint entry_points[kMostCopies][kMakers] = {COPY(0), COPY(1), COPY(2), COPY(3),
                                                                COPY(4), COPY(5), COPY(6), COPY(7)};
#undef COPY
  return entry_points[copy][maker];
}

/// The exported symbols. Callers were linked with NCCL, or found it in their own scope.
Outcome ncclCommInitRank_hook(Communicator* made, int ranks, UniqueId id, int rank) {
  return InitRank(RealNccl(kNames[kRank], __builtin_return_address(0)), made, ranks, id, rank);
}
Outcome ncclCommInitRankConfig_hook(Communicator* made, int ranks, UniqueId id, int rank, void* config) {
  return InitRankConfig(RealNccl(kNames[kRankConfig], __builtin_return_address(0)), made, ranks, id, rank, config);
}
Outcome ncclCommInitRankScalable_hook(Communicator* made, int ranks, int rank, int ids, UniqueId* id, void* config) {
  return InitRankScalable(RealNccl(kNames[kRankScalable], __builtin_return_address(0)), made, ranks, rank, ids, id,
                          config);
}
Outcome ncclCommInitAll_hook(Communicator* made, int devices, const int* list) {
  return InitAll(RealNccl(kNames[kAll], __builtin_return_address(0)), made, devices, list);
}

}  // namespace

#define HOOK(symbol)                                                                      \
  extern "C" __attribute__((visibility("hidden"))) const EntryPoint divvy_entry_##symbol; \
  const EntryPoint divvy_entry_##symbol = reinterpret_cast<EntryPoint>(&symbol##_hook);
#include "nccl_hooks.inc"
#undef HOOK

bool IsNcclHook(const char* name) { return MakerOf(name) != kMakers; }

void* NcclEntryPointOf(const char* name, void* real) {
  const Maker maker = MakerOf(name);
  if (maker == kMakers || real == nullptr || IsOwn(real) || SharedPage() == nullptr) return real;
  for (int copy = 0; copy < kMostCopies; ++copy) {
    void* there = nullptr;
    if (g_copies[maker][copy].compare_exchange_strong(there, real) || there == real) {
      return reinterpret_cast<void*>(BoundEntryPoint(maker, copy));
    }
  }
  return real;
}

void* RealNccl(const char* name, const void* caller) {
  Dl_info about{};
  void* found = nullptr;
  const auto look = [&](void* library) {
    if (library == nullptr || found != nullptr) return;
    found = RealDlsym(library, name);
    if (IsOwn(found)) found = nullptr;
    if (library != RTLD_NEXT) dlclose(library);
  };
  look(RTLD_NEXT);  // First the rest of the global scope behind this library, then the dependencies of the caller's
                    // library.
  if (dladdr(caller, &about) != 0 && about.dli_fname != nullptr) look(dlopen(about.dli_fname, RTLD_LAZY | RTLD_NOLOAD));
  look(dlopen("libnccl.so.2", RTLD_LAZY | RTLD_NOLOAD));
  return found;
}

}  // namespace divvy::interpose
