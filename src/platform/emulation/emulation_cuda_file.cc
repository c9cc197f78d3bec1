#include "platform/emulation/emulation_cuda_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <tuple>

#include "platform/emulation/emulation_cuda.h"
#include "platform/gpu/gpu_process.h"

namespace divvy {
namespace {

using emulation::CudaFile;
using emulation::CudaProcess;

struct Unmap {
  void operator()(CudaFile* file) const { munmap(file, sizeof(CudaFile)); }
};
using MappedFile = std::unique_ptr<CudaFile, Unmap>;

std::string ReadBootId() {
  std::string id(emulation::kBootIdLength, '\0');
  const int fd = open(emulation::kBootIdFile, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return id;
  if (read(fd, id.data(), id.size()) < 0) id.assign(id.size(), '\0');
  close(fd);
  return id;
}

Result<MappedFile> MapCudaFile(const std::string& directory) {
  const std::string path = directory + "/" + emulation::kWorldFile + emulation::kCudaSuffix;
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) {
    return NotFound("no emulated GPUs at " + path + " (" + std::strerror(errno) +
                    "): start with divvy up --emulate 8xH100-80GB");
  }
  struct stat about {};
  void* mapped = MAP_FAILED;
  if (fstat(fd, &about) == 0 && about.st_size == static_cast<off_t>(sizeof(CudaFile))) {
    mapped = mmap(nullptr, sizeof(CudaFile), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  close(fd);
  MappedFile file(mapped == MAP_FAILED ? nullptr : static_cast<CudaFile*>(mapped));
  if (file == nullptr || !emulation::IsCurrentCudaFile(*file, ReadBootId().c_str())) {
    return CorruptData(path + " is from another version or an earlier boot: start divvy up --emulate again");
  }
  return file;
}

bool IsThere(const CudaProcess& process) {
  const auto stat = ReadGpuProcessStat(process.pid);
  if (!stat || stat->state == 'Z' || stat->start_ticks != process.start_ticks) return false;
  // The driver's own thread is gone if the process has executed another program.
  const std::string thread = "/proc/" + std::to_string(process.pid) + "/task/" + std::to_string(process.service_thread);
  return process.service_thread == 0 || access(thread.c_str(), F_OK) == 0;
}

}  // namespace

std::optional<std::string> FreshCudaFile(std::string_view old) {
  const std::string boot_id = ReadBootId();
  const auto file = std::make_unique<CudaFile>();
  if (old.size() == sizeof(CudaFile)) {
    std::memcpy(static_cast<void*>(file.get()), old.data(), sizeof(CudaFile));
    if (emulation::IsCurrentCudaFile(*file, boot_id.c_str())) return std::nullopt;
    std::memset(static_cast<void*>(file.get()), 0, sizeof(CudaFile));
  }
  emulation::InitialiseCudaFile(*file, boot_id.c_str());
  return std::string(reinterpret_cast<const char*>(file.get()), sizeof(CudaFile));
}

Result<std::vector<EmulatedUse>> ReadEmulatedUses(const std::string& directory) {
  DIVVY_TRY(const MappedFile file, MapCudaFile(directory));
  std::vector<EmulatedUse> uses;
  for (const CudaProcess& process : file->processes) {
    if (process.pid == 0 || !IsThere(process)) continue;
    for (GpuIndex gpu = 0; gpu < emulation::kMaxGpus; ++gpu) {
      const emulation::CudaUse& use = process.uses[gpu];
      if (use.memory == 0 && use.residual == 0 && use.busy_ns == 0) continue;
      uses.push_back({gpu, process.pid, Bytes(static_cast<std::int64_t>(use.memory)),
                      Bytes(static_cast<std::int64_t>(use.residual)), static_cast<std::int64_t>(use.busy_ns)});
    }
  }
  std::ranges::sort(uses, {}, [](const EmulatedUse& use) { return std::tuple(use.gpu, use.pid); });
  return uses;
}

Status SetCudaFault(const std::string& directory, GpuIndex gpu, std::string_view fault, std::uint64_t value) {
  DIVVY_TRY(const MappedFile file, MapCudaFile(directory));
  if (gpu >= emulation::kMaxGpus) return InvalidArgument("there is no emulated GPU " + std::to_string(gpu));
  emulation::CudaFaults& faults = file->gpus[gpu].faults;
  const auto narrow = static_cast<std::uint32_t>(value);
  if (fault == "oom-at") {
    __atomic_store_n(&faults.out_of_memory_at, value, __ATOMIC_RELAXED);
  } else if (fault == "copy-rate") {
    __atomic_store_n(&faults.copy_rate, value, __ATOMIC_RELAXED);
  } else if (fault == "sticky") {
    __atomic_store_n(&faults.sticky_error, narrow, __ATOMIC_RELAXED);
  } else if (fault == "refuse-checkpoint") {
    __atomic_store_n(&faults.refuse_checkpoint, narrow, __ATOMIC_RELAXED);
  } else if (fault == "refuse-restore") {
    __atomic_store_n(&faults.refuse_restore, narrow, __ATOMIC_RELAXED);
  } else if (fault == "none") {
    faults = {};
  } else {
    return InvalidArgument("\"" + std::string(fault) +
                           "\" is not a CUDA fault: expected oom-at, copy-rate, sticky, refuse-checkpoint, "
                           "refuse-restore or none");
  }
  return {};
}

}  // namespace divvy
