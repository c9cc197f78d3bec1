// The process that makes the driver's checkpoint calls (driver_helper.h). It has no other task, stores nothing and may
// be killed at any moment; the state of a tenant's process is queried from the driver.
#include <dlfcn.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "base/text.h"
#include "keeper/drivers/driver_helper.h"
#include "keeper/drivers/gpu_map.h"
#include "platform/gpu/cuda_api.h"

namespace divvy::keeper {
namespace {

class Driver {
 public:
  /// Loads and initialises the library. Returns "" or the error.
  std::string Load(const std::string& path) {
    const std::string name = path.empty() ? "libcuda.so.1" : path;
    library_ = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) return "there is no driver library: " + std::string(::dlerror());
    Find(init_, "cuInit");
    Find(error_string_, "cuGetErrorString");
    Find(count_, "cuDeviceGetCount");
    Find(device_, "cuDeviceGet");
    Find(uuid_, "cuDeviceGetUuid_v2");
    if (uuid_ == nullptr) Find(uuid_, "cuDeviceGetUuid");
    Find(version_, "cuDriverGetVersion");
    Find(state_, "cuCheckpointProcessGetState");
    Find(lock_, "cuCheckpointProcessLock");
    Find(checkpoint_, "cuCheckpointProcessCheckpoint");
    Find(restore_, "cuCheckpointProcessRestore");
    Find(unlock_, "cuCheckpointProcessUnlock");
    if (init_ == nullptr || version_ == nullptr || count_ == nullptr || device_ == nullptr || uuid_ == nullptr)
      return name + " is no CUDA driver";
    if (state_ == nullptr || lock_ == nullptr || checkpoint_ == nullptr || restore_ == nullptr || unlock_ == nullptr)
      return "the driver has no checkpoint calls; they need R570 or later";
    if (const cuda::Return result = init_(0); result != cuda::kSuccess) return "starting CUDA: " + Text(result);
    return "";
  }

  std::string Obey(const std::vector<std::string_view>& words) {
    if (words[0] == "probe") return Probe();
    const std::optional<std::int64_t> number = words.size() > 1 ? ParseInteger(words[1]) : std::nullopt;
    if (!number || *number <= 0) return "error a process was expected";
    const int pid = static_cast<int>(*number);
    if (words[0] == "state") return State(pid);
    if (words[0] == "lock" && words.size() == 3) {
      cuda::CheckpointLock options{};
      options.timeout_ms = static_cast<unsigned>(ParseInteger(words[2]).value_or(0));
      return Ended(lock_(pid, &options));
    }
    if (words[0] == "checkpoint") return Ended(checkpoint_(pid, nullptr));
    if (words[0] == "unlock") return Ended(unlock_(pid, nullptr));
    if (words[0] == "restore") return Restore(pid, words);
    return "error " + std::string(words[0]) + " is no call";
  }

 private:
  template <typename Function>
  void Find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(::dlsym(library_, name));
  }

  std::string Text(cuda::Return result) const {
    const char* text = nullptr;
    if (error_string_ != nullptr) error_string_(result, &text);
    return (text != nullptr ? std::string(text) : "an unknown error") + " (" + std::to_string(result) + ")";
  }
  std::string Ended(cuda::Return result) const { return result == cuda::kSuccess ? "ok" : "error " + Text(result); }

  std::string Probe() const {
    int version = 0;
    if (const cuda::Return result = version_(&version); result != cuda::kSuccess) return "error " + Text(result);
    return version >= 13'000 ? "ok map" : "ok";
  }

  std::string State(int pid) const {
    cuda::ProcessState state{};
    const cuda::Return result = state_(pid, &state);
    // A process that is unknown to the driver has nothing on a GPU.
    return result == cuda::kSuccess ? "ok " + std::to_string(static_cast<int>(state)) : "ok gone";
  }

  std::string Restore(int pid, const std::vector<std::string_view>& words) const {
    std::vector<std::pair<GpuUuid, GpuUuid>> wanted;
    for (std::size_t i = 2; i < words.size(); ++i) {
      const std::size_t equals = words[i].find('=');
      if (equals == std::string_view::npos) return "error OLD=NEW was expected";
      const auto from = ParseGpuUuid(words[i].substr(0, equals));
      const auto to = ParseGpuUuid(words[i].substr(equals + 1));
      if (!from || !to) return "error no GPU has the name " + std::string(words[i]);
      wanted.emplace_back(*from, *to);
    }
    std::vector<GpuUuid> all;
    int count = 0;
    count_(&count);
    for (int i = 0; i < count; ++i) {
      cuda::Device device = 0;
      cuda::Uuid uuid{};
      if (device_(&device, i) != cuda::kSuccess || uuid_(&uuid, device) != cuda::kSuccess) continue;
      std::memcpy(all.emplace_back().data(), uuid.bytes, sizeof uuid.bytes);
    }
    const auto map = CompleteGpuMap(all, wanted);
    if (!map) return "error " + map.error().message;
    std::vector<cuda::GpuPair> pairs(map->size());
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      std::memcpy(pairs[i].from.bytes, (*map)[i].first.data(), sizeof pairs[i].from.bytes);
      std::memcpy(pairs[i].to.bytes, (*map)[i].second.data(), sizeof pairs[i].to.bytes);
    }
    cuda::CheckpointRestore options{};
    options.pairs = pairs.data();
    options.pair_count = static_cast<unsigned>(pairs.size());
    return Ended(restore_(pid, pairs.empty() ? nullptr : &options));
  }

  void* library_ = nullptr;
  decltype(&cuda::cuInit) init_ = nullptr;
  decltype(&cuda::cuGetErrorString) error_string_ = nullptr;
  decltype(&cuda::cuDriverGetVersion) version_ = nullptr;
  decltype(&cuda::cuDeviceGetCount) count_ = nullptr;
  decltype(&cuda::cuDeviceGet) device_ = nullptr;
  decltype(&cuda::cuDeviceGetUuid_v2) uuid_ = nullptr;
  decltype(&cuda::cuCheckpointProcessGetState) state_ = nullptr;
  decltype(&cuda::cuCheckpointProcessLock) lock_ = nullptr;
  decltype(&cuda::cuCheckpointProcessCheckpoint) checkpoint_ = nullptr;
  decltype(&cuda::cuCheckpointProcessRestore) restore_ = nullptr;
  decltype(&cuda::cuCheckpointProcessUnlock) unlock_ = nullptr;
};

void Say(int fd, std::string line) {
  for (char& c : line) {
    if (c == '\n') c = ' ';
  }
  line += '\n';
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t sent = ::write(fd, rest.data(), rest.size());
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) _exit(1);
    rest.remove_prefix(static_cast<std::size_t>(sent));
  }
}

}  // namespace

int CheckpointHelperMain(int fd, const std::string& library) {
  // The helper process must see all GPUs, even if the node's agent was started with CUDA_VISIBLE_DEVICES.
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  Driver driver;
  const std::string why_not = driver.Load(library);
  std::string read;
  for (;;) {
    char bytes[4096];
    const ssize_t size = ::read(fd, bytes, sizeof bytes);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return 0;
    read.append(bytes, static_cast<std::size_t>(size));
    for (std::size_t end = read.find('\n'); end != std::string::npos; end = read.find('\n')) {
      const std::vector<std::string_view> words = SplitWords(std::string_view(read).substr(0, end));
      if (!why_not.empty()) {
        Say(fd, "error " + why_not);
      } else {
        Say(fd, words.empty() ? "error a call was expected" : driver.Obey(words));
      }
      read.erase(0, end + 1);
    }
  }
}

}  // namespace divvy::keeper
