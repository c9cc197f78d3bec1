// Each relay has its own thread, so a stream whose other end stalls does not hold up the others.
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string_view>
#include <utility>

#include "cli/jobs/foreground.h"

namespace divvy::cli {
namespace {

constexpr std::size_t kPiece = std::size_t{32} << 10;
/// A job's terminal takes this for the end of its input: Pty::kEndOfFile, Ctrl-D.
constexpr char kTypedEnd = 0x04;
/// The keys Ctrl-P Ctrl-Q leave a job's terminal. The job's supervisor detects them too (platform/os/pty.h).
constexpr char kLeavePrefix = 0x10;
constexpr char kLeave = 0x11;
/// How many bytes of this process's input are kept, to send them again through a new daemon: more than can be in
/// transit to a job on another node.
constexpr std::size_t kHistory = std::size_t{1} << 20;

/// Makes a write without a reader an error instead of ending this process.
void BlockPipeSignal() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

bool WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
  return true;
}

ssize_t ReadSome(int fd, char* bytes, std::size_t size) {
  ssize_t got = 0;
  do {
    got = ::read(fd, bytes, size);
  } while (got < 0 && errno == EINTR);
  return got;
}

using OnOutput = std::function<void(std::string_view bytes)>;

/// Copies a relay to one of this process's standard streams until the end of the relay, and closes the relay.
void Print(int relay, int stream, std::atomic<std::int64_t>& came, const OnOutput& on_output) {
  BlockPipeSignal();
  char block[kPiece];
  for (ssize_t got = 0; (got = ReadSome(relay, block, sizeof block)) > 0;) {
    came += got;
    const std::string_view bytes(block, static_cast<std::size_t>(got));
    const bool is_printed = WriteAll(stream, bytes);
    if (on_output) on_output(bytes);
    if (is_printed) continue;
    // The reader of this process's output has gone, so let the job's writes fail as well.
    ::shutdown(relay, SHUT_RDWR);
    break;
  }
  ::close(relay);
}

}  // namespace

/// The state of the thread that reads this process's input. The thread shares ownership, because it may outlive the
/// StreamRelays: only new input wakes it.
struct StreamRelays::Input {
  std::mutex mutex;
  std::condition_variable changed;
  int relay = -1;                        // The present daemon's relay, until the pump takes it.
  std::atomic<bool> was_remote = false;  // Input is or was copied to another node.
  std::function<void()> on_pumping, on_begun;
  std::function<void(bool is_here)> on_left;
  std::function<void(bool is_away)> on_away;
  std::atomic<bool> has_left = false;  // The daemon may not know it yet.
  int here = -1;                       // For a terminal on this machine. Owned by StreamRelays.
  const bool is_terminal = ::isatty(STDIN_FILENO) == 1;
  bool has_terminal = false;

