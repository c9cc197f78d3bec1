#include "nvml_world.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "platform/os/old_glibc.h"
#include "process_alive.h"

namespace divvy::emulation {
namespace {

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
const World* world = nullptr;
const CudaFile* cuda = nullptr;  // Null until a program has used CUDA.
unsigned starts = 0;             // nvmlInit_v2 calls without a matching nvmlShutdown yet.
char chosen_path[4096] = "";
char open_path[4096] = "";
ino_t open_world = 0;

// Finds the path given to divvyEmulateUse, else the one in DIVVY_EMULATE, else the file next to this library.
bool FindWorldPath(char* path, size_t size) {
  const char* given = chosen_path[0] != '\0' ? chosen_path : getenv("DIVVY_EMULATE");
  if (given != nullptr && given[0] != '\0') return static_cast<size_t>(snprintf(path, size, "%s", given)) < size;
  Dl_info self;
  if (dladdr(reinterpret_cast<void*>(&divvyEmulateUse), &self) == 0 || self.dli_fname == nullptr) return false;
  const char* slash = strrchr(self.dli_fname, '/');
  const int folder = slash == nullptr ? 0 : static_cast<int>(slash - self.dli_fname + 1);
  return static_cast<size_t>(snprintf(path, size, "%.*s%s", folder, self.dli_fname, kWorldFile)) < size;
}

/// `at`: replaces the mapping at this address.
const void* MapFile(const char* path, size_t size, ino_t* inode = nullptr, const void* at = nullptr) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return nullptr;
  struct stat about;
  void* mapped = MAP_FAILED;
  if (old_glibc::Fstat(fd, &about) == 0 && about.st_size == static_cast<off_t>(size)) {
    mapped = mmap(const_cast<void*>(at), size, PROT_READ, at == nullptr ? MAP_SHARED : MAP_SHARED | MAP_FIXED, fd, 0);
    if (inode != nullptr) *inode = about.st_ino;
  }
  close(fd);
  return mapped == MAP_FAILED ? nullptr : mapped;
}

const World* MapWorld(const char* path) {
  const auto* found = static_cast<const World*>(MapFile(path, sizeof(World), &open_world));
  if (found == nullptr) return nullptr;
  if (found->magic == kWorldMagic && found->layout == kWorldLayout && found->gpu_count <= kMaxGpus) return found;
  munmap(const_cast<World*>(found), sizeof(World));
  return nullptr;
}

const CudaFile* MapCuda(const char* world_path) {
  char path[4200];
  snprintf(path, sizeof(path), "%s%s", world_path, kCudaSuffix);
  const auto* found = static_cast<const CudaFile*>(MapFile(path, sizeof(CudaFile)));
  if (found == nullptr) return nullptr;
  char boot_id[40];
  ReadBootId(boot_id);
  if (IsCurrentCudaFile(*found, boot_id)) return found;
  munmap(const_cast<CudaFile*>(found), sizeof(CudaFile));
  return nullptr;
}

}  // namespace

const World* OpenWorld() { return world; }

nvml::Return StartWorld() {
  Locked lock;
  if (world == nullptr) {
    char path[4096];
    if (!FindWorldPath(path, sizeof(path))) return nvml::kDriverNotLoaded;
    world = MapWorld(path);
    if (world == nullptr) return nvml::kDriverNotLoaded;
    cuda = MapCuda(path);
    strcpy(open_path, path);
  }
  ++starts;
  return nvml::kSuccess;
}

