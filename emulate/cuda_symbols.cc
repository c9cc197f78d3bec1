// How programs find entry points: by symbol and by cuGetProcAddress. Also defines the _ptsz and _ptds entry points:
// each notes that stream 0 means the thread's own stream, and jumps to the plain entry point.
#include "cuda_driver.h"

#define DIVVY_TRAMPOLINE(symbol, suffix)                                                          \
  asm(".text\n.globl " #symbol #suffix "\n.type " #symbol #suffix ", @function\n" #symbol #suffix \
      ":\n\tmovq divvy_cuda_per_thread@gottpoff(%rip), %rax\n\tmovb $1, %fs:(%rax)\n"             \
      "\tjmp " #symbol "@PLT\n.size " #symbol #suffix ", .-" #symbol #suffix "\n");
#define DIVVY_CUDA(name, symbol, since, parameters)
#define DIVVY_CUDA_PTSZ(name, symbol, since, parameters) DIVVY_TRAMPOLINE(symbol, _ptsz)
#define DIVVY_CUDA_PTDS(name, symbol, since, parameters) DIVVY_TRAMPOLINE(symbol, _ptds)
#define DIVVY_CUDA_ALIAS(name, symbol, since)
#include "platform/gpu/cuda_functions.inc"
#undef DIVVY_CUDA
#undef DIVVY_CUDA_PTSZ
#undef DIVVY_CUDA_PTDS
#undef DIVVY_CUDA_ALIAS

namespace divvy::cuda {
namespace {

using AnyFunction = void (*)();

struct Door {
  const char* name;
  int since;
  AnyFunction plain;
  AnyFunction per_thread;
};

template <typename F>
AnyFunction Any(F* function) {
  return reinterpret_cast<AnyFunction>(function);
}

const Door* Doors(size_t& count) {
#define DIVVY_CUDA(name, symbol, since, parameters) {#name, since, Any(&symbol), Any(&symbol)},
#define DIVVY_CUDA_PTSZ(name, symbol, since, parameters) {#name, since, Any(&symbol), Any(&symbol##_ptsz)},
#define DIVVY_CUDA_PTDS(name, symbol, since, parameters) {#name, since, Any(&symbol), Any(&symbol##_ptds)},
#define DIVVY_CUDA_ALIAS(name, symbol, since) {#name, since, Any(&symbol), Any(&symbol)},
  static const Door doors[] = {
#include "platform/gpu/cuda_functions.inc"
  };
#undef DIVVY_CUDA
#undef DIVVY_CUDA_PTSZ
#undef DIVVY_CUDA_PTDS
#undef DIVVY_CUDA_ALIAS
  count = sizeof(doors) / sizeof(doors[0]);
  return doors;
}

// Returns the newest form that a program of `version` may use.
const Door* Find(const char* name, int version, bool& is_known) {
  size_t count = 0;
  const Door* doors = Doors(count);
  const Door* found = nullptr;
  is_known = false;
  for (size_t i = 0; i < count; ++i) {
    if (strcmp(doors[i].name, name) != 0) continue;
    is_known = true;
    if (doors[i].since <= version && (found == nullptr || doors[i].since >= found->since)) found = &doors[i];
  }
  return found;
}

}  // namespace

Return cuGetProcAddress_v2(const char* name, void** function, int version, unsigned long long flags,
                           ProcAddressResult* result) {
  const bool is_per_thread = divvy_cuda_per_thread != 0 || (flags & kProcPerThreadStream) != 0;
  divvy_cuda_per_thread = 0;
  if (name == nullptr || function == nullptr) return kInvalidValue;
  bool is_known = false;
  const Door* door = Find(name, version, is_known);
  *function = nullptr;
  if (result != nullptr) *result = door != nullptr ? kProcFound : is_known ? kProcVersionNotSufficient : kProcNotFound;
  if (door == nullptr) return result == nullptr ? kNotFound : kSuccess;
  *function =
      reinterpret_cast<void*>(is_per_thread && (flags & kProcLegacyStream) == 0 ? door->per_thread : door->plain);
  return kSuccess;
}

Return cuGetProcAddress(const char* name, void** function, int version, unsigned long long flags) {
  return cuGetProcAddress_v2(name, function, version, flags, nullptr);
}

// Function tables that only NVIDIA's own libraries use.
Return cuGetExportTable(const void** table, const Uuid*) {
  if (table != nullptr) *table = nullptr;
  return kNotFound;
}

}  // namespace divvy::cuda
