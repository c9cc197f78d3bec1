#include "platform/supervisor/launch.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <thread>

#include "platform/os/foreign_descriptor.h"
#include "platform/os/process_title.h"
#include "platform/os/process_tree.h"
#include "platform/os/unix_socket.h"
#include "platform/supervisor/launch_message.h"
#include "platform/supervisor/launcher.h"
#include "platform/supervisor/supervisor_control.h"

namespace divvy {
namespace {

constexpr int kLauncherSocket = 3;
constexpr int kLauncherLock = 4;
// A launcher exits within milliseconds of its daemon. One that does not is stopped or waits for a name service.
constexpr auto kOldLauncherWait = std::chrono::seconds(5);

Error LaunchError(std::string_view what, std::string_view object) {
  return Internal("cannot " + std::string(what) + " '" + std::string(object) + "': " + std::strerror(errno));
}

Status SpawnLauncher(const std::vector<std::string>& command, int socket, int lock, pid_t& pid) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, socket, kLauncherSocket);
  ::posix_spawn_file_actions_adddup2(&actions, lock, kLauncherLock);
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  // The launcher's own environment; jobs do not get it. LD_BIND_NOW resolves symbols once for the launcher and all its
  // forks.
  std::string room = TitleRoom();
  std::string binding = "LD_BIND_NOW=1";
  std::vector<char*> environment = {room.data(), binding.data()};
  for (char** entry = environ; *entry != nullptr; ++entry) environment.push_back(*entry);
  environment.push_back(nullptr);
  const int failure = ::posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environment.data());
  ::posix_spawn_file_actions_destroy(&actions);
  errno = failure;
  if (failure != 0) return LaunchError("start the launcher", command[0]);
  return {};
}

Error NoLauncher(const std::string& path, std::string_view why) {
  return Unreachable("no launcher serves at '" + path + "' (" + std::string(why) +
                     "); start it with systemctl start divvy-launcher, or with divvy up or divvy agent as root");
}

// Moves a descriptor to a number from `lowest` on. Otherwise posix_spawn's dup2 could overwrite a descriptor that is
// still needed.
Descriptor MoveAbove(Descriptor from, int lowest) { return Descriptor(::fcntl(from.get(), F_DUPFD_CLOEXEC, lowest)); }

}  // namespace

