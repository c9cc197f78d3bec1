#include "daemon/node/machine.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <utility>

#include "base/text.h"
#include "daemon/auth/accounts.h"
#include "dialect/config/config.h"
#include "platform/emulation/emulation.h"
#include "platform/net/tls.h"
#include "platform/os/process_tree.h"
#include "version.h"

namespace divvy {
namespace {

/// "debian-12" from ID=debian and VERSION_ID="12".
std::string OsName() {
  const auto text = ReadWhole("/etc/os-release");
  if (!text) return "";
  std::string id, version;
  for (const std::string_view line : Split(*text, '\n')) {
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    std::string value(line.substr(equals + 1));
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"') value = value.substr(1, value.size() - 2);
    if (line.substr(0, equals) == "ID") id = value;
    if (line.substr(0, equals) == "VERSION_ID") version = value;
  }
  return version.empty() ? id : id + "-" + version;
}

/// Replaces the last twelve digits of each GPU's UUID by digits derived from the machine's name, so that emulated GPUs
/// of different machines differ.
void MakeOwn(std::vector<GpuFacts>& gpus, const std::string& machine) {
  constexpr std::size_t kDigits = 12;
  for (GpuFacts& gpu : gpus) {
    if (gpu.uuid.size() <= kDigits) continue;
    gpu.uuid.replace(gpu.uuid.size() - kDigits, kDigits, Sha256Hex(machine + " " + gpu.uuid).substr(0, kDigits));
  }
}

// Returns true if a SIGKILL is pending for the process, which has not run since.
bool IsBeingKilled(pid_t pid) {
  const auto status = ReadWhole("/proc/" + std::to_string(pid) + "/status");
  constexpr std::string_view kPending = "\nSigPnd:\t";
  const std::size_t at = status ? status->find(kPending) : std::string::npos;
  if (at == std::string::npos) return false;
  const unsigned long long pending = std::strtoull(status->c_str() + at + kPending.size(), nullptr, 16);
  return (pending >> (SIGKILL - 1) & 1) != 0;
}

// Returns true if the process that a lock file names is gone or is ending.
bool IsEnding(const std::string& lock_path) {
  const auto owner = ReadWhole(lock_path);
  const auto pid = owner ? ParseInteger(Trim(*owner)) : std::nullopt;
  if (!pid || *pid <= 0) return false;
  const auto stat = ReadProcessStat(static_cast<pid_t>(*pid));
  if (!stat || stat->state == 'Z' || stat->state == 'X' || stat->is_exiting) return true;
  return IsBeingKilled(static_cast<pid_t>(*pid));
}

// `operation` is LOCK_EX or LOCK_SH. Waits for an owner that was just killed.
bool TakeLock(int fd, const std::string& path, int operation) {
  bool is_locked = ::flock(fd, operation | LOCK_NB) == 0;
  // A process that was just killed keeps its lock until its last thread is gone. Between the signal and its end there
  // is a moment in which neither is visible. So an owner that seems to be alive is checked a second time.
  constexpr int kTries = 200;
  bool has_lived = false;
  for (int i = 0; !is_locked && i < kTries; ++i) {
    const bool is_ending = IsEnding(path);
    if (!is_ending && std::exchange(has_lived, true)) break;
    ::usleep(10'000);
    is_locked = ::flock(fd, operation | LOCK_NB) == 0;
  }
  return is_locked;
}

// Returns "(pid 4711) has /var/lib/divvy", for the owner of this lock file.
std::string OwnerText(const std::string& path) {
  const auto owner = ReadWhole(path);
  return "(pid " + (owner ? std::string(Trim(*owner)) : "?") + ") has " + path.substr(0, path.rfind('/'));
}

std::string EndsItText(std::string_view what) {
  return std::string(what == "agent" ? "divvy agent --stop" : "divvy down") + " ends it";
}

}  // namespace

Status MakeDirectory(const std::string& path, mode_t mode) {
  for (std::size_t at = path.find('/', 1);; at = path.find('/', at + 1)) {
    const std::string part = path.substr(0, at);
    const bool is_last = at == std::string::npos;
    if (::mkdir(part.c_str(), is_last ? mode : 0755) != 0 && errno != EEXIST) {
      return FailedPrecondition("cannot make the directory " + part + ": " + std::strerror(errno));
    }
    if (is_last) return {};
  }
}

Result<std::string> ReadWhole(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return NotFound("cannot read " + path + ": " + std::strerror(errno));
  std::string text;
  char buffer[4096];
  std::size_t got = 0;
  while ((got = std::fread(buffer, 1, sizeof buffer, file)) > 0) text.append(buffer, got);
  std::fclose(file);
  return text;
}

Result<dialect::Config> LoadConfig(const RuntimePaths& places) {
  const auto text = ReadWhole(places.config);
  if (text) {
    return dialect::ParseConfig(*text, places.config);
  }
  if (::access(places.config.c_str(), F_OK) != 0) return dialect::Config();
  return PermissionDenied(text.error().message + "; user " + UserName(::geteuid()) +
                          " (the user that divvy runs as) needs access: chgrp divvy and chmod 640 it, or chmod 644");
}

Status ReplaceFile(const std::string& path, std::string_view text) {
  const std::string fresh = path + "~";
  const auto failed = [&](int error) {
    ::unlink(fresh.c_str());
    return FailedPrecondition("cannot write " + path + ": " + std::strerror(error));
  };
  const int fd = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return failed(errno);
  bool is_good = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && ::fsync(fd) == 0;
  const int error = errno;
  is_good = ::close(fd) == 0 && is_good;
  if (!is_good) return failed(error);
  if (::rename(fresh.c_str(), path.c_str()) != 0) return failed(errno);
  const int directory = ::open(path.substr(0, path.rfind('/') + 1).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory >= 0) {
    ::fsync(directory);
    ::close(directory);
  }
  return {};
}

Result<int> LockFile(const std::string& path, std::string_view what) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return FailedPrecondition("cannot open " + path + ": " + std::strerror(errno));
  if (TakeLock(fd, path, LOCK_EX)) {
    const std::string pid = std::to_string(::getpid()) + "\n";
    if (::ftruncate(fd, 0) == 0) static_cast<void>(!::pwrite(fd, pid.data(), pid.size(), 0));
    return fd;
  }
  ::close(fd);
  return Error{ErrorCode::kAlreadyExists,
               "another " + std::string(what) + " " + OwnerText(path) + "; " + EndsItText(what)};
}

Status ForbidBeside(const std::string& path, std::string_view what) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  const bool is_free = TakeLock(fd, path, LOCK_SH);
  ::close(fd);
  if (is_free) return {};
  const bool is_agent = what == "agent";
  return Error{ErrorCode::kAlreadyExists,
               (is_agent ? "an agent " : "a daemon ") + OwnerText(path) +
                   (is_agent ? ", and its controller gives out this machine's GPUs; "
                             : " and gives out this machine's GPUs itself; agents are for other machines, and ") +
                   EndsItText(what)};
}

