#include "keeper/drivers/gpu_watch.h"

#include <fcntl.h>
#include <unistd.h>

#include <utility>

#include "platform/gpu/gpu_probe.h"
#include "platform/gpu/tenant_shm.h"
#include "platform/os/process_tree.h"
#include "platform/os/unique_fd.h"

namespace divvy::keeper {
namespace {

constexpr auto kBetweenGpuLooks = std::chrono::seconds(1);
constexpr std::size_t kMostEnvironment = std::size_t{1} << 20;
constexpr int kMostAncestors = 64;

std::string FolderOf(std::int64_t pid) {
  const Descriptor file(::open(("/proc/" + std::to_string(pid) + "/environ").c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) return "";
  std::string text;
  char bytes[8192];
  for (ssize_t size = 0; text.size() < kMostEnvironment && (size = ::read(file.get(), bytes, sizeof bytes)) > 0;)
    text.append(bytes, static_cast<std::size_t>(size));
  const std::string name = '\0' + std::string(share::kFolderVariable) + "=";
  text.insert(text.begin(), '\0');
  const std::size_t at = text.find(name);
  if (at == std::string::npos) return "";
  const std::size_t begin = at + name.size();
  return text.substr(begin, text.find('\0', begin) - begin);
}

std::vector<std::int64_t> AncestorsOf(std::int64_t pid) {
  std::vector<std::int64_t> ancestors;
  for (int i = 0; i < kMostAncestors; ++i) {
    const auto stat = ReadProcessStat(static_cast<pid_t>(pid));
    if (!stat || stat->parent <= 1) break;
    ancestors.push_back(pid = stat->parent);
  }
  return ancestors;
}

}  // namespace

struct GpuWatch::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  EventLoop* loop = nullptr;  // Null: results are no longer wanted.
  std::function<void(std::vector<GpuSight>)> seen;
  GpuSet gpus;
};

GpuWatch::GpuWatch(EventLoop& loop, std::string library, std::function<void(std::vector<GpuSight>)> seen)
    : shared_(std::make_shared<Shared>()) {
  shared_->loop = &loop;
  shared_->seen = std::move(seen);
  // The thread is detached, because it may be inside a driver call that never returns. It keeps the shared state alive
  // itself.
  std::thread([shared = shared_, library = std::move(library)] {
    std::unique_ptr<GpuProbe> probe;
    for (;;) {
      GpuSet gpus;
      {
        std::unique_lock lock(shared->mutex);
        shared->changed.wait(lock, [&] { return shared->loop == nullptr || !shared->gpus.empty(); });
        if (shared->loop == nullptr) return;
        gpus = shared->gpus;
      }
      if (probe == nullptr) {
        auto opened = OpenNvml(library);
        if (opened) probe = *std::move(opened);
      }
      std::vector<GpuSight> sights;
      if (probe != nullptr) {
        for (const GpuObservation& look : probe->Observe(gpus, true, {})) {
          if (!look.is_present) continue;
          GpuSight& sight = sights.emplace_back();
          sight.gpu = look.index;
          sight.memory_used = look.memory_used;
          sight.utilisation_percent = look.utilisation_percent;
          for (const GpuProcess& process : look.processes) {
            const std::int64_t pid = process.identity.pid;
            sight.processes.push_back({pid, process.identity.start_ticks, process.uid, process.memory_used,
                                       process.gpu_instance, FolderOf(pid), AncestorsOf(pid)});
          }
        }
      }
      std::unique_lock lock(shared->mutex);
      if (shared->loop == nullptr) return;
      if (!sights.empty()) {
        shared->loop->Post([shared, sights = std::move(sights)] { shared->seen(sights); });
      }
      shared->changed.wait_for(lock, kBetweenGpuLooks, [&] { return shared->loop == nullptr; });
    }
  }).detach();
}

GpuWatch::~GpuWatch() {
  const std::lock_guard lock(shared_->mutex);
  shared_->loop = nullptr;
  shared_->changed.notify_all();
}

void GpuWatch::LookAt(GpuSet gpus) {
  const std::lock_guard lock(shared_->mutex);
  shared_->gpus = gpus;
  shared_->changed.notify_all();
}

}  // namespace divvy::keeper
