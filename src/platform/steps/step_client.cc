#include "platform/steps/step_client.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <vector>

#include "platform/os/clock.h"
#include "platform/records/step_wire.h"

namespace divvy {
namespace {

constexpr std::int64_t kInterruptPause = 1'000'000'000;  // Slurm's rule: two Ctrl-C within a second belong together.
constexpr Duration kAnswerMost = std::chrono::seconds(10);
constexpr std::int64_t kOutsiderGrace = 500'000'000;

std::int64_t Now() {
  timespec now = {};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

void WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t wrote = ::write(fd, text.data(), text.size());
    if (wrote < 0 && errno == EAGAIN) {
      pollfd one = {fd, POLLOUT, 0};
      ::poll(&one, 1, -1);
      continue;
    }
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return;  // The reader is gone: the output is dropped and the task continues.
    text.remove_prefix(static_cast<std::size_t>(wrote));
  }
}

/// Returns a socket connected to a process of our own user; closed on failure.
Descriptor Connect(const std::string& path) {
  const auto address = MakeStepAddress(path);
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!address || !socket.is_open()) return {};
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(address->storage.data()),
                static_cast<socklen_t>(address->size)) != 0) {
    return {};
  }
  // The peer must run as the same user: a caller that is root must not give its environment and streams to a user's
  // process.
  ucred peer = {};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.uid != ::geteuid()) return {};
  return socket;
}

/// A pipe from a task, forwarded line by line so that lines of different tasks never mix.
struct Labelled {
  Descriptor pipe;
  int target = STDOUT_FILENO;
  std::string label;
  std::string rest;  // An incomplete line.
};

class Call {
 public:
  Call(const StepCaller& caller, Descriptor socket) : caller_(caller), socket_(std::move(socket)) {}
  ~Call() {
    MakeCooked();
    ::sigprocmask(SIG_SETMASK, &before_, nullptr);
  }

  int Run() {
    BlockSignals();
    // If the call is refused, the peer may close before all of it is sent. The refusal can still be read then.
    static_cast<void>(SendCall());
    while (!code_) {
      if (!Wait()) return Lost();
    }
    for (Labelled& stream : labelled_) Drain(stream);
    DrainTerminal();
    return *code_;
  }

 private:
  int Lost() {
    MakeCooked();
    std::fprintf(stderr, "%s: error: %s\n", caller_.program.c_str(),
                 is_far() ? "the connection to the job's node was lost, and the step is ended there"
                          : "the step process of this job has ended, and its steps with it");
    return 1;
  }

  bool is_far() const { return caller_.far >= 0; }