  /// Waits for the next relay. The caller closes it.
  int Next() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return relay >= 0; });
    return std::exchange(relay, -1);
  }
  void Set(int fd) {
    const std::lock_guard lock(mutex);
    if (relay >= 0) ::close(relay);
    relay = fd;
    changed.notify_all();
  }
  void SetHere(int fd) {
    const std::lock_guard lock(mutex);
    here = fd;
  }
  /// The loop of the thread. Reads input only after the daemon has requested it. Input (or its end) that a lost daemon
  /// did not receive is sent to the next one.
  void Pump() {
    BlockPipeSignal();
    while (true) {
      const Descriptor own(Next());
      is_away = false;
      const Where where = HearWhere(own.get());
      if (where == Where::kElsewhere) was_remote = true;
      if (where != Where::kNowhere && on_begun) on_begun();
      const Descriptor typed(where == Where::kHere ? CopyHere() : -1);
      if (where != Where::kElsewhere && !typed.is_open()) continue;
      if (on_pumping) on_pumping();
      PumpInto(typed.is_open() ? typed.get() : own.get(), typed.is_open());
    }
  }

 private:
  enum class Where { kNowhere, kHere, kElsewhere };

  int CopyHere() {
    const std::lock_guard lock(mutex);
    return here < 0 ? -1 : ::fcntl(here, F_DUPFD_CLOEXEC, 3);
  }

  /// Reads the daemon's message about the input: the job runs on this machine, or copy the input, from its present
  /// position or from the byte that the job's node has reached.
  Where HearWhere(int fd) {
    char word = 0;
    ssize_t got = 0;
    do {
      got = ::recv(fd, &word, 1, MSG_PEEK);
    } while (got < 0 && errno == EINTR);
    if (got == 1 && word == 'h') return Where::kHere;
    // TellLost handles the message that the streams were lost.
    if (got != 1 || (word != 'p' && word != 'g') || ReadSome(fd, &word, 1) != 1) return Where::kNowhere;
    if (word == 'p') return Where::kElsewhere;
    std::int64_t from = 0;
    while (ReadSome(fd, &word, 1) == 1 && word >= '0' && word <= '9') from = from * 10 + (word - '0');
    const std::int64_t first = read - static_cast<std::int64_t>(history.size());
    if (word != '\n' || from < first || from > read) return Where::kNowhere;
    sent = from;
    return Where::kElsewhere;
  }

  void PumpInto(int fd, bool is_here) {
    while (!is_over || sent < read) {
      if (sent == read) {
        if (!AwaitInput(fd)) return;
        const ssize_t got = ReadSome(STDIN_FILENO, block, sizeof block);
        is_over = got <= 0;
        if (is_over && !TypesEnd()) break;
        history.append(is_over ? std::string_view(&kTypedEnd, 1)
                               : std::string_view(block, static_cast<std::size_t>(got)));
        read += is_over ? 1 : got;
        if (history.size() > 2 * kHistory) history.erase(0, history.size() - kHistory);
      }
      const auto unsent = static_cast<std::size_t>(read - sent);
      const std::string_view next = std::string_view(history).substr(history.size() - unsent);
      if (!WriteAll(fd, next)) return;
      sent = read;
      LookForLeaving(next, is_here);
    }
    // Closing is not enough, because word_ is a duplicate of the descriptor. A supervisor on this machine that has
    // received the typed end does not take the end of the socket for the end of this process, so the socket may be shut
    // down.
    if (!TypesEnd() || is_here) ::shutdown(fd, SHUT_WR);
  }

  /// Detects Ctrl-P Ctrl-Q in typed input. If the job's terminal is on another node, its supervisor reports the keys,
  /// unless the node's agent is disconnected.
  void LookForLeaving(std::string_view typed, bool is_here) {
    for (const char byte : typed) {
      const bool is_leaving = has_terminal && last_typed == kLeavePrefix && byte == kLeave && (is_here || is_away);
      last_typed = byte;
      if (is_leaving && !has_left.exchange(true) && on_left) on_left(is_here);
    }
  }

  /// Returns false when the other end of `fd` is gone; input that arrives then is for the next relay.
  bool AwaitInput(int fd) {
    std::array<pollfd, 2> polled = {{{STDIN_FILENO, POLLIN, 0}, {fd, POLLIN, 0}}};
    while (true) {
      if (::poll(polled.data(), polled.size(), -1) < 0 && errno == EINTR) continue;
      // Any other message is the last one, and TellLost handles it.
      if ((polled[1].revents & POLLIN) != 0 && !HearPresence(fd)) polled[1].events = 0;
      if ((polled[1].revents & ~POLLIN) != 0) return false;
      if (polled[0].revents != 0) return true;
    }
  }

  bool HearPresence(int fd) {
    char word = 0;
    if (::recv(fd, &word, 1, MSG_PEEK | MSG_DONTWAIT) != 1 || (word != 'a' && word != 'b')) return false;
    static_cast<void>(!::recv(fd, &word, 1, MSG_DONTWAIT));
    const bool now = word == 'a';
    if (is_away != now && on_away) on_away(now);
    is_away = now;
    return true;
  }

  /// True if the end of the input must be typed as Ctrl-D. If the socket ended without it, the supervisor of the job's
  /// terminal would take that for the end of this process.
  bool TypesEnd() const { return has_terminal && !is_terminal; }

  // Used by the pumping thread only.
  char block[kPiece];
  std::string history;    // The most recent input.
  std::int64_t read = 0;  // Bytes read in total.
  std::int64_t sent = 0;  // Bytes sent to daemons in total.
  bool is_over = false;
  char last_typed = 0;
  bool is_away = false;  // The agent of the job's node is disconnected.
};

StreamRelays::StreamRelays(Hooks hooks)
    : passed_{STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO},
      has_terminal_(hooks.has_terminal),
      on_output_(std::move(hooks.on_output)),
      input_(std::make_shared<Input>()),
      on_lost_(std::move(hooks.on_lost)) {
  input_->has_terminal = has_terminal_;
  input_->on_pumping = std::move(hooks.on_pumping);
  input_->on_begun = std::move(hooks.on_begun);
  input_->on_left = std::move(hooks.on_left);
  input_->on_away = std::move(hooks.on_away);
  Begin();
  if (passed_.size() > 3) BeginHere();
  if (hooks.carries_output && !has_terminal_) BeginCarrying();
  if (passed_.size() > 3) std::thread([input = input_] { input->Pump(); }).detach();
  else if (input_->on_begun) input_->on_begun();  // Without relays there is no word to wait for.
}

// Connects the job's terminal to this process by sockets. If no sockets can be created, the terminal uses this
// process's own streams.
void StreamRelays::BeginHere() {
  std::array<std::array<int, 2>, 2> pairs{};
  if (!has_terminal_ || ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pairs[0].data()) != 0) return;
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pairs[1].data()) != 0) {
    ::close(pairs[0][0]), ::close(pairs[0][1]);
    return;
  }
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    here_[i].Reset(pairs[i][0]);
    passed_here_[i].Reset(pairs[i][1]);
    passed_[i] = pairs[i][1];
  }
  input_->SetHere(here_[0].get());
  here_printer_ = std::thread([this, shown = ::fcntl(here_[1].get(), F_DUPFD_CLOEXEC, 3)] {
    std::atomic<std::int64_t> came = 0;
    Print(shown, STDOUT_FILENO, came, on_output_);
  });
}

