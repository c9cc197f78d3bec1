#include "platform/gpu/gpu_process.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <vector>

#include "base/text.h"
#include "platform/users/user_identity.h"

namespace divvy {
namespace {

constexpr std::size_t kCommandLength = 80;
constexpr int kMaxAncestors = 256;  // A longer chain means that pids were reused during the read.

std::string ReadProc(std::int64_t pid, const char* file) {
  const std::string path = "/proc/" + std::to_string(pid) + "/" + file;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return "";
  char buffer[4096];
  const ssize_t length = read(fd, buffer, sizeof(buffer));
  close(fd);
  return length <= 0 ? "" : std::string(buffer, static_cast<std::size_t>(length));
}

// Returns the arguments separated by spaces, as one line without control characters.
std::string CommandOf(std::int64_t pid, const std::string& name) {
  std::string command = ReadProc(pid, "cmdline");
  while (!command.empty() && command.back() == '\0') command.pop_back();
  if (command.empty()) return "[" + name + "]";
  command = OneLine(std::move(command));
  if (command.size() <= kCommandLength) return command;
  std::size_t end = kCommandLength;
  // Does not cut inside a UTF-8 character.
  while (end > 0 && (static_cast<unsigned char>(command[end]) & 0xC0) == 0x80) --end;
  command.resize(end);
  return command;
}

std::int64_t SupervisorOf(std::int64_t pid, std::int64_t parent, const std::set<std::int64_t>& supervisors) {
  for (int i = 0; i < kMaxAncestors && pid > 0; ++i) {
    if (supervisors.contains(pid)) return pid;
    pid = parent;
    const auto stat = ReadGpuProcessStat(pid);
    if (!stat) return supervisors.contains(pid) ? pid : 0;
    parent = stat->parent;
  }
  return 0;
}

Duration Since(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

}  // namespace

std::optional<GpuProcessStat> ReadGpuProcessStat(std::int64_t pid) {
  const std::string text = ReadProc(pid, "stat");
  // The name may contain spaces and parentheses, so fields are counted from the last ')'.
  const std::size_t open = text.find('(');
  const std::size_t close = text.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
  const std::vector<std::string_view> fields = SplitWords(std::string_view(text).substr(close + 1));
  constexpr std::size_t kParent = 1;  // Field 4 of the file, which counts from 1.
  constexpr std::size_t kStart = 19;  // Field 22.
  if (fields.size() <= kStart) return std::nullopt;
  GpuProcessStat stat;
  stat.state = fields[0].front();
  stat.parent = ParseInteger(fields[kParent]).value_or(0);
  stat.start_ticks = static_cast<std::uint64_t>(ParseInteger(fields[kStart]).value_or(0));
  stat.name = text.substr(open + 1, close - open - 1);
  return stat;
}

std::int64_t UidOfProcess(std::int64_t pid) {
  const std::string status = ReadProc(pid, "status");
  const std::size_t at = status.find("\nUid:\t");
  if (at == std::string::npos) return -1;
  const std::size_t begin = at + 6;
  return ParseInteger(std::string_view(status).substr(begin, status.find('\t', begin) - begin)).value_or(-1);
}

GpuProcessTable::GpuProcessTable()
    : boot_time_(Since(CLOCK_REALTIME) - Since(CLOCK_BOOTTIME)),
      tick_(std::chrono::nanoseconds(std::chrono::seconds(1)) / sysconf(_SC_CLK_TCK)) {}

GpuProcess GpuProcessTable::Describe(std::int64_t pid, const std::set<std::int64_t>& supervisors) {
  Remembered& known = known_[pid];
  known.is_current = true;
  GpuProcess& process = known.process;
  const auto stat = ReadGpuProcessStat(pid);
  if (!stat) {
    process.identity.pid = pid;
    return process;
  }
  const ProcessIdentity identity{pid, stat->start_ticks};
  if (process.identity != identity || process.command.empty()) {
    process = GpuProcess();
    process.identity = identity;
    process.uid = UidOfProcess(pid);
    process.user = process.uid < 0 ? "" : UserName(process.uid);
    process.started = Time(boot_time_ + static_cast<Duration::rep>(stat->start_ticks) * tick_);
  }
  // The command and the supervisor are read at each call: exec changes the command, and a supervisor may have been
  // adopted just now.
  process.command = CommandOf(pid, stat->name);
  process.supervisor_pid = SupervisorOf(pid, stat->parent, supervisors);
  return process;
}

void GpuProcessTable::EndRound() {
  std::erase_if(known_, [](const auto& entry) { return !entry.second.is_current; });
  for (auto& [pid, known] : known_) known.is_current = false;
}

const std::string& GpuProcessTable::UserName(std::int64_t uid) {
  const auto [at, is_new] = user_names_.try_emplace(uid);
  if (!is_new) return at->second;
  const auto account = AccountNameOf(uid);
  return at->second = account ? account->name : "uid " + std::to_string(uid);
}

}  // namespace divvy
