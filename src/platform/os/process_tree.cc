#include "platform/os/process_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <utility>

#include "platform/os/process_title.h"
#include "platform/os/unique_fd.h"

namespace divvy {
namespace {

// The kernel's PF_EXITING, one of the flags in /proc/PID/stat.
constexpr unsigned long long kExiting = 0x4;

struct Member {
  pid_t pid = 0;
  ProcessStat stat;
};

std::vector<Member> ReadAllProcesses() {
  std::vector<Member> all;
  DIR* directory = ::opendir("/proc");
  if (directory == nullptr) return all;
  while (const dirent* entry = ::readdir(directory)) {
    if (entry->d_name[0] < '1' || entry->d_name[0] > '9') continue;
    const pid_t pid = static_cast<pid_t>(std::strtol(entry->d_name, nullptr, 10));
    if (auto stat = ReadProcessStat(pid)) all.push_back({pid, *stat});
  }
  ::closedir(directory);
  return all;
}

// Adds to `members` every process whose parent is `root` or a member. Pids wrap around, so a parent can have a larger
// pid than its child. Therefore rounds repeat until nothing is added: as many as the tree is deep.
void AddDescendants(pid_t root, const std::vector<Member>& all, std::vector<Member>& members) {
  const auto is_member = [&](pid_t pid) {
    return std::any_of(members.begin(), members.end(), [pid](const Member& member) { return member.pid == pid; });
  };
  for (bool grew = true; grew;) {
    grew = false;
    for (const Member& process : all) {
      if (process.pid == root || is_member(process.pid)) continue;
      if (process.stat.parent != root && !is_member(process.stat.parent)) continue;
      members.push_back(process);
      grew = true;
    }
  }
}

std::vector<Member> ReadOrphans(pid_t root) {
  const std::vector<Member> all = ReadAllProcesses();
  std::vector<Member> members;
  for (const Member& process : all) {
    if (process.pid == root || process.stat.session == root) members.push_back(process);
  }
  AddDescendants(root, all, members);
  return members;
}

bool HasVariable(pid_t pid, const std::string& variable) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/environ");
  for (std::string entry; std::getline(file, entry, '\0');) {
    if (entry == variable) return true;
  }
  return false;
}

// A pid that was read a moment ago may belong to another process by now, and we may be root. So the signal goes through
// a pidfd, and only if the process behind it is the one that was read.
bool SignalExactly(const Member& member, int signal) {
  const Descriptor pidfd(static_cast<int>(::syscall(SYS_pidfd_open, member.pid, 0)));
  if (!pidfd.is_open() && errno != ENOSYS) return false;
  const auto now = ReadProcessStat(member.pid);
  if (!now || now->start_ticks != member.stat.start_ticks || now->state == 'Z') return false;
  if (!pidfd.is_open()) return ::kill(member.pid, signal) == 0;
  return ::syscall(SYS_pidfd_send_signal, pidfd.get(), signal, nullptr, 0) == 0;
}

/// Returns the command name of a process (/proc/PID/comm).
std::string CommandName(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

// Removes the processes between a job and its container: the engine's command, which kContainerStarter started and
// signals itself, and podman's monitor. They would forward a signal a second time. Or they would die of a signal that
// the job handles, and the container's exit code would be lost.
void DropContainerEngines(std::vector<Member>& members) {
  std::vector<pid_t> starters;
  std::vector<pid_t> monitors;
  for (const Member& member : members) {
    const std::string name = CommandName(member.pid);
    if (name == kContainerStarter) starters.push_back(member.pid);
    if (name == "conmon") monitors.push_back(member.pid);
  }
  if (starters.empty()) return;
  std::erase_if(members, [&](const Member& member) {
    return std::find(starters.begin(), starters.end(), member.stat.parent) != starters.end() ||
           std::find(monitors.begin(), monitors.end(), member.pid) != monitors.end();
  });
}

/// The descendants of step processes. Parents come before children in `members`.
std::vector<Member> TasksAmong(const std::vector<Member>& members) {
  std::vector<pid_t> above;
  std::vector<Member> tasks;
  for (const Member& member : members) {
    const bool is_task = std::ranges::find(above, member.stat.parent) != above.end();
    if (is_task) tasks.push_back(member);
    if (is_task || CommandName(member.pid) == kStepProcess) above.push_back(member.pid);
  }
  return tasks;
}

int SignalAll(const std::vector<Member>& members, int signal) {
  int reached = 0;
  for (const Member& member : members) reached += SignalExactly(member, signal) ? 1 : 0;
  return reached;
}

/// Appends the children of one thread. Returns false if the thread does not exist or this kernel does not list
/// children.
bool AddChildren(pid_t pid, pid_t thread, std::vector<pid_t>& children) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, thread);
  const Descriptor file(::open(path, O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) return false;
  std::string text;
  char part[4096];
  for (ssize_t got = 0; (got = ::read(file.get(), part, sizeof part)) > 0;)
    text.append(part, static_cast<std::size_t>(got));
  const char* at = text.c_str();
  for (char* end = nullptr;; at = end) {
    const long child = std::strtol(at, &end, 10);
    if (end == at) return true;
    children.push_back(static_cast<pid_t>(child));
  }
}

void AddChildrenOfAllThreads(pid_t pid, std::vector<pid_t>& children) {
  const std::string folder = "/proc/" + std::to_string(pid) + "/task";
  DIR* directory = ::opendir(folder.c_str());
  if (directory == nullptr) return;
  while (const dirent* entry = ::readdir(directory)) {
    const long thread = std::strtol(entry->d_name, nullptr, 10);
    if (thread > 0) AddChildren(pid, static_cast<pid_t>(thread), children);
  }
  ::closedir(directory);
}

/// Walks down the tree once by the kernel's lists of children. Parents come before their children.
std::vector<Member> WalkDescendants(pid_t root) {
  std::vector<pid_t> pids;
  AddChildrenOfAllThreads(root, pids);
  std::vector<Member> members;
  for (std::size_t i = 0; i < pids.size(); ++i) {
    const auto stat = ReadProcessStat(pids[i]);
    if (!stat) continue;
    members.push_back({pids[i], *stat});
    if (stat->threads == 1) AddChildren(pids[i], pids[i], pids);
    else AddChildrenOfAllThreads(pids[i], pids);
  }
  return members;
}

/// True if this kernel lists children (CONFIG_PROC_CHILDREN).
bool ListsChildren() {
  static const bool lists = ::access("/proc/thread-self/children", F_OK) == 0;
  return lists;
}

// The kernel may omit siblings of a child that ends during the read, and a process whose parent changes meanwhile may
// not appear at all. So a walk counts only if the next one finds the same processes. A tree that never settles, or a
// kernel that does not list children, costs a scan of all processes of the machine.
std::vector<Member> ReadDescendants(pid_t root) {
  constexpr int kWalks = 5;
  const auto is_same = [](const Member& a, const Member& b) {
    return a.pid == b.pid && a.stat.start_ticks == b.stat.start_ticks;
  };
  if (ListsChildren()) {
    std::vector<Member> members = WalkDescendants(root);
    for (int walk = 1; walk < kWalks; ++walk) {
      std::vector<Member> again = WalkDescendants(root);
      const bool rests = std::ranges::equal(members, again, is_same);
      members = std::move(again);
      if (rests) return members;
    }
  }
  std::vector<Member> members;
  AddDescendants(root, ReadAllProcesses(), members);
  return members;
}

int SignalMembers(std::vector<Member> members, int signal) {
  if (signal != SIGKILL && signal != SIGSTOP && signal != SIGCONT) DropContainerEngines(members);
  return SignalAll(members, signal);
}

}  // namespace

