// The file shared by all processes: memory of each process on each GPU. Also selects the GPUs that this process sees.
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cuda_driver.h"
#include "platform/os/old_glibc.h"
#include "process_alive.h"

namespace divvy::cuda {

using emulation::CudaFile;
using emulation::CudaProcess;
using emulation::CudaUse;
using emulation::kMaxCudaProcesses;
using emulation::kMaxGpus;
using emulation::LockShared;
using emulation::UnlockShared;
using emulation::World;
using emulation::WorldFacts;

namespace {

// Finds the path in DIVVY_EMULATE, else the file next to this library.
bool FindWorldPath(char* path, size_t size) {
  const char* given = getenv("DIVVY_EMULATE");
  if (given != nullptr && given[0] != '\0') return static_cast<size_t>(snprintf(path, size, "%s", given)) < size;
  Dl_info self;
  if (dladdr(reinterpret_cast<void*>(&cuInit), &self) == 0 || self.dli_fname == nullptr) return false;
  const char* slash = strrchr(self.dli_fname, '/');
  const int folder = slash == nullptr ? 0 : static_cast<int>(slash - self.dli_fname + 1);
  return static_cast<size_t>(snprintf(path, size, "%.*s%s", folder, self.dli_fname, emulation::kWorldFile)) < size;
}

void* Map(const char* path, size_t size, bool is_writable) {
  const int fd = open(path, (is_writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
  if (fd < 0) return nullptr;
  struct stat about;
  void* mapped = MAP_FAILED;
  if (old_glibc::Fstat(fd, &about) == 0 && about.st_size == static_cast<off_t>(size)) {
    mapped = mmap(nullptr, size, PROT_READ | (is_writable ? PROT_WRITE : 0), MAP_SHARED, fd, 0);
  }
  close(fd);
  return mapped == MAP_FAILED ? nullptr : mapped;
}

// Publishes a complete file or none, since several processes may start at the same time. `is_there`: a file from an
// earlier boot exists and is replaced.
void CreateCudaFile(const char* path, const char* boot_id, bool is_there) {
  char fresh[4200];
  snprintf(fresh, sizeof(fresh), "%s.new.%d", path, getpid());
  const int fd = open(fresh, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return;
  if (fchmod(fd, 0666) == 0 && ftruncate(fd, sizeof(CudaFile)) == 0) {
    void* mapped = mmap(nullptr, sizeof(CudaFile), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped != MAP_FAILED) {
      emulation::InitialiseCudaFile(*static_cast<CudaFile*>(mapped), boot_id);
      munmap(mapped, sizeof(CudaFile));
      const bool is_named = (is_there ? rename(fresh, path) : link(fresh, path)) == 0;
      static_cast<void>(is_named);  // Failure means that another process was faster.
    }
  }
  close(fd);
  unlink(fresh);
}

bool TakeSlot() {
  const uint64_t start = emulation::StartOf(static_cast<uint32_t>(getpid()));
  LockShared(driver.file->lock);
  unsigned free_slot = kMaxCudaProcesses;
  for (unsigned i = 0; i < kMaxCudaProcesses; ++i) {
    CudaProcess& process = driver.file->processes[i];
    if (process.pid != static_cast<uint32_t>(getpid()) && emulation::IsUsingCuda(process)) continue;
    // The entry is from before this process executed another program (exec), so it is free.
    if (process.pid == static_cast<uint32_t>(getpid())) process.pid = 0;
    if (free_slot == kMaxCudaProcesses) free_slot = i;
  }
  if (free_slot != kMaxCudaProcesses) {
    CudaProcess& mine = driver.file->processes[free_slot];
    memset(static_cast<void*>(mine.uses), 0, sizeof(mine.uses));
    mine.start_ticks = start;
    mine.state = kProcessRunning;
    mine.service_thread = 0;
    mine.is_unmovable = 0;
    mine.saved = 0;
    mine.instance = driver.instance.is_there != 0 ? driver.instance.id + 1 : 0;
    mine.order.answered = mine.order.asked;
    mine.pid = static_cast<uint32_t>(getpid());
    driver.slot = free_slot;
  }
  UnlockShared(driver.file->lock);
  return free_slot != kMaxCudaProcesses;
}

// Sorts the GPUs before CUDA_VISIBLE_DEVICES applies: by bus, or the best first.
void Sort(unsigned* order, unsigned count, bool by_bus) {
  for (unsigned i = 1; i < count; ++i) {
    for (unsigned j = i; j > 0; --j) {
      const WorldFacts& a = driver.world->gpus[order[j - 1]].facts;
      const WorldFacts& b = driver.world->gpus[order[j]].facts;
      const bool is_later = by_bus
                                ? strcmp(a.pci, b.pci) > 0
                                : a.compute_capability < b.compute_capability ||
                                      (a.compute_capability == b.compute_capability && a.memory_total < b.memory_total);
      if (!is_later) break;
      const unsigned kept = order[j];
      order[j] = order[j - 1];
      order[j - 1] = kept;
    }
  }
}

// Resolves one entry of CUDA_VISIBLE_DEVICES; kMaxGpus if it matches no GPU or several.
unsigned Named(const char* text, size_t length, const unsigned* order, unsigned count) {
  if (length >= 5 && strncmp(text, "GPU-", 4) == 0) {
    unsigned found = kMaxGpus;
    for (unsigned i = 0; i < count; ++i) {
      if (strncmp(driver.world->gpus[i].facts.uuid, text, length) != 0) continue;
      if (found != kMaxGpus) return kMaxGpus;
      found = i;
    }
    return found;
  }
  char* end = nullptr;
  const unsigned long index = strtoul(text, &end, 10);
  if (length == 0 || end != text + length || index >= count) return kMaxGpus;
  return order[index];
}

// Selects the instance with this name; returns false if there is none.
bool NamedInstance(const char* text, size_t length) {
  for (unsigned gpu = 0; gpu < driver.world->gpu_count; ++gpu) {
    emulation::WorldState state;
    emulation::ReadState(driver.world->gpus[gpu], state);
    for (const emulation::WorldInstance& one : state.instances) {
      if (one.is_there == 0 || one.has_compute == 0 || strlen(one.uuid) != length) continue;
      if (strncmp(one.uuid, text, length) != 0) continue;
      driver.gpus[0] = gpu;
      driver.gpu_count = 1;
      driver.instance = one;
      return true;
    }
  }
  return false;
}

bool IsMigOn(unsigned gpu) {
  emulation::WorldState state;
  emulation::ReadState(driver.world->gpus[gpu], state);
  return state.is_mig_on != 0;
}

// If no instance is named, a program sees only the first instance of a GPU in MIG mode.
void DropDivided() {
  unsigned kept = 0;
  for (unsigned i = 0; i < driver.gpu_count; ++i) {
    if (!IsMigOn(driver.gpus[i])) driver.gpus[kept++] = driver.gpus[i];
  }
  if (kept > 0 || driver.gpu_count == 0) {
    driver.gpu_count = kept;
    return;
  }
  const unsigned gpu = driver.gpus[0];
  driver.gpu_count = 0;
  emulation::WorldState state;
  emulation::ReadState(driver.world->gpus[gpu], state);
  for (const emulation::WorldInstance& one : state.instances) {
    if (one.is_there != 0 && one.has_compute != 0 && NamedInstance(one.uuid, strlen(one.uuid))) return;
  }
}

// Like real drivers, uses the entries up to the first one that matches no GPU.
void ChooseDevices() {
  const unsigned count = driver.world->gpu_count;
  unsigned order[kMaxGpus];
  for (unsigned i = 0; i < count; ++i) order[i] = i;
  const char* ordered = getenv("CUDA_DEVICE_ORDER");
  Sort(order, count, ordered != nullptr && strcmp(ordered, "PCI_BUS_ID") == 0);
  const char* visible = getenv("CUDA_VISIBLE_DEVICES");
  if (visible == nullptr) {
    memcpy(driver.gpus, order, sizeof(order));
    driver.gpu_count = count;
    return;
  }
  for (const char* at = visible; driver.gpu_count < kMaxGpus;) {
    while (*at == ' ') ++at;
    size_t length = strcspn(at, ",");
    const char* next = at + length;
    while (length > 0 && at[length - 1] == ' ') --length;
    // A program uses one instance and no other GPU.
    if (driver.gpu_count == 0 && strncmp(at, "MIG-", 4) == 0 && NamedInstance(at, length)) return;
    const unsigned gpu = Named(at, length, order, count);
    bool is_again = gpu == kMaxGpus;
    for (unsigned i = 0; i < driver.gpu_count; ++i) is_again = is_again || driver.gpus[i] == gpu;
    if (is_again) break;
    driver.gpus[driver.gpu_count++] = gpu;
    if (*next == '\0') break;
    at = next + 1;
  }
}

uint64_t TotalOf(unsigned gpu) {
  return driver.instance.is_there != 0 ? driver.instance.memory : driver.world->gpus[gpu].facts.memory_total;
}

uint64_t UsedOf(unsigned gpu) {
  uint64_t used = 0;
  for (const CudaProcess& process : driver.file->processes) {
    if (process.pid != 0 && process.instance == MySlot().instance)
      used += process.uses[gpu].memory + process.uses[gpu].residual;
  }
  if (driver.instance.is_there != 0) return used;
  emulation::WorldState state;
  emulation::ReadState(driver.world->gpus[gpu], state);
  used += state.other_memory;
  for (unsigned i = 0; i < state.process_count && i < emulation::kMaxProcesses; ++i) {
    const emulation::WorldProcess& process = state.processes[i];
    if (emulation::IsRunning(process.pid, process.start_ticks)) used += process.memory;
  }
  return used;
}

// Requires the file's lock.
void DropDead() {
  for (CudaProcess& process : driver.file->processes) {
    if (process.pid != 0 && !emulation::IsUsingCuda(process)) process.pid = 0;
  }
}

}  // namespace

bool IsLost(unsigned gpu) {
  emulation::WorldState state;
  emulation::ReadState(driver.world->gpus[gpu], state);
  return state.is_lost != 0;
}

Return OpenShared() {
  char path[4096];
  char shared[4110];
  if (!FindWorldPath(path, sizeof(path))) return kNoDevice;
  auto* world = static_cast<const World*>(Map(path, sizeof(World), false));
  if (world == nullptr || world->magic != emulation::kWorldMagic || world->layout != emulation::kWorldLayout ||
      world->gpu_count > kMaxGpus) {
    return kNoDevice;
  }
  snprintf(shared, sizeof(shared), "%s%s", path, emulation::kCudaSuffix);
  char boot_id[40];
  emulation::ReadBootId(boot_id);
  driver.world = world;
  driver.file = static_cast<CudaFile*>(Map(shared, sizeof(CudaFile), true));
  if (driver.file == nullptr || !emulation::IsCurrentCudaFile(*driver.file, boot_id)) {
    CreateCudaFile(shared, boot_id, driver.file != nullptr);
    if (driver.file != nullptr) munmap(static_cast<void*>(driver.file), sizeof(CudaFile));
    driver.file = static_cast<CudaFile*>(Map(shared, sizeof(CudaFile), true));
  }
  if (driver.file == nullptr || !emulation::IsCurrentCudaFile(*driver.file, boot_id)) return kOperatingSystem;
  driver.gpu_count = 0;
  ChooseDevices();
  if (driver.instance.is_there == 0) DropDivided();
  if (driver.gpu_count == 0) return kNoDevice;
  return TakeSlot() ? kSuccess : kOperatingSystem;
}

CudaProcess& MySlot() { return driver.file->processes[driver.slot]; }
CudaUse& MyUse(Device device) { return MySlot().uses[driver.gpus[device]]; }
const WorldFacts& FactsOf(Device device) { return driver.world->gpus[driver.gpus[device]].facts; }

Return TakeMemory(Device device, size_t bytes, bool is_residual) {
  const unsigned gpu = driver.gpus[device];
  if (IsLost(gpu)) return kUnknown;
  const uint64_t total = TotalOf(gpu);
  LockShared(driver.file->lock);
  uint64_t used = UsedOf(gpu);
  if (used > total || bytes > total - used) {
    DropDead();
    used = UsedOf(gpu);
  }
  const bool fits = used <= total && bytes <= total - used;
  if (fits) (is_residual ? MyUse(device).residual : MyUse(device).memory) += bytes;
  UnlockShared(driver.file->lock);
  return fits ? kSuccess : kOutOfMemory;
}

void GiveMemory(Device device, size_t bytes, bool is_residual) {
  LockShared(driver.file->lock);
  (is_residual ? MyUse(device).residual : MyUse(device).memory) -= bytes;
  UnlockShared(driver.file->lock);
}

void ReadMemory(Device device, size_t& free_bytes, size_t& total) {
  const unsigned gpu = driver.gpus[device];
  total = TotalOf(gpu);
  LockShared(driver.file->lock);
  DropDead();
  const uint64_t used = UsedOf(gpu);
  UnlockShared(driver.file->lock);
  free_bytes = used < total ? total - used : 0;
}

Faults FaultsOf(Device device) {
  Faults all = driver.faults;
  const emulation::CudaFaults& shared = driver.file->gpus[driver.gpus[device]].faults;
  const uint64_t rate = __atomic_load_n(&shared.copy_rate, __ATOMIC_RELAXED);
  if (rate != 0) all.copy_rate = rate;
  if (shared.refuse_checkpoint != 0) all.refuse_checkpoint = true;
  if (shared.refuse_restore != 0) all.refuse_restore = true;
  return all;
}

bool IsFailingAllocation(Device device) {
  ++driver.allocations;
  if (driver.allocations == driver.faults.out_of_memory_at) return true;
  uint64_t& left = driver.file->gpus[driver.gpus[device]].faults.out_of_memory_at;
  uint64_t seen = __atomic_load_n(&left, __ATOMIC_RELAXED);
  while (seen != 0) {
    if (__atomic_compare_exchange_n(&left, &seen, seen - 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
      return seen == 1;
    }
  }
  return false;
}

unsigned TakeStickyFault(Device device) {
  if (driver.faults.sticky_error != 0) {
    const unsigned error = driver.faults.sticky_error;
    driver.faults.sticky_error = 0;
    return error;
  }
  uint32_t& fault = driver.file->gpus[driver.gpus[device]].faults.sticky_error;
  if (__atomic_load_n(&fault, __ATOMIC_RELAXED) == 0) return 0;
  return __atomic_exchange_n(&fault, 0U, __ATOMIC_RELAXED);
}

}  // namespace divvy::cuda
