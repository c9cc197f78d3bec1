// Modules and libraries: code. Only PTX is parsed. Other images are accepted as unknown code: every function that is
// looked up by name exists and takes a few microseconds.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cuda_ptx.h"
#include "platform/os/old_glibc.h"

namespace divvy::cuda {
namespace {

constexpr size_t kCodeBytes = 2 << 20;  // Minimum device memory for the code of a module.

bool IsPtx(const char* image) {
  for (const char* at = image; at < image + 4096 && *at != '\0'; ++at) {
    if (static_cast<unsigned char>(*at) > 126) return false;
    if (strncmp(at, ".version", 8) == 0) return true;
  }
  return false;
}

bool IsBinary(const void* image) {
  const auto* bytes = static_cast<const unsigned char*>(image);
  const unsigned char elf[] = {0x7f, 'E', 'L', 'F'};
  const unsigned char fat[] = {0x50, 0xed, 0x55, 0xba};
  return memcmp(bytes, elf, 4) == 0 || memcmp(bytes, fat, 4) == 0;
}

Module Load(Context context, const void* image, Return* error) {
  const bool is_ptx = IsPtx(static_cast<const char*>(image));
  if (!is_ptx && !IsBinary(image)) return *error = kInvalidImage, nullptr;
  auto* module = New<OpaqueModule>();
  module->context = context;
  if (is_ptx) ReadPtx(static_cast<const char*>(image), module->functions, module->globals);
  size_t bytes = kCodeBytes;
  for (const Global& global : module->globals) bytes += RoundUp(global.bytes, kPage);
  bytes = RoundUp(bytes, kChunk);
  *error = TakeMemory(context->device, bytes, true);
  for (size_t i = 0; *error == kSuccess && i < module->globals.count; ++i) {
    Global& global = module->globals[i];
    // Counted with the module: code and globals are part of the residual, beyond the program's allocations.
    Physical* physical = MakePhysical(-1, global.bytes == 0 ? 1 : global.bytes, false, error);
    if (physical == nullptr) break;
    physical->device = context->device;
    global.range = MapRange(kGlobal, physical, nullptr, global.bytes, context);
  }
  if (*error != kSuccess) {
    module->functions.Free();
    module->globals.Free();
    free(module);
    return nullptr;
  }
  for (Function function : module->functions) {
    function->module = module;
    LearnPlay(function);
  }
  module->residual = bytes;
  context->residual += bytes;
  context->modules.Add(module);
  return module;
}

Return LoadModule(Module* module, const void* image, bool is_library) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (module == nullptr || image == nullptr) return kInvalidValue;
  Return error = kSuccess;
  Module made = Load(call.context, image, &error);
  if (made == nullptr) return error;
  made->is_library = is_library;
  *module = made;
  return kSuccess;
}

Return LoadFile(Module* module, const char* path, bool is_library) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return kFileNotFound;
  struct stat about;
  Return result = kFileNotFound;
  if (old_glibc::Fstat(fd, &about) == 0) {
    auto* text = static_cast<char*>(calloc(1, static_cast<size_t>(about.st_size) + 1));
    if (text != nullptr && read(fd, text, static_cast<size_t>(about.st_size)) == about.st_size) {
      result = LoadModule(module, text, is_library);
    }
    free(text);
  }
  close(fd);
  return result;
}

Return FindFunction(Function* out, Module module, const char* name) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (out == nullptr || module == nullptr || name == nullptr) return kInvalidValue;
  for (Function function : module->functions) {
    if (strcmp(function->name, name) == 0) return *out = function, kSuccess;
  }
  if (module->functions.count != 0) return kNotFound;
  auto* function = New<OpaqueFunction>();
  strncpy(function->name, name, sizeof(function->name) - 1);
  function->module = module;
  function->duration_ns = kKernelNs;
  module->functions.Add(function);
  return *out = function, kSuccess;
}

Return FindGlobal(Pointer* pointer, size_t* bytes, Module module, const char* name) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (module == nullptr || name == nullptr) return kInvalidValue;
  for (const Global& global : module->globals) {
    if (strcmp(global.name, name) != 0) continue;
    if (pointer != nullptr) *pointer = reinterpret_cast<Pointer>(global.range->start);
    if (bytes != nullptr) *bytes = global.bytes;
    return kSuccess;
  }
  return kNotFound;
}

// Here a library is its module, and a kernel is its function.
Module ModuleOf(Library library) { return reinterpret_cast<Module>(library); }
Function FunctionOf(Kernel kernel) { return reinterpret_cast<Function>(kernel); }

Return FunctionAttribute(int* value, int attribute, Function function) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (value == nullptr || function == nullptr) return kInvalidValue;
  *value = attribute == 0 ? 1024 : attribute == 4 ? 32 : attribute == 5 || attribute == 6 ? 80 : 0;
  return kSuccess;
}

Return ParameterOf(Function function, size_t index, size_t* offset, size_t* bytes) {
  if (function == nullptr || offset == nullptr || index >= function->parameter_count) return kInvalidValue;
  *offset = function->parameter_offset[index];
  if (bytes != nullptr) *bytes = function->parameter_bytes[index];
  return kSuccess;
}

Return EnumerateFunctions(Function* out, unsigned room, Module module) {
  if (out == nullptr || module == nullptr) return kInvalidValue;
  for (unsigned i = 0; i < room && i < module->functions.count; ++i) out[i] = module->functions[i];
  return kSuccess;
}

Return Unload(Module module) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (module == nullptr) return kInvalidHandle;
  WaitForContext(call.context);
  UnloadModule(module);
  return kSuccess;
}

}  // namespace

