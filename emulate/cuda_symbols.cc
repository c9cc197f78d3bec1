// How programs find entry points: by symbol and by cuGetProcAddress. Also defines the _ptsz and _ptds entry points:
// each notes that stream 0 means the thread's own stream, and jumps to the plain entry point.
#include <stdio.h>

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

struct EntryPoint {
  const char* name;
  int since;
  AnyFunction plain;
  AnyFunction per_thread;
};

template <typename F>
AnyFunction Any(F* function) {
  return reinterpret_cast<AnyFunction>(function);
}

const EntryPoint* EntryPoints(size_t& count) {
#define DIVVY_CUDA(name, symbol, since, parameters) {#name, since, Any(&symbol), Any(&symbol)},
#define DIVVY_CUDA_PTSZ(name, symbol, since, parameters) {#name, since, Any(&symbol), Any(&symbol##_ptsz)},
#define DIVVY_CUDA_PTDS(name, symbol, since, parameters) {#name, since, Any(&symbol), Any(&symbol##_ptds)},
#define DIVVY_CUDA_ALIAS(name, symbol, since) {#name, since, Any(&symbol), Any(&symbol)},
  static const EntryPoint entry_points[] = {
#include "platform/gpu/cuda_functions.inc"
  };
#undef DIVVY_CUDA
#undef DIVVY_CUDA_PTSZ
#undef DIVVY_CUDA_PTDS
#undef DIVVY_CUDA_ALIAS
  count = sizeof(entry_points) / sizeof(entry_points[0]);
  return entry_points;
}

// Returns the newest form that a program of `version` may use.
const EntryPoint* Find(const char* name, int version, bool& is_known) {
  size_t count = 0;
  const EntryPoint* entry_points = EntryPoints(count);
  const EntryPoint* found = nullptr;
  is_known = false;
  for (size_t i = 0; i < count; ++i) {
    if (strcmp(entry_points[i].name, name) != 0) continue;
    is_known = true;
    if (entry_points[i].since <= version && (found == nullptr || entry_points[i].since >= found->since))
      found = &entry_points[i];
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
  const EntryPoint* entry_point = Find(name, version, is_known);
  *function = nullptr;
  if (result != nullptr)
    *result = entry_point != nullptr ? kProcFound : is_known ? kProcVersionNotSufficient : kProcNotFound;
  if (entry_point == nullptr) return result == nullptr ? kNotFound : kSuccess;
  *function = reinterpret_cast<void*>(is_per_thread && (flags & kProcLegacyStream) == 0 ? entry_point->per_thread
                                                                                        : entry_point->plain);
  return kSuccess;
}

Return cuGetProcAddress(const char* name, void** function, int version, unsigned long long flags) {
  return cuGetProcAddress_v2(name, function, version, flags, nullptr);
}

// Tables of functions that NVIDIA does not document. Only its own libraries use them: the CUDA runtime, and all that is
// built on it.
Return cuGetExportTable(const void** table, const Uuid*) {
  static bool has_spoken = false;
  if (!__atomic_exchange_n(&has_spoken, true, __ATOMIC_RELAXED)) {
    fputs(
        "divvy: emulated GPUs cannot run programs of the CUDA runtime (PyTorch, JAX, CuPy, cuBLAS, NCCL, ...), which "
        "needs driver functions that NVIDIA does not document; its calls fail with error 801; use a real GPU, or a "
        "program of the driver API such as divvy-burn\n",
        stderr);
  }
  if (table != nullptr) *table = nullptr;
  return kNotSupported;
}

}  // namespace divvy::cuda
