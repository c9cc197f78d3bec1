#include "platform/gpu/process_meter.h"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <utility>

#include "base/text.h"
#include "platform/gpu/gpu_process.h"

namespace divvy {
namespace {

constexpr double kScanEvery = 10;
constexpr std::size_t kMostProcesses = 20'000;

// The fields of /proc/PID/stat after the name, which may contain any characters. The first one is field 3 of the file.
struct StatFields {
  explicit StatFields(std::string_view text) : rest(text.substr(std::min(text.rfind(')'), text.size() - 1) + 1)) {}
  std::string_view rest;

  // Skips `skipped` fields and returns the next one.
  std::uint64_t Number(int skipped = 0) {
    for (; skipped >= 0; --skipped) {
      while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
      if (skipped > 0) rest.remove_prefix(std::min(rest.find(' '), rest.size()));
    }
    std::uint64_t number = 0;
    while (!rest.empty() && rest.front() != ' ') {
      if (rest.front() >= '0' && rest.front() <= '9')
        number = number * 10 + static_cast<std::uint64_t>(rest.front() - '0');
      rest.remove_prefix(1);
    }
    return number;
  }
};

}  // namespace

ProcessMeter::ProcessMeter(ReadIo read_io)
    : ticks_per_second_(static_cast<double>(::sysconf(_SC_CLK_TCK))),
      page_(static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE))),
      read_io_(std::move(read_io)) {}

std::uint64_t ProcessMeter::JobOf(std::int64_t pid) const {
  const auto at = jobs_.find(pid);
  return at == jobs_.end() ? 0 : at->second;
}

std::optional<ProcessMeter::Use> ProcessMeter::UseOf(std::int64_t pid) const {
  const auto meters = meters_.find(JobOf(pid));
  if (meters == meters_.end()) return std::nullopt;
  const auto now = meters->second.before.find(pid);
  if (now == meters->second.before.end()) return std::nullopt;
  Use use;
  use.memory_bytes = static_cast<double>(now->second.own_bytes + now->second.shared_bytes);
  const auto then = meters->second.long_before.find(pid);
  if (then == meters->second.long_before.end() || between_looks_ <= 0) return use;
  const auto rate = [&](std::uint64_t Counted::*count) {
    const std::uint64_t since = then->second.*count;
    return static_cast<double>(now->second.*count - std::min(now->second.*count, since)) / between_looks_;
  };
  use.cpu_cores = rate(&Counted::own_ticks) / ticks_per_second_;
  if (!now->second.has_io || !then->second.has_io) return use;
  use.read_bytes_per_second = rate(&Counted::read);
  use.written_bytes_per_second = rate(&Counted::written);
  return use;
}

// Finds the descendants of all roots in one scan of /proc.
void ProcessMeter::Scan(const std::vector<UseTarget>& targets) {
  std::multimap<std::int64_t, std::int64_t> children;
  DIR* const proc = ::opendir("/proc");
  if (proc == nullptr) return;
  char path[64];
  while (const dirent* entry = ::readdir(proc)) {
    const std::int64_t pid = std::atoll(entry->d_name);
    if (pid <= 0 || children.size() >= kMostProcesses) continue;
    std::snprintf(path, sizeof path, "/proc/%lld/stat", static_cast<long long>(pid));
    const std::string_view text = text_.Read(path);
    if (text.empty()) continue;
    StatFields fields(text);
    children.emplace(static_cast<std::int64_t>(fields.Number(1)), pid);
  }
  ::closedir(proc);
  jobs_.clear();
  for (const UseTarget& target : targets) {
    std::vector<std::int64_t> below = target.roots;
    while (!below.empty()) {
      const std::int64_t pid = below.back();
      below.pop_back();
      if (pid <= 0 || !jobs_.emplace(pid, target.job).second) continue;
      const auto [first, last] = children.equal_range(pid);
      for (auto child = first; child != last; ++child) below.push_back(child->second);
    }
  }
}

// Adds the children that the main threads of known processes have started since the last scan.
void ProcessMeter::AddChildren() {
  std::vector<std::pair<std::int64_t, std::uint64_t>> below(jobs_.begin(), jobs_.end());
  char path[64];
  while (!below.empty()) {
    const auto [pid, job] = below.back();
    below.pop_back();
    std::snprintf(path, sizeof path, "/proc/%lld/task/%lld/children", static_cast<long long>(pid),
                  static_cast<long long>(pid));
    for (const std::string_view word : SplitWords(text_.Read(path))) {
      const std::int64_t child = ParseInteger(word).value_or(0);
      if (child > 0 && jobs_.emplace(child, job).second) below.emplace_back(child, job);
    }
  }
}