// Gives the job a pipe as its standard output. If no pipe can be created, the job uses this process's own output.
void StreamRelays::BeginCarrying() {
  std::array<int, 2> ends{};
  no_more_.Reset(::eventfd(0, EFD_CLOEXEC));
  if (!no_more_.is_open() || ::pipe2(ends.data(), O_CLOEXEC) != 0) return;
  carried_.Reset(ends[0]);
  passed_output_.Reset(ends[1]);
  passed_[1] = ends[1];
  carrier_ = std::thread([this] {
    BlockPipeSignal();
    char block[kPiece];
    std::array<pollfd, 2> polled = {{{carried_.get(), POLLIN, 0}, {no_more_.get(), POLLIN, 0}}};
    while (true) {
      if (::poll(polled.data(), polled.size(), -1) < 0 && errno == EINTR) continue;
      // Stop here even if processes that the job left behind keep the pipe open. All that the job wrote is in the pipe
      // by now.
      if (polled[0].revents == 0) break;
      const ssize_t got = ReadSome(carried_.get(), block, sizeof block);
      if (got <= 0) break;
      const std::string_view bytes(block, static_cast<std::size_t>(got));
      const bool is_printed = WriteAll(STDOUT_FILENO, bytes);
      if (on_output_) on_output_(bytes);
      if (!is_printed) break;
    }
    // The reader of this process's output has gone, so let the job's writes fail as well.
    carried_.Reset();
  });
}

void StreamRelays::EndCarrying() {
  if (!carrier_.joinable()) return;
  passed_[1] = STDOUT_FILENO;
  passed_output_.Reset();
  static_cast<void>(!::eventfd_write(no_more_.get(), 1));
  carrier_.join();
}

// Prints what has arrived. Does not wait for the supervisor to close its ends, because the job may continue.
void StreamRelays::LeaveHere() {
  if (!here_printer_.joinable()) return;
  input_->SetHere(-1);
  ::shutdown(here_[0].get(), SHUT_RDWR);
  ::shutdown(here_[1].get(), SHUT_RD);
  here_printer_.join();
  for (auto* ends : {&here_, &passed_here_}) {
    for (Descriptor& end : *ends) end.Reset();
  }
  passed_[0] = STDIN_FILENO, passed_[1] = STDOUT_FILENO;
}

void StreamRelays::Begin() {
  std::array<std::array<int, 2>, 3> pairs{};
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pairs[i].data()) == 0) continue;
    for (std::size_t made = 0; made < i; ++made) ::close(pairs[made][0]), ::close(pairs[made][1]);
    return;
  }
  passed_.resize(6);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    passed_[3 + i] = pairs[i][1];
  }
  // A duplicate of the first relay, to read later why the streams have ended. The pump closes the relay itself.
  word_.Reset(::fcntl(pairs[0][0], F_DUPFD_CLOEXEC, 3));
  input_->Set(pairs[0][0]);
  for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) {
    const int relay = pairs[static_cast<std::size_t>(stream)][0];
    printers_.emplace_back([this, relay, stream] {
      const bool is_output = stream == STDOUT_FILENO;
      Print(relay, stream, came_[is_output ? 0 : 1], is_output ? on_output_ : OnOutput());
      TellLost();
    });
  }
}

wire::RejoinRequest StreamRelays::Had() const { return {input_->was_remote, came_[0], came_[1], has_left()}; }

bool StreamRelays::has_left() const { return input_->has_left; }

// The message that the streams were lost follows the messages about the position of the input, which may still be
// unread. It may arrive a moment after the stream has ended. So wait until the other end is closed, for at most a
// second.
void StreamRelays::TellLost() {
  constexpr int kLooks = 100, kLookMs = 10;
  if (!on_lost_ || !input_->was_remote) return;
  for (int look = 0; look < kLooks; ++look) {
    pollfd said{word_.get(), POLLRDHUP, 0};
    const bool is_over = ::poll(&said, 1, look == 0 ? 0 : kLookMs) != 0;
    std::array<char, 64> words{};
    const ssize_t got = ::recv(word_.get(), words.data(), words.size(), MSG_PEEK | MSG_DONTWAIT);
    if (got > 0 && std::string_view(words.data(), static_cast<std::size_t>(got)).find('l') != std::string_view::npos) {
      if (!was_told_.exchange(true)) on_lost_();
      return;
    }
    if (is_over || was_told_) return;
  }
}

void StreamRelays::Finish() {
  LeaveHere();
  CloseRelays();
  EndCarrying();
}

void StreamRelays::CloseRelays() {
  for (std::size_t i = 3; i < passed_.size(); ++i) ::close(std::exchange(passed_[i], -1));
  for (std::thread& printer : printers_) printer.join();
  printers_.clear();
  TellLost();
}

void StreamRelays::Renew() {
  if (passed_.size() == 3) return;
  CloseRelays();
  passed_.resize(3);
  Begin();
}

void StreamRelays::RenewAll() {
  LeaveHere();
  Renew();
  if (passed_.size() > 3) BeginHere();
}

StreamRelays::~StreamRelays() { Finish(); }

}  // namespace divvy::cli
