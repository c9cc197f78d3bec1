#include "platform/memory_cgroup.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/text.h"
#include "platform/launch_descriptor.h"

namespace divvy {
namespace {

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

}  // namespace

std::optional<MemoryCgroupRoot> FindMemoryCgroupRoot() {
  if (::geteuid() != 0) return std::nullopt;
  const std::string mounts = ReadFile("/proc/self/mounts");
  for (const std::string_view line : Split(mounts, '\n')) {
    const auto words = SplitWords(line);
    if (words.size() < 4) continue;
    const bool is_v1 = words[2] == "cgroup" && HasWord(words[3], ',', "memory");
    const std::string directory(words[1]);
    const bool is_v2 = words[2] == "cgroup2" && HasWord(ReadFile(directory + "/cgroup.controllers"), ' ', "memory");
    if ((is_v1 || is_v2) && ::access(directory.c_str(), W_OK) == 0) {
      return MemoryCgroupRoot{.directory = directory, .is_unified = is_v2};
    }
  }
  return std::nullopt;
}

bool CanEnforceMemory() { return FindMemoryCgroupRoot().has_value(); }

Result<MemoryCgroup> MemoryCgroup::Create(const MemoryCgroupRoot& root, std::string_view run_directory,
                                          std::string_view name, Bytes limit) {
  const std::string parent = root.directory + "/" + HashName(run_directory);
  MemoryCgroup group;
  group.is_unified_ = root.is_unified;
  group.directory_ = parent + "/" + std::string(name);
  const auto failed = [&](const std::string& path) {
    return Internal("cannot limit memory through '" + path + "': " + std::strerror(errno));
  };
  if (root.is_unified) WriteFile(root.directory + "/cgroup.subtree_control", "+memory");
  ::rmdir(group.directory_.c_str());  // A leftover would bring its old counts along.
  // Whoever removes the last job's cgroup removes the parent, perhaps just now.
  bool is_made = false;
  for (int tries = 0; tries < 10 && !is_made; ++tries) {
    if (::mkdir(parent.c_str(), 0755) != 0 && errno != EEXIST) return failed(parent);
    if (root.is_unified) WriteFile(parent + "/cgroup.subtree_control", "+memory");
    is_made = ::mkdir(group.directory_.c_str(), 0755) == 0 || errno == EEXIST;
    if (!is_made && errno != ENOENT) break;
  }
  if (!is_made) return failed(group.directory_);
  const std::string bytes = std::to_string(limit.count());
  const std::string limit_file = group.directory_ + (root.is_unified ? "/memory.max" : "/memory.limit_in_bytes");
  if (!WriteFile(limit_file, bytes)) {
    const Error error = failed(limit_file);
    group.Remove();
    return error;
  }
  // Swap would only hide the limit; not every kernel accounts it, so a failure here is none.
  WriteFile(group.directory_ + (root.is_unified ? "/memory.swap.max" : "/memory.memsw.limit_in_bytes"),
            root.is_unified ? "0" : bytes);
  return group;
}

MemoryCgroup MemoryCgroup::Open(const MemoryCgroupRoot& root, const std::string& directory) {
  MemoryCgroup group;
  group.directory_ = directory;
  group.is_unified_ = root.is_unified;
  return group;
}

bool MemoryCgroup::SawOutOfMemoryKill() const {
  return ReadOutOfMemoryKills(directory_ + (is_unified_ ? "/memory.events" : "/memory.oom_control")) > 0;
}

Bytes MemoryCgroup::Peak() const {
  const std::string text = ReadFile(directory_ + (is_unified_ ? "/memory.peak" : "/memory.max_usage_in_bytes"));
  return Bytes(ParseInteger(Trim(Split(text, '\n').front())).value_or(0));
}

void MemoryCgroup::Remove() const {
  ::rmdir(directory_.c_str());
  ::rmdir(directory_.substr(0, directory_.rfind('/')).c_str());  // Fails, and is meant to, while others are in it.
}

}  // namespace divvy