bool ProcessMeter::Count(std::int64_t pid, Counted& out) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%lld/stat", static_cast<long long>(pid));
  const std::string_view stat = text_.Read(path);
  if (stat.empty()) return false;
  StatFields fields(stat);
  // Counts the process's own ticks and those of children that it has waited for, so that a child's ticks are kept after
  // it has ended.
  out.own_ticks = fields.Number(11);
  out.own_ticks += fields.Number();
  out.ticks = out.own_ticks;
  for (int i = 0; i < 2; ++i) out.ticks += fields.Number();
  std::snprintf(path, sizeof path, "/proc/%lld/statm", static_cast<long long>(pid));
  const std::vector<std::string_view> pages = SplitWords(text_.Read(path));
  if (pages.size() > 2) {
    const auto resident = static_cast<std::uint64_t>(ParseInteger(pages[1]).value_or(0)) * page_;
    out.shared_bytes = static_cast<std::uint64_t>(ParseInteger(pages[2]).value_or(0)) * page_;
    out.own_bytes = resident > out.shared_bytes ? resident - out.shared_bytes : 0;
  }
  if (read_io_) return true;
  std::snprintf(path, sizeof path, "/proc/%lld/io", static_cast<long long>(pid));
  const std::string_view io = text_.Read(path);
  out.has_io = !io.empty();
  out.read = NumberBehind(io, "read_bytes:");
  out.written = NumberBehind(io, "write_bytes:");
  return true;
}

void ProcessMeter::CountIo(std::map<std::uint64_t, std::map<std::int64_t, Counted>>& counted) {
  std::vector<std::int64_t> pids;
  for (const auto& [pid, job] : jobs_) pids.push_back(pid);
  for (const IoCounts& one : read_io_(pids)) {
    Counted& process = counted[jobs_.at(one.pid)][one.pid];
    process.has_io = true;
    process.read = one.read;
    process.written = one.written;
  }
}

std::map<std::uint64_t, ProcessMeter::Use> ProcessMeter::Look(const std::vector<UseTarget>& targets, double seconds) {
  if (targets != scanned_for_ || scanned_at_ == 0 || seconds - scanned_at_ >= kScanEvery) {
    Scan(targets);
    scanned_for_ = targets;
    scanned_at_ = seconds;
  } else {
    AddChildren();
  }
  between_looks_ = seconds - std::exchange(looked_at_, seconds);
  std::map<std::uint64_t, std::map<std::int64_t, Counted>> counted;
  for (auto at = jobs_.begin(); at != jobs_.end();) {
    Counted one;
    const bool is_there = Count(at->first, one);
    if (is_there) counted[at->second].emplace(at->first, one);
    at = is_there ? std::next(at) : jobs_.erase(at);
  }
  if (read_io_) CountIo(counted);
  std::map<std::uint64_t, Use> uses;
  std::erase_if(meters_, [&](const auto& meters) { return !counted.contains(meters.first); });
  for (auto& [job, processes] : counted) {
    Meters& meters = meters_[job];
    Use& use = uses[job];
    std::uint64_t ticks = 0;
    std::uint64_t shared = 0;
    for (const auto& [pid, one] : processes) {
      ticks += one.ticks;
      use.memory_bytes += static_cast<double>(one.own_bytes);
      shared = std::max(shared, one.shared_bytes);
      const auto before = meters.before.find(pid);
      const Counted& since = before == meters.before.end() ? Counted() : before->second;
      meters.read_bytes += one.read - std::min(one.read, since.read);
      meters.written_bytes += one.written - std::min(one.written, since.written);
    }
    use.memory_bytes += static_cast<double>(shared);
    meters.ticks = std::max(meters.ticks, ticks);
    meters.long_before = std::exchange(meters.before, std::move(processes));
    if (const auto rate = meters.cpu.Next(meters.ticks, seconds)) use.cpu_cores = *rate / ticks_per_second_;
    use.read_bytes_per_second = meters.read.Next(meters.read_bytes, seconds);
    use.written_bytes_per_second = meters.written.Next(meters.written_bytes, seconds);
  }
  return uses;
}

}  // namespace divvy