// The launcher holds this lock as long as it lives: the lock belongs to the open file, of which the launcher gets a
// copy. The kernel releases the locks of a killed process a moment before the process counts as dead, and until then
// its supervisors consider it alive. So the file names the holder, and we also wait for its end.
Result<Descriptor> AwaitLauncherLock(const std::string& run_directory) {
  const std::string path = run_directory + "/launcher.lock";
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.is_open()) return LaunchError("open", path);
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  const auto give_up = std::chrono::steady_clock::now() + kOldLauncherWait;
  while (::fcntl(file.get(), F_OFD_SETLK, &lock) != 0) {
    if (errno != EAGAIN && errno != EACCES) return LaunchError("lock", path);
    if (std::chrono::steady_clock::now() > give_up) {
      return FailedPrecondition("another launcher still starts jobs in '" + run_directory +
                                "'; end the process that holds '" + path + "' (fuser shows it)");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  char text[64] = "";
  long long pid = 0;
  unsigned long long ticks = 0;
  if (::pread(file.get(), text, sizeof text - 1, 0) > 0 && std::sscanf(text, "%lld %llu", &pid, &ticks) == 2) {
    while (IsAlive({.pid = pid, .start_ticks = ticks}) && std::chrono::steady_clock::now() < give_up) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  return file;
}

void NameLauncher(int lock, std::int64_t pid) {
  const ProcessIdentity self = IdentifyProcess(static_cast<pid_t>(pid));
  const std::string text = std::to_string(self.pid) + " " + std::to_string(self.start_ticks) + "\n";
  static_cast<void>(!::ftruncate(lock, 0));
  static_cast<void>(!::pwrite(lock, text.data(), text.size(), 0));
}

Result<std::unique_ptr<ProcessLauncher>> ProcessLauncher::Start(ProcessLauncherOptions options) {
  const std::string& directory = options.run_directory;
  if (directory.empty() || directory.front() != '/') {
    return InvalidArgument("the run directory '" + directory + "' must be an absolute path");
  }
  if (!options.served_at.empty()) {
    std::unique_ptr<ProcessLauncher> served(new ProcessLauncher(std::move(options)));
    DIVVY_CHECK(served->Connect());
    return served;
  }
  if (::mkdir(directory.c_str(), 0711) != 0 && errno != EEXIST) return LaunchError("make the run directory", directory);
  // Other users may pass through to their scripts, but can neither list nor change the folder.
  if (::chmod(directory.c_str(), 0711) != 0) return LaunchError("protect the run directory", directory);
  std::unique_ptr<ProcessLauncher> launcher(new ProcessLauncher(std::move(options)));
  DIVVY_CHECK(launcher->Spawn());
  return launcher;
}

ProcessLauncher::~ProcessLauncher() {
  socket_.Reset();
  if (launcher_pid_ > 0 && options_.served_at.empty()) ::waitpid(static_cast<pid_t>(launcher_pid_), nullptr, 0);
}

Status ProcessLauncher::Spawn() {
  DIVVY_TRY(Descriptor lock, AwaitLauncherLock(options_.run_directory));
  std::array<int, 2> ends = {};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return LaunchError("open a socket to", "the launcher");
  }
  Descriptor ours(ends[0]);
  const Descriptor theirs = MoveAbove(Descriptor(ends[1]), kLauncherLock + 1);
  lock = MoveAbove(std::move(lock), kLauncherLock + 1);
  pid_t pid = 0;
  DIVVY_CHECK(SpawnLauncher(options_.command, theirs.get(), lock.get(), pid));
  launcher_pid_ = pid;
  NameLauncher(lock.get(), pid);
  socket_ = std::move(ours);
  // The first frame is not a launch: its body is the run directory.
  LaunchFrameHeader header = {.body_size = static_cast<std::uint32_t>(options_.run_directory.size())};
  auto hello = std::make_shared<LaunchFrame>();
  hello->bytes.assign(reinterpret_cast<const char*>(&header), sizeof header);
  hello->bytes += options_.run_directory;
  to_send_.push_back(std::move(hello));
  Flush();
  return {};
}

// The launcher sends its greeting when an earlier one has exited.
Status ProcessLauncher::Connect() {
  const std::string& path = options_.served_at;
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return InvalidArgument("'" + path + "' is too long for a socket");
  std::ranges::copy(path, address.sun_path);
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.is_open() || ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return NoLauncher(path, std::strerror(errno));
  const auto timeout = std::chrono::duration_cast<std::chrono::milliseconds>(2 * kOldLauncherWait);
  pollfd polled = {.fd = socket.get(), .events = POLLIN, .revents = 0};
  if (::poll(&polled, 1, static_cast<int>(timeout.count())) <= 0) return NoLauncher(path, "it does not answer");
  std::vector<Descriptor> reports = ReceiveDescriptors(socket.get(), 1);
  if (reports.empty()) {
    std::array<char, 512> why = {};
    const ssize_t size = ::recv(socket.get(), why.data(), why.size(), MSG_WAITALL);
    if (size > 0) return FailedPrecondition(std::string(why.data(), static_cast<std::size_t>(size)));
    return NoLauncher(path, "it does not accept this process, or is from another release");
  }
  std::int64_t pid = 0;
  if (::recv(socket.get(), &pid, sizeof pid, MSG_WAITALL) != sizeof pid) return NoLauncher(path, "it ended");
  socket_ = std::move(socket);
  reports_ = std::move(reports.front());
  launcher_pid_ = pid;
  return {};
}

Result<int> ProcessLauncher::OpenReports() {
  if (options_.served_at.empty()) return BindReportSocket(options_.run_directory);
  const int copy = ::fcntl(reports_.get(), F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return LaunchError("keep", "the report socket");
  return copy;
}

void ProcessLauncher::RemoveRecord(const RunRecord& record) {
  if (options_.served_at.empty()) return RemoveRunRecord(options_.run_directory, record);
  LaunchFrameHeader header;
  header.is_removal = 1;
  header.job = record.job.value();
  header.attempt = record.attempt;
  auto frame = std::make_shared<LaunchFrame>();
  frame->bytes.assign(reinterpret_cast<const char*>(&header), sizeof header);
  to_send_.push_back(std::move(frame));
  Flush();
}

Status ProcessLauncher::Launch(const LaunchRequest& request) {
  auto frame = std::make_shared<LaunchFrame>();
  VisitDescriptors(request, [&](int stream) { frame->streams.emplace_back(::fcntl(stream, F_DUPFD_CLOEXEC, 0)); });
  if (!std::ranges::all_of(frame->streams, &ForeignDescriptor::is_open))
    return LaunchError("keep a stream of job", ToString(request.job));
  frame->bytes = EncodeLaunch(request);
  // The launcher would exit at a larger frame, and the frame would be sent to the next launcher again.
  if (frame->bytes.size() > kMostLaunchBody) {
    return LimitExceeded("job " + ToString(request.job) + " needs " + std::to_string(frame->bytes.size() >> 20) +
                         " MiB to start, but the limit is 64 MiB; use a shorter script, command or environment");
  }
  const std::uint64_t sequence = ++last_sequence_;
  std::memcpy(frame->bytes.data() + offsetof(LaunchFrameHeader, sequence), &sequence, sizeof sequence);
  unconfirmed_[{request.job, request.attempt}] = {.frame = frame, .sequence = sequence};
  to_send_.push_back(std::move(frame));
  Flush();
  return {};
}

void ProcessLauncher::Confirm(JobId job, std::uint32_t attempt) { unconfirmed_.erase({job, attempt}); }

Status ProcessLauncher::OnReadable() {
  char bytes[512];
  ssize_t size = 0;
  while ((size = ::recv(socket_.get(), bytes, sizeof bytes, MSG_DONTWAIT)) > 0) {
    returned_.append(bytes, static_cast<std::size_t>(size));
  }
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) {
    TakeReturned();
    RepeatLost();
    return {};
  }
  returned_.clear();
  if (options_.served_at.empty()) ::waitpid(static_cast<pid_t>(launcher_pid_), nullptr, 0);
  launcher_pid_ = 0;
  to_send_.clear();
  sent_of_first_ = 0;
  DIVVY_CHECK(options_.served_at.empty() ? Spawn() : Connect());
  for (auto& [key, pending] : unconfirmed_) pending.is_stranded = true;
  RepeatLost();
  return {};
}

void ProcessLauncher::TakeReturned() {
  while (returned_.size() >= sizeof(std::uint64_t)) {
    std::uint64_t sequence = 0;
    std::memcpy(&sequence, returned_.data(), sizeof sequence);
    returned_.erase(0, sizeof sequence);
    const std::uint64_t which = sequence & ~kRefusedLaunch;
    const auto at = std::ranges::find(unconfirmed_, which, [](const auto& one) { return one.second.sequence; });
    if (at == unconfirmed_.end()) continue;
    if (which == sequence) {
      at->second.is_stranded = true;
      continue;
    }
    refused_.push_back(at->first);
    unconfirmed_.erase(at);
  }
}

// A locked record, or one that names a process, shows that the launch happened or is just being abandoned. Only without
// one is it certain that the job has not begun and will not: a supervisor creates the record first, and can do so only
// while the launcher is alive. If a launch were repeated on suspicion, a short job could end, and its record be
// removed, before the repetition checks for it.
void ProcessLauncher::RepeatLost() {
  for (auto& [key, pending] : unconfirmed_) {
    if (!pending.is_stranded) continue;
    const auto record = ReadRunRecord(options_.run_directory, key.first);
    if (!record && record.error().code != ErrorCode::kNotFound) continue;
    const bool is_void = !record || (!record->is_supervisor_alive &&
                                     (StateOf(*record) == RunState::kNeverStarted || record->attempt < key.second));
    if (!is_void) continue;
    pending.is_stranded = false;
    to_send_.push_back(pending.frame);
  }
  Flush();
}

void ProcessLauncher::Flush() {
  static const std::vector<ForeignDescriptor> kNone;
  while (!to_send_.empty()) {
    const LaunchFrame& frame = *to_send_.front();
    const std::string_view rest = std::string_view(frame.bytes).substr(sent_of_first_);
    const ssize_t sent = SendFramePart(socket_.get(), rest, sent_of_first_ == 0 ? frame.streams : kNone, MSG_DONTWAIT);
    // If the socket is full, OnWritable() continues. If it is broken, OnReadable() starts a new launcher and sends the
    // frame again.
    if (sent < 0) return;
    sent_of_first_ += static_cast<std::size_t>(sent);
    if (sent_of_first_ < frame.bytes.size()) continue;
    to_send_.pop_front();
    sent_of_first_ = 0;
  }
}

}  // namespace divvy
