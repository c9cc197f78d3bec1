#include "platform/isolation/job_cgroup.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/text.h"
#include "platform/isolation/device_program.h"
#include "platform/os/unique_fd.h"

namespace divvy {
namespace {

// The kernel's names of the controllers, in the order of CgroupController.
constexpr std::array<std::string_view, kCgroupControllers> kKernelNames = {"memory", "cpuset", "pids", "cpu",
                                                                           "devices"};
constexpr std::array<std::string_view, kCgroupControllers> kNames = {"memory", "cores", "processes", "CPU time",
                                                                     "devices"};

std::string ReadFile(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  char block[4096];
  ssize_t size = 0;
  while (file.is_open() && (size = ::read(file.get(), block, sizeof block)) > 0) {
    text.append(block, static_cast<std::size_t>(size));
  }
  return text;
}

bool WriteFile(const std::string& path, std::string_view text) {
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  return file.is_open() && ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

bool IsThere(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

bool HasWord(std::string_view text, char separator, std::string_view word) {
  for (const std::string_view part : Split(Trim(text), separator)) {
    if (Trim(part) == word) return true;
  }
  return false;
}

// The number after "oom_kill " in memory.oom_control (v1) or memory.events (v2); both have such a line.
std::int64_t ReadOutOfMemoryKills(const std::string& path) {
  const std::string text = ReadFile(path);
  for (const std::string_view line : Split(text, '\n')) {
    const auto words = SplitWords(line);
    if (words.size() == 2 && words[0] == "oom_kill") return ParseInteger(words[1]).value_or(0);
  }
  return 0;
}

// FNV-1a, 32 bits: short, stable across runs, and only ever compared with itself.
std::string HashName(std::string_view text) {
  std::uint32_t hash = 2166136261U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  char name[16];
  std::snprintf(name, sizeof name, "divvy-%08x", hash);
  return name;
}

Error CgroupError(std::string_view what, const std::string& path) {
  return Internal("cannot " + std::string(what) + " through '" + path + "': " + std::strerror(errno));
}

// A v1 cpuset accepts no process before both files are set, and inherits neither. So copies the values of the parent.
void InheritCores(const std::string& parent, const std::string& directory) {
  for (const std::string_view name : {"/cpuset.cpus", "/cpuset.mems"}) {
    WriteFile(directory + std::string(name), Trim(ReadFile(parent + std::string(name))));
  }
}

// Enables the controllers that the parent of a job's cgroup must pass on. "+cpu" makes jobs share the processors
// evenly, however many threads they have, so it is enabled only on request.
void Prepare(const CgroupRoot& root, const std::string& parent, bool limits_cpus) {
  if (root.is_unified) {
    for (const std::string& above : {root.directory, parent}) {
      for (const std::string_view name : {"+memory", "+cpuset", "+pids", "+cpu"}) {
        if (name == "+cpu" && !limits_cpus) continue;
        // Controllers are enabled one at a time: an unavailable one would make a common write fail.
        WriteFile(above + "/cgroup.subtree_control", name);
      }
    }
  } else if (IsThere(parent + "/cpuset.cpus")) {
    InheritCores(root.directory, parent);
  }
}

// Creates ROOT/PARENT/NAME. Retries, because another process that removes the last cgroup in the parent also removes
// the parent. `is_for_program`: no controller is needed.
Status Make(const CgroupRoot& root, const std::string& parent, const std::string& directory, bool is_for_program,
            bool limits_cpus) {
  ::rmdir(directory.c_str());  // A leftover cgroup would keep its old counters.
  for (int tries = 0; tries < 10; ++tries) {
    if (::mkdir(parent.c_str(), 0755) != 0 && errno != EEXIST) return CgroupError("limit the job", parent);
    if (!is_for_program) Prepare(root, parent, limits_cpus);
    if (::mkdir(directory.c_str(), 0755) == 0 || errno == EEXIST) return {};
    if (errno != ENOENT) break;
  }
  return CgroupError("limit the job", directory);
}

Status LimitMemory(const CgroupRoot& root, const std::string& directory, Bytes limit) {
  const std::string bytes = std::to_string(limit.count());
  const std::string file = directory + (root.is_unified ? "/memory.max" : "/memory.limit_in_bytes");
  if (!WriteFile(file, bytes)) return CgroupError("limit memory", file);
  // Forbids swap, because a job could exceed its memory limit by swapping. Not every kernel counts swap, so a failure
  // is ignored.
  WriteFile(directory + (root.is_unified ? "/memory.swap.max" : "/memory.memsw.limit_in_bytes"),
            root.is_unified ? "0" : bytes);
  return {};
}

Status LimitCores(const CgroupRoot& root, const std::string& directory, const std::string& cores) {
  if (!root.is_unified) InheritCores(directory.substr(0, directory.rfind('/')), directory);
  if (!WriteFile(directory + "/cpuset.cpus", cores)) return CgroupError("limit cores", directory + "/cpuset.cpus");
  return {};
}

Status LimitProcesses(const std::string& directory, std::int64_t most) {
  if (!WriteFile(directory + "/pids.max", std::to_string(most))) {
    return CgroupError("limit processes", directory + "/pids.max");
  }
  return {};
}

// Limits the CPU time of the cgroup: processes that have used up the quota of one period wait for the next period.
Status LimitTime(const CgroupRoot& root, const std::string& directory, int cpus) {
  constexpr std::int64_t kPeriodMicroseconds = 100'000;
  const std::string quota = std::to_string(cpus * kPeriodMicroseconds);
  const std::string file = directory + (root.is_unified ? "/cpu.max" : "/cpu.cfs_quota_us");
  const std::string period = std::to_string(kPeriodMicroseconds);
  if (!root.is_unified) WriteFile(directory + "/cpu.cfs_period_us", period);
  if (!WriteFile(file, root.is_unified ? quota + " " + period : quota)) return CgroupError("limit CPU time", file);
  return {};
}

Status CloseByController(const std::string& directory, std::span<const DeviceNumber> closed) {
  for (const DeviceNumber& device : closed) {
    const std::string rule = "c " + std::to_string(device.major) + ":" + std::to_string(device.minor) + " rwm";
    if (!WriteFile(directory + "/devices.deny", rule))
      return CgroupError("close a device", directory + "/devices.deny");
  }
  return {};
}

Status Limit(CgroupController controller, const CgroupRoot& root, const std::string& directory,
             const CgroupLimits& limits) {
  switch (controller) {
    case CgroupController::kMemory:
      return LimitMemory(root, directory, limits.memory);
    case CgroupController::kCores:
      return LimitCores(root, directory, limits.cores);
    case CgroupController::kProcesses:
      return LimitProcesses(directory, limits.processes);
    case CgroupController::kCpu:
      return LimitTime(root, directory, limits.cpus);
    case CgroupController::kDevices:
      break;
  }
  const std::vector<DeviceNumber> closed = DeviceNumbers(limits.closed_devices);
  return root.is_unified ? CloseDevices(directory, closed) : CloseByController(directory, closed);
}

bool Needs(const CgroupLimits& limits, CgroupController controller) {
  switch (controller) {
    case CgroupController::kMemory:
      return limits.memory > Bytes(0);
    case CgroupController::kCores:
      return !limits.cores.empty();
    case CgroupController::kProcesses:
      return limits.processes > 0;
    case CgroupController::kCpu:
      return limits.cpus > 0;
    case CgroupController::kDevices:
      break;
  }
  return !limits.closed_devices.empty();
}

}  // namespace

CgroupRoots CgroupRoots::Find(std::string_view mounts) {
  CgroupRoots found;
  if (::geteuid() != 0) return found;
  for (const std::string_view line : Split(mounts, '\n')) {
    const auto words = SplitWords(line);
    if (words.size() < 4) continue;
    const std::string directory(words[1]);
    const bool is_unified = words[2] == "cgroup2";
    if ((!is_unified && words[2] != "cgroup") || ::access(directory.c_str(), W_OK) != 0) continue;
    const std::string controllers = is_unified ? ReadFile(directory + "/cgroup.controllers") : "";
    for (std::size_t i = 0; i < kCgroupControllers; ++i) {
      const bool is_devices = static_cast<CgroupController>(i) == CgroupController::kDevices;
      const bool has_it = is_unified ? is_devices || HasWord(controllers, ' ', kKernelNames[i])
                                     : HasWord(words[3], ',', kKernelNames[i]);
      if (!has_it) continue;
      auto& root = is_devices && !is_unified ? found.device_controller_ : found.roots_[i];
      if (!root) root = CgroupRoot{.directory = directory, .is_unified = is_unified};
    }
  }
  // A controller that denies all devices by default (in a container) cannot deny one of its exceptions again.
  if (found.device_controller_ &&
      !Trim(ReadFile(found.device_controller_->directory + "/devices.list")).starts_with("a *:* rwm")) {
    found.device_controller_.reset();
  }
  return found;
}

CgroupRoots CgroupRoots::Find() { return Find(ReadFile("/proc/self/mounts")); }

std::string CgroupRoots::Text() const {
  std::string out;
  for (const bool is_unified : {false, true}) {
    std::string names;
    for (std::size_t i = 0; i < kCgroupControllers; ++i) {
      const bool is_devices = static_cast<CgroupController>(i) == CgroupController::kDevices;
      if (is_devices || !roots_[i] || roots_[i]->is_unified != is_unified) continue;
      names += (names.empty() ? "" : ", ") + std::string(kNames[i]);
    }
    if (!names.empty()) out += (out.empty() ? "" : "; ") + names + " by cgroup v" + (is_unified ? "2" : "1");
  }
  return out;
}

bool CanEnforceMemory() { return CgroupRoots::Find().of(CgroupController::kMemory).has_value(); }

Result<JobCgroup> JobCgroup::Create(const CgroupRoots& roots, std::string_view run_directory, std::string_view name,
                                    const CgroupLimits& limits) {
  JobCgroup group;
  // Creates the cgroup in this hierarchy once. The device program of v2 needs no controller.
  const auto make = [&](const CgroupRoot& root, bool is_devices, std::string& directory) -> Status {
    const std::string parent = root.directory + "/" + HashName(run_directory);
    directory = parent + "/" + std::string(name);
    if (std::ranges::find(group.directories_, directory) != group.directories_.end()) return {};
    DIVVY_CHECK(Make(root, parent, directory, is_devices && root.is_unified, limits.cpus > 0));
    group.directories_.push_back(directory);
    return {};
  };
  std::string directory;
  if (const auto& unified = roots.of(CgroupController::kDevices); limits.is_killable && unified)
    DIVVY_CHECK(make(*unified, true, directory));
  for (std::size_t i = 0; i < kCgroupControllers; ++i) {
    const auto controller = static_cast<CgroupController>(i);
    if (!Needs(limits, controller)) continue;
    const bool is_devices = controller == CgroupController::kDevices;
    const auto& root = is_devices && limits.uses_device_controller ? roots.device_controller() : roots.of(controller);
    if (!root && !is_devices) continue;
    Status done = FailedPrecondition("this node has no cgroup that can deny devices; see [isolation] in divvy.toml");
    if (root) {
      done = make(*root, is_devices, directory);
      if (done) done = Limit(controller, *root, directory, limits);
    }
    if (!done) {
      group.Remove();
      return done.error();
    }
  }
  return group;
}

JobCgroup JobCgroup::Open(std::string_view text) {
  JobCgroup group;
  for (const std::string_view directory : SplitWords(text)) group.directories_.emplace_back(directory);
  return group;
}

std::string JobCgroup::text() const {
  std::string out;
  for (const std::string& directory : directories_) out += (out.empty() ? "" : " ") + directory;
  return out;
}

std::vector<std::string> JobCgroup::procs_files() const {
  std::vector<std::string> files;
  for (const std::string& directory : directories_) files.push_back(directory + "/cgroup.procs");
  return files;
}

bool JobCgroup::SawOutOfMemoryKill() const {
  return std::ranges::any_of(directories_, [](const std::string& directory) {
    return ReadOutOfMemoryKills(directory + "/memory.events") > 0 ||
           ReadOutOfMemoryKills(directory + "/memory.oom_control") > 0;
  });
}

Bytes JobCgroup::Peak() const {
  for (const std::string& directory : directories_) {
    for (const std::string_view name : {"/memory.peak", "/memory.max_usage_in_bytes"}) {
      const std::string text = ReadFile(directory + std::string(name));
      if (!text.empty()) return Bytes(ParseInteger(Trim(Split(text, '\n').front())).value_or(0));
    }
  }
  return Bytes(0);
}

std::optional<std::int64_t> JobCgroup::RefusedDevices() const {
  for (const std::string& directory : directories_) {
    if (!IsThere(directory + "/cgroup.max.depth")) continue;  // Only v2 has this file.
    if (const auto count = RefusedOpens(directory)) return count;
  }
  return std::nullopt;
}

bool JobCgroup::Kill() const {
  return std::ranges::any_of(directories_,
                             [](const std::string& directory) { return WriteFile(directory + "/cgroup.kill", "1"); });
}

bool JobCgroup::Remove() const {
  bool is_gone = true;
  for (const std::string& directory : directories_) {
    if (::rmdir(directory.c_str()) != 0 && errno != ENOENT) is_gone = false;
    ::rmdir(directory.substr(0, directory.rfind('/')).c_str());  // Fails, as intended, while other cgroups are in it.
  }
  return is_gone;
}

void JobCgroup::End(std::chrono::milliseconds timeout) const {
  constexpr std::chrono::milliseconds kPause{10};
  while (true) {
    // Kernels before 5.14 cannot kill a whole cgroup at once, so each of its processes is killed there.
    for (const std::string& file : Kill() ? std::vector<std::string>() : procs_files()) {
      const std::string pids = ReadFile(file);
      for (const std::string_view line : Split(pids, '\n')) {
        if (const auto pid = ParseInteger(line); pid && *pid > 0) ::kill(static_cast<pid_t>(*pid), SIGKILL);
      }
    }
    if (Remove() || timeout <= kPause) return;
    ::poll(nullptr, 0, static_cast<int>(kPause.count()));
    timeout -= kPause;
  }
}

}  // namespace divvy
