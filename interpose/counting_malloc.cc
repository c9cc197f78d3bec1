// A preload that replaces malloc and free and finds the real ones by dlsym at their first use, as profilers and memory
// checkers do. So dlsym is called very early, from within malloc, and must not need malloc itself.
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include <atomic>

namespace {

using Malloc = void* (*)(size_t);
using Free = void (*)(void*);
std::atomic<Malloc> g_malloc{nullptr};
std::atomic<Free> g_free{nullptr};
std::atomic<unsigned long> g_count{0};
__thread bool t_is_searching = false;

template <typename Function>
Function Real(std::atomic<Function>& known, const char* name) {
  Function real = known.load();
  if (real != nullptr) return real;
  if (t_is_searching) abort();  // dlsym has called malloc.
  t_is_searching = true;
  real = reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
  t_is_searching = false;
  known.store(real);
  return real;
}

}  // namespace

extern "C" {

void* malloc(size_t bytes) {
  g_count.fetch_add(1);
  return Real(g_malloc, "malloc")(bytes);
}

void free(void* pointer) {
  if (pointer != nullptr) Real(g_free, "free")(pointer);
}

unsigned long divvy_malloc_count() { return g_count.load(); }

}  // extern "C"
