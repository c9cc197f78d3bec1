#include "keeper/drivers/driver_helper.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/text.h"
#include "platform/gpu/slice_record.h"

extern "C" char** environ;

namespace divvy::keeper {
namespace {

constexpr Duration kQuickly = 10s;  // For calls that move no memory.
/// The slowest link to the host that was measured.
constexpr std::uint64_t kSlowestBytesPerSecond = 2'500'000'000;
/// Covers contexts and code in addition to the known bytes.
constexpr Duration kLeastTimeout = 30s;
constexpr Duration kLookForEnded = 100ms;
constexpr Duration kStart = 30s;  // cuInit on a machine with many GPUs.
/// For helpers of an earlier keeper. One that hangs this long may hang indefinitely.
constexpr Duration kPlaceTimeout = 60s;
constexpr Duration kLookForPlace = 10ms;

/// A killed helper that hangs in the driver may end late. Nothing waits for it; it is reaped once it has ended.
void ReapLater(EventLoop& loop, pid_t pid, Duration wait) {
  loop.After(wait, [&loop, pid, wait] {
    if (::waitpid(pid, nullptr, WNOHANG) == 0) ReapLater(loop, pid, std::min<Duration>(2 * wait, 10s));
  });
}

Status WithoutValue(const Result<std::string>& answer) {
  if (!answer) return answer.error();
  return {};
}

}  // namespace

std::vector<std::string> CheckpointHelperCommand(const std::string& library) {
  std::vector<std::string> words = {"/proc/self/exe", "keeper", "--checkpoint-helper"};
  if (!library.empty()) words.insert(words.end(), {"--emulate-library", library});
  return words;
}

DriverHelpers::~DriverHelpers() {
  for (const auto& helper : helpers_) {
    loop_.Forget(helper->link.get());
    helper->link.Reset();  // It ends by itself, unless it hangs.
    ::kill(helper->pid, SIGKILL);
    ::waitpid(helper->pid, nullptr, 0);
  }
}

std::vector<pid_t> DriverHelpers::pids() const {
  std::vector<pid_t> pids;
  for (const auto& helper : helpers_) pids.push_back(helper->pid);
  return pids;
}

Status DriverHelpers::StartOne() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return Internal(std::string("making a helper: ") + std::strerror(errno));
  auto helper = std::make_unique<Helper>();
  helper->link.Reset(ends[0]);
  const Descriptor theirs(ends[1]);
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
  if (held_.is_open()) ::posix_spawn_file_actions_adddup2(&actions, held_.get(), STDOUT_FILENO);
  std::vector<char*> arguments;
  for (std::string& word : command_) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const int error = ::posix_spawn(&helper->pid, command_[0].c_str(), &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return Internal(std::string("starting a helper: ") + std::strerror(error));
  ++started_;
  Helper* raw = helper.get();
  loop_.Watch(raw->link.get(), [this, raw] { OnReadable(*raw); });
  helpers_.push_back(std::move(helper));
  return {};
}

void DriverHelpers::Make(Call call) {
  waiting_.push_back(std::move(call));
  Next();
}

// Returns true if no helper of an earlier keeper runs any more. A driver call of such a helper could change the state
// of a process after this keeper has queried it.
bool DriverHelpers::HasPlace() {
  if (place_.empty() || held_.is_open()) return true;
  if (waits_since_ == kNoTime) waits_since_ = loop_.Now();
  // Waiting has taken too long: removes the lock file's name and creates a new one. The old file stays locked.
  if (loop_.Now() - waits_since_ > kPlaceTimeout) ::unlink(place_.c_str());
  Descriptor file(::open(place_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  // If this file cannot be created, records of moves cannot be written to this folder either, so no tenant will be
  // moved.
  if (!file.is_open()) return true;
  if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) {
    held_ = std::move(file);
    return true;
  }
  if (!is_waiting_for_place_) {
    is_waiting_for_place_ = true;
    loop_.After(kLookForPlace, [this] {
      is_waiting_for_place_ = false;
      Next();
    });
  }
  return false;
}

void DriverHelpers::Next() {
  while (!waiting_.empty()) {
    if (!HasPlace()) return;
    auto idle = std::find_if(helpers_.begin(), helpers_.end(), [](const auto& h) { return h->call == nullptr; });
    if (idle == helpers_.end()) {
      if (helpers_.size() >= kMostHelpers) return;
      if (const Status started = StartOne(); !started) {
        const Call call = std::move(waiting_.front());
        waiting_.pop_front();
        loop_.Post([then = call.then, error = started.error()] { then(error); });
        continue;
      }
      idle = helpers_.end() - 1;
    }
    Helper& helper = **idle;
    helper.call = std::make_unique<Call>(std::move(waiting_.front()));
    waiting_.pop_front();
    const std::string line = helper.call->line + "\n";
    helper.alarm = loop_.After(helper.call->timeout, [this, raw = &helper] {
      End(*raw, "the driver did not answer within " + std::to_string(raw->call->timeout / 1s) + " s");
    });
    // A line is far shorter than a socket's buffer. If the peer has closed, the read side reports it.
    [[maybe_unused]] const auto sent = ::send(helper.link.get(), line.data(), line.size(), MSG_NOSIGNAL);
  }
}

void DriverHelpers::OnReadable(Helper& helper) {
  char bytes[4096];
  const ssize_t size = ::recv(helper.link.get(), bytes, sizeof bytes, MSG_DONTWAIT);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (size <= 0) return End(helper, "the driver ended the process that called it");
  helper.read.append(bytes, static_cast<std::size_t>(size));
  const std::size_t line_end = helper.read.find('\n');
  if (line_end == std::string::npos || helper.call == nullptr) return;
  const std::string line = helper.read.substr(0, line_end);
  helper.read.erase(0, line_end + 1);
  loop_.Cancel(helper.alarm);
  const std::int64_t pid = helper.call->pid;
  if (line.starts_with("ok")) return Answer(helper, std::string(Trim(std::string_view(line).substr(2))));
  const std::string text(Trim(std::string_view(line).substr(std::min<std::size_t>(line.size(), 5))));
  Answer(helper, FailedPrecondition(pid == 0 ? text : "process " + std::to_string(pid) + ": " + text));
}

void DriverHelpers::Answer(Helper& helper, Result<std::string> answer) {
  const std::unique_ptr<Call> call = std::move(helper.call);
  call->then(std::move(answer));
  Next();
}

void DriverHelpers::End(Helper& helper, const std::string& why) {
  loop_.Forget(helper.link.get());
  loop_.Cancel(helper.alarm);
  ::kill(helper.pid, SIGKILL);
  ReapLater(loop_, helper.pid, kLookForEnded);
  const std::unique_ptr<Call> call = std::move(helper.call);
  std::erase_if(helpers_, [&helper](const auto& one) { return one.get() == &helper; });
  if (call == nullptr) return;
  call->then(
      Error{ErrorCode::kUnreachable, call->pid == 0 ? why : "process " + std::to_string(call->pid) + ": " + why});
  Next();
}

void DriverHelpers::Probe(std::function<void(DriverAbilities)> then) {
  Make({"probe", 0, kStart, [then = std::move(then)](const Result<std::string>& answer) {
          DriverAbilities can;
          if (!answer) {
            can.reason = answer.error().message;
          } else {
            can.can_checkpoint = true;
            can.can_map = *answer == "map";
            if (!can.can_map) can.reason = "the driver cannot move a process to another GPU; that needs R580 or later";
          }
          then(can);
        }});
}

void DriverHelpers::Ask(std::int64_t pid, std::function<void(Result<DriverState>)> then) {
  Make({"state " + std::to_string(pid), pid, kQuickly, [then = std::move(then)](const Result<std::string>& answer) {
          if (!answer) return then(answer.error());
          const std::optional<std::int64_t> number = ParseInteger(*answer);
          then(number && *number >= 0 && *number <= 3 ? static_cast<DriverState>(*number) : DriverState::kGone);
        }});
}

void DriverHelpers::Lock(std::int64_t pid, Duration timeout, Ended then) {
  Make({"lock " + std::to_string(pid) + " " + std::to_string(timeout / 1ms), pid, timeout + kQuickly,
        [then = std::move(then)](const Result<std::string>& answer) { then(WithoutValue(answer)); }});
}

Duration DriverHelpers::TimeoutFor(std::uint64_t bytes) {
  return kLeastTimeout + 2 * std::chrono::seconds(static_cast<std::int64_t>(bytes / kSlowestBytesPerSecond));
}

void DriverHelpers::Checkpoint(std::int64_t pid, std::uint64_t bytes, Ended then) {
  Make({"checkpoint " + std::to_string(pid), pid, TimeoutFor(bytes),
        [then = std::move(then)](const Result<std::string>& answer) { then(WithoutValue(answer)); }});
}

void DriverHelpers::Restore(std::int64_t pid, const std::vector<std::pair<std::string, std::string>>& map,
                            std::uint64_t bytes, Ended then) {
  std::string line = "restore " + std::to_string(pid);
  for (const auto& [from, to] : map) {
    if (!IsDriverName(from) || !IsDriverName(to)) {
      const Error error =
          InvalidArgument("process " + std::to_string(pid) + ": '" + from + "' or '" + to + "' is not a GPU UUID");
      return loop_.Post([then = std::move(then), error] { then(error); });
    }
    line += " " + from + "=" + to;
  }
  Make({line, pid, TimeoutFor(bytes),
        [then = std::move(then)](const Result<std::string>& answer) { then(WithoutValue(answer)); }});
}

void DriverHelpers::Unlock(std::int64_t pid, Ended then) {
  Make({"unlock " + std::to_string(pid), pid, kQuickly,
        [then = std::move(then)](const Result<std::string>& answer) { then(WithoutValue(answer)); }});
}

}  // namespace divvy::keeper
