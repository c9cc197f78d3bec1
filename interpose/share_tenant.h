// What the sources of share_tenant have in common: the way to the driver, and what the program holds there.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "platform/gpu/cuda_api.h"

namespace divvy::share_tenant {

/// By which door the program finds the driver's functions: the first argument of `init`.
inline std::string g_door = "dlsym";
inline void* g_cuda = nullptr;

/// The driver's function, by the door; null: there is none.
void* Find(const char* symbol);

template <typename Declared>
Declared* Symbol(const char* symbol) {
  void* const found = Find(symbol);
  if (found == nullptr) {
    std::fprintf(stderr, "no %s by %s\n", symbol, g_door.c_str());
    std::_Exit(3);
  }
  return reinterpret_cast<Declared*>(found);
}
#define CU(symbol) (Symbol<decltype(cuda::symbol)>(#symbol))

/// What was allocated under a name.
struct Thing {
  std::string kind;
  std::uint64_t value = 0;
  std::uint64_t other = 0;
  std::uint64_t bytes = 0;
};
inline std::map<std::string, Thing> g_things;

/// Allocates what `kind` and `bytes` say.
cuda::Return Make(Thing& thing);
cuda::Return Unmake(const Thing& thing);

/// Opens NCCL; or makes a communicator: `how` (rank, config, scalable, all), of `ranks`, by a symbol of the program's
/// own
/// (`is_linked`) or by dlsym. NCCL's result.
int LoadNccl();
int MakeCommunicator(const std::string& how, int ranks, bool is_linked);

}  // namespace divvy::share_tenant