  bool SendCall() {
    constexpr std::array<int, 3> streams = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO};
    const std::string call = EncodeStepCall(caller_.words, caller_.environment);
    if (!is_far()) return SendStepFrame(socket_.get(), StepWord::kCall, 0, call, streams);
    if (!SendStepFrame(socket_.get(), StepWord::kCall, caller_.has_terminal ? 1 : 0, call)) return false;
    if (caller_.has_terminal) {
      PassWindow();
      MakeRaw();
    }
    return true;
  }

  void MakeRaw() {
    if (::isatty(STDIN_FILENO) != 1 || ::tcgetattr(STDIN_FILENO, &before_raw_) != 0) return;
    termios raw = before_raw_;
    ::cfmakeraw(&raw);
    is_raw_ = ::tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
  }

  void MakeCooked() {
    if (is_raw_) ::tcsetattr(STDIN_FILENO, TCSADRAIN, &before_raw_);
    is_raw_ = false;
  }

  void BlockSignals() {
    sigset_t set;
    ::sigemptyset(&set);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH}) ::sigaddset(&set, signal);
    ::sigprocmask(SIG_BLOCK, &set, &before_);
    signals_.Reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  }

  /// Returns false if the step process has gone.
  bool Wait() {
    polled_.assign({{socket_.get(), POLLIN, 0}, {signals_.get(), POLLIN, 0}});
    for (const Labelled& stream : labelled_) polled_.push_back({stream.pipe.get(), POLLIN, 0});
    const std::size_t terminal = polled_.size();
    if (terminal_.is_open()) {
      polled_.push_back({terminal_.get(), POLLIN, 0});
      polled_.push_back({reads_input_ ? STDIN_FILENO : -1, POLLIN, 0});
    }
    const std::size_t input = polled_.size();
    if (input_wanted_ > 0) polled_.push_back({STDIN_FILENO, POLLIN, 0});
    int timeout = -1;
    if (later_ != 0) timeout = static_cast<int>(std::clamp<std::int64_t>((later_at_ - Now()) / 1'000'000 + 1, 0, 1000));
    if (::poll(polled_.data(), polled_.size(), timeout) < 0 && errno != EINTR) return false;
    for (std::size_t i = labelled_.size(); i-- > 0;) {
      if (polled_[i + 2].revents != 0 && !ReadLabelled(labelled_[i]))
        labelled_.erase(labelled_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if (terminal_.is_open()) {
      if (polled_[terminal + 1].revents != 0) ReadInput();
      if (polled_[terminal].revents != 0) ReadTerminal();
    }
    if (input < polled_.size() && polled_[input].revents != 0) PassInput();
    if (polled_[1].revents != 0) ReadSignals();
    if (later_ != 0 && Now() >= later_at_) SendStepFrame(socket_.get(), StepWord::kSignal, std::exchange(later_, 0));
    if (polled_[0].revents == 0) return true;
    const auto outcome = reader_.Fill(socket_.get());
    while (auto frame = reader_.Next()) OnFrame(*frame);
    return code_ || outcome != StepFrameReader::Outcome::kClosed;
  }

  void OnFrame(StepFrame& frame) {
    if (frame.word == StepWord::kExit) code_ = frame.value;
    if (frame.word == StepWord::kSay) WriteAll(STDERR_FILENO, frame.body);
    if (frame.word == StepWord::kTerminal && !frame.descriptors.empty()) TakeTerminal(std::move(frame.descriptors[0]));
    if (frame.word == StepWord::kWantInput && !input_ended_) input_wanted_ += frame.value;
    if (frame.word == StepWord::kFiles) {
      // The bits of `value` are in the order of the descriptors.
      for (std::size_t i = 0, next = 0; i < files_.size() && next < frame.descriptors.size(); ++i) {
        if ((frame.value >> i & 1) != 0) files_[i] = std::move(frame.descriptors[next++]);
      }
    }
    if (frame.word == StepWord::kOutput) {
      const bool is_file = frame.value == 3 || frame.value == 4;
      const int target = is_file            ? files_[frame.value == 3 ? 0 : 1].get()
                         : frame.value == 2 ? STDERR_FILENO
                                            : STDOUT_FILENO;
      WriteAll(target, frame.body);
    }
    if (frame.word != StepWord::kStreams) return;
    std::string_view lines = frame.body;
    for (Descriptor& pipe : frame.descriptors) {
      const std::size_t end = lines.find('\n');
      if (end == std::string_view::npos || end < 2) return;
      labelled_.push_back({std::move(pipe), lines[0] == '2' ? STDERR_FILENO : STDOUT_FILENO,
                           std::string(lines.substr(2, end - 2)), ""});
      lines.remove_prefix(end + 1);
    }
  }

  /// Returns false at the end of the stream.
  bool ReadLabelled(Labelled& stream) {
    std::array<char, 16'384> buffer;
    const ssize_t got = ::read(stream.pipe.get(), buffer.data(), buffer.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return true;
    if (got > 0) stream.rest.append(buffer.data(), static_cast<std::size_t>(got));
    std::string text;
    std::size_t start = 0;
    for (std::size_t end = stream.rest.find('\n'); end != std::string::npos; end = stream.rest.find('\n', start)) {
      text.append(stream.label).append(stream.rest, start, end - start + 1);
      start = end + 1;
    }
    stream.rest.erase(0, start);
    if (got <= 0 && !stream.rest.empty()) text.append(stream.label).append(stream.rest).push_back('\n');
    WriteAll(stream.target, text);
    return got > 0;
  }

  /// Does not wait for a task's descendant that keeps the output open after the step has ended.
  void Drain(Labelled& stream) {
    ::fcntl(stream.pipe.get(), F_SETFL, O_NONBLOCK);
    bool is_open = true;
    for (pollfd one = {stream.pipe.get(), POLLIN, 0}; is_open && ::poll(&one, 1, 0) > 0;)
      is_open = ReadLabelled(stream);
    if (is_open && !stream.rest.empty()) WriteAll(stream.target, stream.label + stream.rest + "\n");
  }

  void TakeTerminal(Descriptor master) {
    terminal_ = std::move(master);
    reads_input_ = true;
    PassWindow();
    MakeRaw();
  }

  void PassWindow() {
    winsize window = {};
    if (::ioctl(STDIN_FILENO, TIOCGWINSZ, &window) != 0) return;
    if (terminal_.is_open()) ::ioctl(terminal_.get(), TIOCSWINSZ, &window);
    if (is_far() && caller_.has_terminal)
      SendStepFrame(socket_.get(), StepWord::kWindow, PackWindow(window.ws_row, window.ws_col));
  }

  bool ReadTerminal() {
    std::array<char, 16'384> buffer;
    const ssize_t got = ::read(terminal_.get(), buffer.data(), buffer.size());
    if (got > 0) WriteAll(STDOUT_FILENO, {buffer.data(), static_cast<std::size_t>(got)});
    if (got > 0 || (got < 0 && (errno == EINTR || errno == EAGAIN))) return true;
    terminal_.Reset();  // No process has the other side open any more.
    return false;
  }

  void DrainTerminal() {
    if (!terminal_.is_open()) return;
    for (pollfd one = {terminal_.get(), POLLIN, 0}; ::poll(&one, 1, 0) > 0 && ReadTerminal();) {
    }
  }

  void ReadInput() {
    std::array<char, 4096> buffer;
    const ssize_t got = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (got > 0) return WriteAll(terminal_.get(), {buffer.data(), static_cast<std::size_t>(got)});
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
    reads_input_ = false;
    WriteAll(terminal_.get(), "\x04");
  }

  /// Sends input to a task on another node.
  void PassInput() {
    std::array<char, 16'384> buffer;
    const ssize_t got = ::read(STDIN_FILENO, buffer.data(),
                               std::min<std::size_t>(buffer.size(), static_cast<std::size_t>(input_wanted_)));
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
    const std::size_t size = got > 0 ? static_cast<std::size_t>(got) : 0;
    SendStepFrame(socket_.get(), StepWord::kInput, 0, {buffer.data(), size});
    input_ended_ = size == 0;
    input_wanted_ = input_ended_ ? 0 : input_wanted_ - static_cast<int>(size);
  }

  void ReadSignals() {
    signalfd_siginfo info = {};
    while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      const int signal = static_cast<int>(info.ssi_signo);
      if (signal == SIGWINCH) {
        PassWindow();
        continue;
      }
      // A signal from a terminal or from inside the job is meant for this step. When the daemon ends the whole job, the
      // tasks get its signal too: we forward it only if they still run a moment later.
      const bool is_terminal = info.ssi_code == SI_KERNEL;
      const bool is_inside = is_terminal || ::getsid(static_cast<pid_t>(info.ssi_pid)) == ::getsid(0);
      if (!is_inside) {
        if (signal != SIGTERM && signal != SIGINT) continue;
        later_ = signal;
        later_at_ = Now() + kOutsiderGrace;
      } else if (signal == SIGINT && caller_.asks_interrupts) {
        const std::int64_t now = Now();
        interrupts_ = now - interrupted_at_ <= kInterruptPause ? interrupts_ + 1 : 1;
        interrupted_at_ = now;
        SendStepFrame(socket_.get(), StepWord::kInterrupt, interrupts_);
      } else {
        SendStepFrame(socket_.get(), StepWord::kSignal, signal);
      }
    }
  }

  const StepCaller& caller_;
  Descriptor socket_;
  Descriptor signals_;
  StepFrameReader reader_;
  std::vector<pollfd> polled_;
  std::vector<Labelled> labelled_;
  Descriptor terminal_;              // The master side; closed: none.
  std::array<Descriptor, 2> files_;  // Files for the output and error of tasks on other nodes; closed: our own streams.
  int input_wanted_ = 0;             // Bytes that a task on another node can take.
  bool input_ended_ = false;
  bool reads_input_ = false;
  bool is_raw_ = false;
  termios before_raw_ = {};
  sigset_t before_ = {};
  int later_ = 0;  // A signal to forward at `later_at_`; 0: none.
  std::int64_t later_at_ = 0;
  int interrupts_ = 0;
  std::int64_t interrupted_at_ = -2 * kInterruptPause;
  std::optional<int> code_;
};

}  // namespace