std::optional<ProcessStat> ReadProcessStat(pid_t pid) {
  char path[32];
  std::snprintf(path, sizeof path, "/proc/%d/stat", pid);
  const Descriptor file(::open(path, O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) return std::nullopt;
  char text[1024];
  const ssize_t size = ::read(file.get(), text, sizeof text - 1);
  if (size <= 0) return std::nullopt;
  text[size] = '\0';
  // The second field is the command name in parentheses and may contain any characters, even parentheses and blanks.
  const char* at = std::strrchr(text, ')');
  if (at == nullptr || at[1] == '\0') return std::nullopt;
  ProcessStat stat;
  stat.state = at[2];
  at += 3;
  for (int field = 4; *at != '\0' && field <= 52; ++field) {
    char* end = nullptr;
    const unsigned long long value = std::strtoull(at, &end, 10);
    if (end == at) break;
    if (field == 4) stat.parent = static_cast<pid_t>(value);
    if (field == 6) stat.session = static_cast<pid_t>(value);
    if (field == 9) stat.is_exiting = (value & kExiting) != 0;
    if (field == 14 || field == 15) stat.cpu_ticks += value;  // User and system time.
    if (field == 20) stat.threads = static_cast<int>(value);
    if (field == 22) stat.start_ticks = value;
    if (field == 52) stat.exit_status = static_cast<int>(value);
    at = end;
  }
  return stat;
}

ProcessIdentity IdentifyProcess(pid_t pid) {
  const auto stat = ReadProcessStat(pid);
  return {.pid = pid, .start_ticks = stat ? stat->start_ticks : 0};
}

bool IsAlive(const ProcessIdentity& process) {
  if (process.pid <= 0) return false;
  const auto stat = ReadProcessStat(static_cast<pid_t>(process.pid));
  return stat && stat->start_ticks == process.start_ticks && stat->state != 'Z' && stat->state != 'X';
}

bool IsChild(pid_t pid) {
  siginfo_t info = {};
  return ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

std::vector<pid_t> DescendantsOf(pid_t root) {
  std::vector<pid_t> pids;
  for (const Member& one : ReadDescendants(root)) pids.push_back(one.pid);
  return pids;
}

int SignalDescendants(pid_t root, int signal) { return SignalMembers(ReadDescendants(root), signal); }

int SignalTasks(pid_t root, int signal, std::optional<pid_t> spared) {
  std::vector<Member> members = ReadDescendants(root);
  const std::vector<Member> tasks = TasksAmong(members);
  if (!tasks.empty() || !spared) return SignalMembers(tasks, signal);
  std::erase_if(members, [spared](const Member& member) {
    return member.pid == *spared || CommandName(member.pid) == kStepProcess;
  });
  return SignalMembers(std::move(members), signal);
}

int EndDescendants(pid_t root, int signal) {
  const std::vector<Member> members = ReadDescendants(root);
  const int reached = SignalMembers(members, signal);
  for (const Member& member : members) {
    if (member.stat.state == 'T') SignalExactly(member, SIGCONT);
  }
  // A running engine gets no SIGCONT: it would forward it to a container that may have ended, and then print an error
  // into the job's output.
  std::vector<Member> others = members;
  DropContainerEngines(others);
  SignalAll(others, SIGCONT);
  return reached;
}

bool IgnoresSignal(pid_t pid, int signal) {
  constexpr std::string_view kIgnored = "SigIgn:";
  if (signal < 1 || signal > 64) return false;
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with(kIgnored)) continue;
    const unsigned long long mask = std::strtoull(line.c_str() + kIgnored.size(), nullptr, 16);
    return (mask >> (signal - 1) & 1) != 0;
  }
  return false;
}

int SignalOrphans(pid_t root, int signal) { return SignalAll(ReadOrphans(root), signal); }

int SignalLeftBehind(const ProcessIdentity& first, const std::string& variable, int signal) {
  const auto pid = static_cast<pid_t>(first.pid);
  // While a session has processes, the kernel does not give its number to a new process. So if `pid` is now another
  // process, nothing is left of the session.
  const auto now = ReadProcessStat(pid);
  if (pid <= 0 || (now && now->start_ticks != first.start_ticks)) return 0;
  std::vector<Member> members = ReadOrphans(pid);
  std::erase_if(members, [&](const Member& member) { return !HasVariable(member.pid, variable); });
  return SignalAll(members, signal);
}

void StopDescendants(pid_t root) {
  // Each pass stops all processes that it saw running; the next pass stops those that were forked meanwhile. The limit
  // of passes is for a process that cannot be stopped at once (in an uninterruptible wait).
  for (int pass = 0; pass < 20; ++pass) {
    std::vector<Member> members = ReadDescendants(root);
    std::erase_if(members, [](const Member& member) { return member.stat.state == 'T' || member.stat.state == 'Z'; });
    if (members.empty() || SignalAll(members, SIGSTOP) == 0) return;
  }
}

}  // namespace divvy
