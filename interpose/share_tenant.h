// Shared by the sources of share_tenant: access to the driver, and the program's objects there.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "platform/gpu/cuda_api.h"

namespace divvy::share_tenant {

/// How the program looks up driver functions: the first argument of `init`.
inline std::string g_lookup = "dlsym";
inline void* g_cuda = nullptr;

/// Returns the driver function with this symbol, looked up in the way that `g_lookup` names; null if there is none.
void* Find(const char* symbol);

template <typename Declared>
Declared* Symbol(const char* symbol) {
  void* const found = Find(symbol);
  if (found == nullptr) {
    std::fprintf(stderr, "no %s by %s\n", symbol, g_lookup.c_str());
    std::_Exit(3);
  }
  return reinterpret_cast<Declared*>(found);
}
#define CU(symbol) (Symbol<decltype(cuda::symbol)>(#symbol))

/// An object allocated under a name.
struct Thing {
  std::string kind;
  std::uint64_t value = 0;
  std::uint64_t other = 0;
  std::uint64_t bytes = 0;
};
inline std::map<std::string, Thing> g_things;

/// Allocates `thing.bytes` of memory of the kind `thing.kind`: "plain", "managed", "async", "pool", "array", "mapping",
/// "graph" ...
cuda::Return Make(Thing& thing);
cuda::Return Unmake(const Thing& thing);

/// Runs a fixed sequence of calls of one feature of the driver API, for example "vmm". Returns what they returned.
std::string RunFeature(const std::string& name);
/// Allocates pieces of `bytes` each, of this kind of memory (see Make), until an allocation is refused or there are
/// `most` pieces. Returns the last result and the number of pieces.
std::string Hog(const std::string& kind, std::uint64_t bytes, std::uint64_t most);
/// Looks up every function that the file `list` names, in the way that its line states (see requested_names.txt).
/// Returns how many were found and how many not, and a digest of all results.
std::string RequestNames(const std::string& list);
/// Makes a green context of all multiprocessors current. Returns the result.
std::string EnterGreenContext();
/// Calls the form of cuMulticastBindMem for CUDA 13.1 once, with the seven arguments 1, 2, ..., 7. Returns the number
/// of the result, or "not found".
std::string BindToMulticast();

/// LoadNccl opens NCCL. MakeCommunicator creates a communicator of `ranks` ranks; `how` is rank, config, scalable or
/// all. It uses a linked symbol if `is_linked`, otherwise dlsym. Both return NCCL's result.
int LoadNccl();
int MakeCommunicator(const std::string& how, int ranks, bool is_linked);

}  // namespace divvy::share_tenant