std::optional<int> CallStep(const StepCaller& caller) {
  // Opens all three standard descriptors first, so that the socket cannot become one of them.
  int fd = 0;
  while (fd >= 0 && fd < 3) fd = ::open("/dev/null", O_RDWR);
  if (fd >= 0) ::close(fd);
  Descriptor socket = caller.far >= 0 ? Descriptor(::fcntl(caller.far, F_DUPFD_CLOEXEC, 3)) : Connect(caller.socket);
  if (!socket.is_open()) return std::nullopt;
  return Call(caller, std::move(socket)).Run();
}

std::optional<int> ChangeStep(const std::string& path, const StepChange& change) {
  const Descriptor socket = Connect(path);
  if (!socket.is_open()) return std::nullopt;
  return ChangeStepAt(socket.get(), change);
}

int ChangeStepAt(int socket, const StepChange& change) {
  if (!SendStepFrame(socket, change.word, change.step, std::to_string(change.value))) return 1;
  StepFrameReader reader;
  pollfd answer = {socket, POLLIN, 0};
  const Duration until = MonotonicNow() + kAnswerMost;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - MonotonicNow()).count();
    const int ready = left > 0 ? ::poll(&answer, 1, static_cast<int>(left)) : 0;
    if (ready == 0) return kNoStepAnswer;
    if (ready < 0 || reader.Fill(socket) == StepFrameReader::Outcome::kClosed) return 1;
    while (auto frame = reader.Next()) {
      if (frame->word == StepWord::kSay) WriteAll(STDERR_FILENO, frame->body);
      if (frame->word == StepWord::kExit) return frame->value;
    }
  }
}

}  // namespace divvy