void FollowWorld() {
  struct stat about;
  const int fd = world == nullptr ? -1 : open(open_path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  const bool is_another = old_glibc::Fstat(fd, &about) == 0 && about.st_ino != open_world;
  close(fd);
  if (!is_another || MapFile(open_path, sizeof(World), &open_world, world) == nullptr || cuda == nullptr) return;
  char path[4200];
  snprintf(path, sizeof(path), "%s%s", open_path, kCudaSuffix);
  MapFile(path, sizeof(CudaFile), nullptr, cuda);
}

nvml::Return StopWorld() {
  Locked lock;
  if (world == nullptr) return nvml::kUninitialized;
  if (--starts == 0) {
    munmap(const_cast<World*>(world), sizeof(World));
    world = nullptr;
    if (cuda != nullptr) munmap(const_cast<CudaFile*>(cuda), sizeof(CudaFile));
    cuda = nullptr;
  }
  return nvml::kSuccess;
}

Locked::Locked() { pthread_mutex_lock(&mutex); }
Locked::~Locked() { pthread_mutex_unlock(&mutex); }

nvml::Device DeviceAt(unsigned index) {
  return reinterpret_cast<nvml::Device>(const_cast<WorldGpu*>(&world->gpus[index]));
}

unsigned IndexOf(nvml::Device device) {
  for (unsigned i = 0; i < world->gpu_count; ++i) {
    if (DeviceAt(i) == device) return i;
  }
  return kMaxGpus;
}

InstanceSlot SlotOf(const void* handle) {
  for (unsigned gpu = 0; gpu < world->gpu_count; ++gpu) {
    for (unsigned slot = 0; slot < kMaxInstances; ++slot) {
      if (HandleOf({gpu, slot}) == handle) return {gpu, slot};
    }
  }
  return {};
}

void* HandleOf(InstanceSlot slot) {
  return const_cast<WorldInstance*>(&world->gpus[slot.gpu].states[0].instances[slot.slot]);
}

nvml::Return ChangeWorld(unsigned gpu, ChangeState change, void* about) {
  const int fd = open(open_path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return nvml::kNoPermission;
  nvml::Return result = nvml::kUnknown;
  void* mapped = mmap(nullptr, sizeof(World), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapped != MAP_FAILED && flock(fd, LOCK_EX) == 0) {
    WorldGpu& its = static_cast<World*>(mapped)->gpus[gpu];
    WorldState state;
    ReadState(its, state);
    result = change(state, about);
    PublishState(its, state);
  }
  if (mapped != MAP_FAILED) munmap(mapped, sizeof(World));
  close(fd);
  return result;
}

Look::Look(nvml::Device device, bool takes_instances) {
  if (world == nullptr) {
    result = nvml::kUninitialized;
    return;
  }
  index = IndexOf(device);
  InstanceSlot slot;
  if (index == kMaxGpus && takes_instances) {
    slot = SlotOf(device);
    index = slot.gpu;
  }
  if (index == kMaxGpus) {
    result = nvml::kInvalidArgument;
    return;
  }
  facts = &world->gpus[index].facts;
  ReadState(world->gpus[index], state);
  if (state.is_lost != 0) result = nvml::kGpuIsLost;
  if (slot.gpu == kMaxGpus) return;
  instance = &state.instances[slot.slot];
  if (instance->is_there == 0 || instance->has_compute == 0) result = nvml::kInvalidArgument;
}

nvml::Return CopyText(char* out, unsigned size, const char* text) {
  if (out == nullptr) return nvml::kInvalidArgument;
  const size_t length = strlen(text);
  if (length >= size) return nvml::kInsufficientSize;
  memcpy(out, text, length + 1);
  return nvml::kSuccess;
}

bool ParsePci(const char* text, unsigned& domain, unsigned& bus, unsigned& device) {
  char end = '\0';
  unsigned function = 0;
  if (sscanf(text, "%x:%x:%x.%x%c", &domain, &bus, &device, &function, &end) == 4) return true;
  domain = 0;
  return sscanf(text, "%x:%x.%x%c", &bus, &device, &function, &end) == 3;
}

bool IsAlive(const WorldProcess& process) { return IsRunning(process.pid, process.start_ticks); }

const CudaFile* OpenCuda() { return cuda; }

}  // namespace divvy::emulation

divvy::nvml::Return divvyEmulateUse(const char* world_path) {
  using namespace divvy::emulation;  // NOLINT: the entry points are outside the namespace by their ABI.
  Locked lock;
  if (world_path == nullptr || strlen(world_path) >= sizeof(chosen_path)) return divvy::nvml::kInvalidArgument;
  strcpy(chosen_path, world_path);
  return divvy::nvml::kSuccess;
}