void UnloadModule(Module module) {
  for (const Global& global : module->globals) RemoveRange(global.range);
  for (Function function : module->functions) free(function);
  module->context->modules.Remove(module);
  module->context->residual -= module->residual;
  GiveMemory(module->context->device, module->residual, true);
  module->functions.Free();
  module->globals.Free();
  free(module);
}

Return cuModuleLoad(Module* module, const char* path) { return LoadFile(module, path, false); }
Return cuModuleLoadData(Module* module, const void* image) { return LoadModule(module, image, false); }
Return cuModuleLoadDataEx(Module* module, const void* image, unsigned, int*, void**) {
  return LoadModule(module, image, false);
}
Return cuModuleLoadFatBinary(Module* module, const void* image) { return LoadModule(module, image, false); }
Return cuModuleUnload(Module module) { return Unload(module); }
Return cuModuleGetFunction(Function* function, Module module, const char* name) {
  return FindFunction(function, module, name);
}
Return cuModuleGetGlobal_v2(Pointer* pointer, size_t* bytes, Module module, const char* name) {
  return FindGlobal(pointer, bytes, module, name);
}
// As in drivers since CUDA 12.2.
static bool IsLazy() {
  const char* mode = getenv("CUDA_MODULE_LOADING");
  return mode == nullptr || strcmp(mode, "EAGER") != 0;
}

Return cuModuleGetLoadingMode(int* mode) {
  if (mode == nullptr) return kInvalidValue;
  *mode = IsLazy() ? 2 : 1;
  return kSuccess;
}
Return cuModuleGetFunctionCount(unsigned* count, Module module) {
  if (count == nullptr || module == nullptr) return kInvalidValue;
  *count = static_cast<unsigned>(module->functions.count);
  return kSuccess;
}
Return cuModuleEnumerateFunctions(Function* out, unsigned room, Module module) {
  return EnumerateFunctions(out, room, module);
}

Return cuLibraryLoadData(Library* library, const void* image, int*, void**, unsigned, int*, void**, unsigned) {
  return LoadModule(reinterpret_cast<Module*>(library), image, true);
}
Return cuLibraryLoadFromFile(Library* library, const char* path, int*, void**, unsigned, int*, void**, unsigned) {
  return LoadFile(reinterpret_cast<Module*>(library), path, true);
}
Return cuLibraryUnload(Library library) { return Unload(ModuleOf(library)); }
Return cuLibraryGetKernel(Kernel* kernel, Library library, const char* name) {
  return FindFunction(reinterpret_cast<Function*>(kernel), ModuleOf(library), name);
}
Return cuLibraryGetModule(Module* module, Library library) {
  if (module == nullptr) return kInvalidValue;
  *module = ModuleOf(library);
  return kSuccess;
}
Return cuLibraryGetGlobal(Pointer* pointer, size_t* bytes, Library library, const char* name) {
  return FindGlobal(pointer, bytes, ModuleOf(library), name);
}
Return cuLibraryGetManaged(Pointer*, size_t*, Library, const char*) { return kNotFound; }
Return cuLibraryGetKernelCount(unsigned* count, Library library) {
  return cuModuleGetFunctionCount(count, ModuleOf(library));
}
Return cuLibraryEnumerateKernels(Kernel* out, unsigned room, Library library) {
  return EnumerateFunctions(reinterpret_cast<Function*>(out), room, ModuleOf(library));
}

Return cuKernelGetFunction(Function* function, Kernel kernel) {
  if (function == nullptr || kernel == nullptr) return kInvalidValue;
  *function = FunctionOf(kernel);
  return kSuccess;
}
Return cuKernelGetLibrary(Library* library, Kernel kernel) {
  if (library == nullptr || kernel == nullptr) return kInvalidValue;
  *library = reinterpret_cast<Library>(FunctionOf(kernel)->module);
  return kSuccess;
}
Return cuKernelGetName(const char** name, Kernel kernel) {
  if (name == nullptr || kernel == nullptr) return kInvalidValue;
  *name = FunctionOf(kernel)->name;
  return kSuccess;
}
Return cuKernelGetAttribute(int* value, int attribute, Kernel kernel, Device) {
  return FunctionAttribute(value, attribute, FunctionOf(kernel));
}
Return cuKernelSetAttribute(int, int, Kernel, Device) { return kSuccess; }
Return cuKernelSetCacheConfig(Kernel, int, Device) { return kSuccess; }
Return cuKernelGetParamInfo(Kernel kernel, size_t index, size_t* offset, size_t* bytes) {
  return ParameterOf(FunctionOf(kernel), index, offset, bytes);
}
Return cuFuncGetAttribute(int* value, int attribute, Function function) {
  return FunctionAttribute(value, attribute, function);
}
Return cuFuncSetAttribute(Function, int, int) { return kSuccess; }
Return cuFuncSetCacheConfig(Function, int) { return kSuccess; }
Return cuFuncGetModule(Module* module, Function function) {
  if (module == nullptr || function == nullptr) return kInvalidValue;
  *module = function->module;
  return kSuccess;
}
Return cuFuncGetName(const char** name, Function function) {
  return cuKernelGetName(name, reinterpret_cast<Kernel>(function));
}
Return cuFuncLoad(Function function) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (function == nullptr) return kInvalidHandle;
  function->is_loaded = true;
  return kSuccess;
}
Return cuFuncIsLoaded(int* state, Function function) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (state == nullptr || function == nullptr) return kInvalidValue;
  *state = function->is_loaded || !IsLazy() ? 1 : 0;
  return kSuccess;
}
Return cuFuncGetParamInfo(Function function, size_t index, size_t* offset, size_t* bytes) {
  return ParameterOf(function, index, offset, bytes);
}

}  // namespace divvy::cuda
