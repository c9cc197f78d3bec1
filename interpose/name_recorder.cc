// A library for tests and for scripts/record-cuda-names, preloaded in front of libdivvy_cuda.so. It writes down the
// functions that a program requests from the CUDA driver and NVML, one per line, to the file DIVVY_NAMES_FILE:
//
//   dlsym NAME - -              proc NAME VERSION FLAGS, by cuGetProcAddress              table UUID - -
//
// It changes no result: dlsym jumps on to the next library's dlsym, with the caller's return address.
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <initializer_list>

#include "platform/gpu/cuda_types.h"

using Dlsym = void* (*)(void*, const char*);

extern "C" {
__attribute__((visibility("hidden"))) Dlsym divvy_names_next_dlsym = nullptr;
__attribute__((visibility("hidden"))) void* divvy_names_dlsym(void* handle, const char* name);
}

#if !defined(__x86_64__)
#error "the recorder is written for x86-64"
#endif
asm(R"(
    .text;
    .globl dlsym
    .type dlsym, @function
dlsym:
    push %rdi
    push %rsi
    sub $8, %rsp
    call divvy_names_dlsym
    add $8, %rsp
    pop %rsi
    pop %rdi
    test %rax, %rax
    jnz 1f
    jmp *divvy_names_next_dlsym(%rip)
1:  ret
    .size dlsym, .-dlsym
)");

namespace {

using namespace divvy;  // NOLINT

using GetProcAddress = cuda::Return (*)(const char*, void**, int, unsigned long long);
using GetProcAddressV2 = cuda::Return (*)(const char*, void**, int, unsigned long long, void*);
using GetExportTable = cuda::Return (*)(const void**, const cuda::Uuid*);
GetProcAddress g_get = nullptr;
GetProcAddressV2 g_get_v2 = nullptr;
GetExportTable g_table = nullptr;

/// Appends a line in one write, so that lines of several threads and processes stay whole.
void Record(const char* how, const char* name, const char* rest) {
  const char* const path = getenv("DIVVY_NAMES_FILE");
  const int fd = path == nullptr ? -1 : open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd < 0) return;
  char line[512];
  const int size = snprintf(line, sizeof line, "%s %s %s\n", how, name, rest);
  if (size > 0 && size < static_cast<int>(sizeof line)) {
    [[maybe_unused]] const ssize_t written = write(fd, line, static_cast<size_t>(size));
  }
  close(fd);
}

void RecordProc(const char* name, int version, unsigned long long flags) {
  char rest[64];
  snprintf(rest, sizeof rest, "%d %llu", version, flags);
  if (name != nullptr) Record("proc", name[0] == 0 ? "\"\"" : name, rest);
}

void* Wrapped(const char* name, void* real);

cuda::Return Get(const char* name, void** function, int version, unsigned long long flags) {
  RecordProc(name, version, flags);
  const cuda::Return result = g_get(name, function, version, flags);
  if (result == cuda::kSuccess && function != nullptr && name != nullptr && version < 12000) {
    *function = Wrapped(name, *function);
  }
  return result;
}

cuda::Return GetV2(const char* name, void** function, int version, unsigned long long flags, void* found) {
  RecordProc(name, version, flags);
  const cuda::Return result = g_get_v2(name, function, version, flags, found);
  if (result != cuda::kSuccess || function == nullptr || name == nullptr) return result;
  const bool is_v2 = version >= 12000 && strcmp(name, "cuGetProcAddress") == 0;
  *function = Wrapped(is_v2 ? "cuGetProcAddress_v2" : name, *function);
  return result;
}

cuda::Return Table(const void** table, const cuda::Uuid* id) {
  char text[33];
  for (int i = 0; id != nullptr && i < 16; ++i) snprintf(text + 2 * i, 3, "%02x", id->bytes[i]);
  if (id != nullptr) Record("table", text, "- -");
  return g_table(table, id);
}

void* Wrapped(const char* name, void* real) {
  if (real == nullptr) return nullptr;
  if (strcmp(name, "cuGetProcAddress") == 0) {
    if (real != reinterpret_cast<void*>(&Get)) g_get = reinterpret_cast<GetProcAddress>(real);
    return reinterpret_cast<void*>(&Get);
  }
  if (strcmp(name, "cuGetProcAddress_v2") == 0) {
    if (real != reinterpret_cast<void*>(&GetV2)) g_get_v2 = reinterpret_cast<GetProcAddressV2>(real);
    return reinterpret_cast<void*>(&GetV2);
  }
  if (strcmp(name, "cuGetExportTable") == 0) {
    if (real != reinterpret_cast<void*>(&Table)) g_table = reinterpret_cast<GetExportTable>(real);
    return reinterpret_cast<void*>(&Table);
  }
  return real;
}

/// Also called before this library's constructors, by constructors of others.
void FindNext() {
  if (divvy_names_next_dlsym != nullptr) return;
  void* libc = nullptr;
  for (const char* version : {"GLIBC_2.34", "GLIBC_2.2.5"}) {
    if (libc == nullptr) libc = dlvsym(RTLD_NEXT, "dlsym", version);
  }
  void* const next = reinterpret_cast<Dlsym>(libc)(RTLD_NEXT, "dlsym");  // The next library's, or libc's.
  divvy_names_next_dlsym = reinterpret_cast<Dlsym>(next != nullptr ? next : libc);
}

}  // namespace

/// Returns the result of dlsym, or null if the next dlsym is to find it.
void* divvy_names_dlsym(void* handle, const char* name) {
  FindNext();
  if (name == nullptr || (strncmp(name, "cu", 2) != 0 && strncmp(name, "nvml", 4) != 0)) return nullptr;
  if (name[0] == 'n' || (name[2] >= 'A' && name[2] <= 'Z')) Record("dlsym", name, "- -");
  if (strncmp(name, "cuGet", 5) != 0) return nullptr;
  void* const real = divvy_names_next_dlsym(handle, name);
  void* const wrapped = Wrapped(name, real);
  return wrapped == real ? nullptr : wrapped;
}