void SetServiceSignals() {
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, [](int) {});
}

std::uint64_t RandomSeed() {
  std::uint64_t seed = 0;
  static_cast<void>(!::getrandom(&seed, sizeof seed, 0));
  return seed;
}

std::string OwnPath() {
  std::array<char, 4096> path{};
  const ssize_t size = ::readlink("/proc/self/exe", path.data(), path.size() - 1);
  std::string own(path.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  constexpr std::string_view kDeleted = " (deleted)";
  if (own.ends_with(kDeleted)) own.resize(own.size() - kDeleted.size());
  return own.empty() ? "divvy" : own;
}

std::string HostName() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  const std::string host = name;
  return host.substr(0, host.find('.'));
}

void RaiseFileLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  static_cast<void>(::setrlimit(RLIMIT_NOFILE, &limit));
}

std::string BootId(const RuntimePaths& places) {
  const auto text = ReadWhole(places.boot_id);
  return text ? std::string(Trim(*text)) : "";
}

std::string KeeperDirectory(const std::string& runs) { return runs + "/share"; }

/// The file with the --emulate description of the last start that had emulated GPUs.
std::string LastEmulationPath(const RuntimePaths& places) { return places.state + "/emulate/description"; }

Result<std::string> PrepareEmulation(const std::string& emulate, const std::string& machine,
                                     const std::string& folder) {
  DIVVY_TRY(std::vector<GpuFacts> described, LoadGpuDescription(emulate));
  // The UUIDs in a description file are used as they are.
  if (!machine.empty() && ::access(emulate.c_str(), F_OK) != 0) MakeOwn(described, machine);
  return WriteEmulation(described, folder);
}

Result<GpuSource> OpenGpus(const GpuWishes& wishes, const RuntimePaths& places) {
  const std::string& emulate = wishes.emulate;
  const std::string slices = KeeperDirectory(wishes.runs);
  GpuSource source;
  source.mig = wishes.mig;
  if (!emulate.empty()) {
    const std::string own = places.state + "/emulate";
    const std::string folder = wishes.emulation.empty() ? own : wishes.emulation;
    std::string library = folder + "/" + kEmulatedNvml;
    if (wishes.emulation.empty()) {
      DIVVY_TRY(library, PrepareEmulation(emulate, wishes.machine, folder));
    } else {
      DIVVY_CHECK(MakeDirectory(own, 0755));  // Holds only the description.
    }
    DIVVY_TRY(source.probe, OpenNvml(library, "", wishes.mig, slices));
    source.library = library;
    std::ofstream(LastEmulationPath(places)) << emulate;
    source.text = "emulated: " + emulate;
    source.libraries = folder;
    source.environment = {"DIVVY_EMULATE=" + EmulatedWorldPath(source.libraries)};
  } else {
    auto probe = OpenNvml("", "", wishes.mig, slices);
    if (!probe) {
      const auto last = ReadWhole(LastEmulationPath(places));
      source.text = last && !last->empty() ? "the emulated GPUs of the last start are not in use; divvy up --emulate " +
                                                 *last + " adds them again"
                                           : probe.error().message;
      return source;
    }
    source.probe = *std::move(probe);
    source.text = "NVML (driver " + source.probe->driver() + ")";
  }
  auto facts = source.probe->Facts();
  if (!facts) {
    source.text = facts.error().message;
    source.probe.reset();
    return source;
  }
  source.gpus = *std::move(facts);
  return source;
}

MachineFacts LearnMachine(const GpuSource& gpus, const RuntimePaths& places) {
  MachineFacts facts;
  facts.hostname = HostName();
  facts.boot_id = BootId(places);
  facts.agent_version = kVersion;
  facts.gpu_source = gpus.text;
  facts.gpus = gpus.gpus;
  facts.cpus = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  struct sysinfo system {};
  if (::sysinfo(&system) == 0) facts.memory = Bytes(static_cast<std::int64_t>(system.totalram) * system.mem_unit);
  utsname name{};
  if (::uname(&name) == 0) {
    facts.labels["arch"] = name.machine;
    facts.labels["kernel"] = name.release;
  }
  if (std::string os = OsName(); !os.empty()) facts.labels["os"] = std::move(os);
  return facts;
}

}  // namespace divvy
