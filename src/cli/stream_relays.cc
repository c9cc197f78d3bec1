// Relays are pumped by a thread each, so a stream whose other end stalls holds up no other.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <functional>
#include <mutex>
#include <string_view>
#include <utility>

#include "cli/foreground.h"

namespace divvy::cli {
namespace {

constexpr std::size_t kPiece = std::size_t{32} << 10;

/// A write to what nobody reads is an error to us, not our end.
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

/// From a relay to one of our streams, until the relay's end. Closes the relay.
void Print(int relay, int stream) {
  BlockPipeSignal();
  char block[kPiece];
  for (ssize_t got = 0; (got = ReadSome(relay, block, sizeof block)) > 0;) {
    if (WriteAll(stream, {block, static_cast<std::size_t>(got)})) continue;
    // Nobody reads us: nobody is to read the job either.
    ::shutdown(relay, SHUT_RDWR);
    break;
  }
  ::close(relay);
}

}  // namespace

/// Shared with the thread that reads our input, which may outlive all else: nothing wakes it but input.
struct StreamRelays::Input {
  std::mutex mutex;
  std::condition_variable changed;
  int relay = -1;                    // Of the daemon that there is now, until it is taken.
  std::atomic<bool> is_far = false;  // That one pumps it to another machine.
  std::function<void()> on_pumping;

  /// The next relay, which is the caller's to close.
  int Next() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return relay >= 0; });
    return std::exchange(relay, -1);
  }
  void Set(int fd) {
    const std::lock_guard lock(mutex);
    if (relay >= 0) ::close(relay);
    relay = fd;
    is_far = false;
    changed.notify_all();
  }
  /// Reads our input only once it is asked for; what one daemon did not take is the next one's, the end as well.
  void Pump() {
    BlockPipeSignal();
    while (true) {
      const int fd = Next();
      char word = 0;
      if (ReadSome(fd, &word, 1) == 1) {
        is_far = true;
        if (on_pumping) on_pumping();
        PumpInto(fd);
      }
      ::close(fd);
    }
  }

 private:
  void PumpInto(int fd) {
    while (!is_over) {
      if (unsent.empty()) {
        const ssize_t got = ReadSome(STDIN_FILENO, block, sizeof block);
        is_over = got <= 0;
        if (is_over) break;
        unsent = {block, static_cast<std::size_t>(got)};
      }
      if (!WriteAll(fd, unsent)) return;
      unsent = {};
    }
    ::shutdown(fd, SHUT_WR);  // Closing it is not enough: there is a second hold on it.
  }

  // Of the thread that pumps.
  char block[kPiece];
  std::string_view unsent;
  bool is_over = false;
};

StreamRelays::StreamRelays(std::function<void()> on_pumping, std::function<void()> on_lost)
    : passed_{STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO},
      input_(std::make_shared<Input>()),
      on_lost_(std::move(on_lost)) {
  input_->on_pumping = std::move(on_pumping);
  Begin();
  if (passed_.size() > 3) std::thread([input = input_] { input->Pump(); }).detach();
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
  // A second hold on the first relay, to hear by it why the streams have ended; whoever pumps one of ours closes it.
  word_.Reset(::fcntl(pairs[0][0], F_DUPFD_CLOEXEC, 3));
  input_->Set(pairs[0][0]);
  for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) {
    const int relay = pairs[static_cast<std::size_t>(stream)][0];
    printers_.emplace_back([this, relay, stream] {
      Print(relay, stream);
      TellLost();
    });
  }
}

bool StreamRelays::are_far() const { return input_->is_far; }

// The word stands behind the one to pump; nobody else reads there once that has come.
void StreamRelays::TellLost() {
  char word = 0;
  if (!on_lost_ || !input_->is_far || ::recv(word_.get(), &word, 1, MSG_DONTWAIT) != 1) return;
  if (!was_told_.exchange(true)) on_lost_();
}

void StreamRelays::Finish() {
  for (std::size_t i = 3; i < passed_.size(); ++i) ::close(std::exchange(passed_[i], -1));
  for (std::thread& printer : printers_) printer.join();
  printers_.clear();
  TellLost();
}

void StreamRelays::Renew() {
  if (passed_.size() == 3) return;
  Finish();
  passed_.resize(3);
  Begin();
}

StreamRelays::~StreamRelays() { Finish(); }

}  // namespace divvy::cli
