#include "driver.h"

#include <dlfcn.h>

#include <string>

namespace divvy::burn {

Result<Driver> LoadDriver() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return NotFound(std::string("no CUDA driver (") + dlerror() +
                    "): for emulated GPUs, set LD_LIBRARY_PATH to the folder of the emulated driver");
  }
  Driver driver;
  const char* missing = nullptr;
#define DIVVY_BURN_LOAD(name)                                                   \
  driver.name = reinterpret_cast<decltype(&cuda::name)>(dlsym(library, #name)); \
  if (driver.name == nullptr) missing = #name;
  DIVVY_BURN_FUNCTIONS(DIVVY_BURN_LOAD)
#undef DIVVY_BURN_LOAD
  if (missing != nullptr) return FailedPrecondition(std::string("this CUDA driver is too old: it lacks ") + missing);
  return driver;
}

Error CudaError(const Driver& driver, std::string_view what, cuda::Return error) {
  const char* name = nullptr;
  driver.cuGetErrorName(error, &name);
  return Internal(std::string(what) + ": " + (name == nullptr ? "error" : name) + " (" +
                  std::to_string(static_cast<int>(error)) + ")");
}

}  // namespace divvy::burn
