#include "platform/steps/step_inside.h"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "platform/os/spawn.h"
#include "platform/records/step_wire.h"
#include "platform/steps/step_client.h"
#include "platform/steps/step_server.h"

namespace divvy {
namespace {

/// Limit of output that the caller has not taken; the step blocks then. The same amount of its input is requested
/// ahead.
constexpr std::size_t kWindow = std::size_t{64} << 10;
/// Limit of output that descendants of the step write after it has ended.
constexpr std::size_t kRestMost = std::size_t{1} << 20;

bool IsLater(ssize_t result) { return result < 0 && (errno == EAGAIN || errno == EINTR); }

void NeverWait(int fd) { ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK); }

class Inside {
 public:
  explicit Inside(const InsideOptions& options) : options_(options) {}

  /// Returns this process's exit code, which is not used.
  int Run() {
    ::signal(SIGPIPE, SIG_IGN);
    BlockSignals();
    while (!is_over_) {
      if (!Wait()) break;
      while (auto frame = reader_.Next()) OnFrame(*std::move(frame));
    }
    // The step process notices that its caller is gone, and ends the step.
    if (child_ > 0) ::kill(child_, SIGKILL);
    return 0;
  }

 private:
  // Signals to the whole job are blocked here: they reach the step directly, and this process must still report its
  // exit code.
  void BlockSignals() {
    sigset_t set;
    ::sigemptyset(&set);
    for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) ::sigaddset(&set, signal);
    ::sigprocmask(SIG_BLOCK, &set, nullptr);
    signals_.Reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  }

  /// Returns false if the caller has gone.
  bool Wait() {
    const bool has_room = unsent_.size() < kWindow;
    std::array<pollfd, 5> polled = {{{STDIN_FILENO, POLLIN, 0},
                                     {signals_.get(), POLLIN, 0},
                                     {has_room ? out_[0].get() : -1, POLLIN, 0},
                                     {has_room ? out_[1].get() : -1, POLLIN, 0},
                                     {typed_.empty() ? -1 : in_.get(), POLLOUT, 0}}};
    if (!unsent_.empty()) polled[0].events |= POLLOUT;
    if (::poll(polled.data(), polled.size(), -1) < 0) return errno == EINTR;
    for (std::size_t i = 0; i < out_.size(); ++i) {
      if (polled[i + 2].revents != 0) ReadOutput(i);
    }
    if (polled[4].revents != 0) WriteInput();
    if (polled[1].revents != 0 && !LookAtChild()) return false;
    if (polled[0].revents == 0) return true;
    Flush();
    return reader_.Fill(STDIN_FILENO) != StepFrameReader::Outcome::kClosed;
  }

  void OnFrame(StepFrame frame) {
    switch (frame.word) {
      case StepWord::kStop:
      case StepWord::kLimit:
        if (child_ < 0) Change(frame);
        break;
      case StepWord::kCall:
        if (options_.stops_only) return End("divvy: error: only the job's own user may start steps in it\n", 1);
        if (child_ < 0) Call(std::move(frame));
        break;
      case StepWord::kInput:
        typed_ += frame.body;
        if (frame.body.empty()) is_input_over_ = true;
        WriteInput();
        break;
      case StepWord::kWindow:
        Resize(frame.value);
        break;
      case StepWord::kSignal:
        if (child_ > 0) ::kill(child_, frame.value);
        break;
      case StepWord::kInterrupt:
        if (child_ > 0) ::kill(child_, SIGINT);
        break;
      default:
        break;
    }
  }

  /// Changes a step of any caller in the job.
  void Change(const StepFrame& frame) {
    const StepChange change = {frame.word, frame.value, ParseInteger(frame.body).value_or(-1)};
    End("", ChangeStep(StepSocketOf(options_.file), change).value_or(1));
  }

  void Call(StepFrame frame) {
    const bool has_terminal = frame.value == 1;
    // The caller's streams are on another node. /dev/null takes the place of the descriptors that a local caller sends.
    for (int i = 0; i < 3; ++i) frame.descriptors.emplace_back(::open("/dev/null", O_RDWR | O_CLOEXEC));
    auto call = DecodeStepCall(std::move(frame));
    if (!call)
      return End("divvy: error: the step request is incomplete; both nodes need the same release of divvy\n", 1);
    std::array<Descriptor, 3> streams;
    if (!(has_terminal ? OpenTerminal(streams) : OpenPipes(streams)))
      return End("divvy: error: no terminal or pipe is left for the step\n", 1);
    options_.move_inside(call->environment);
    ::umask(call->umask);
    EnterDirectory(*call);
    if (!StartCall(*call, streams)) return End("divvy: error: the step's caller cannot be started in the job\n", 1);
    Send(StepWord::kWantInput, static_cast<int>(kWindow), "");
  }

  /// Enters the caller's directory if it exists here; otherwise stays in the job's directory.
  void EnterDirectory(StepCall& call) {
    if (::chdir(call.directory.c_str()) == 0) return;
    const std::string why = std::strerror(errno);
    std::array<char, 4096> own{};
    if (::getcwd(own.data(), own.size()) == nullptr) own = {"/"};
    char host[256] = "";
    ::gethostname(host, sizeof host - 1);
    Send(StepWord::kSay, 0,
         call.words.front() + ": cannot enter " + call.directory + " on " + host + " (" + why +
             "): the step runs in the job's " + own.data() + "\n");
    for (std::string& entry : call.environment) {
      if (entry.starts_with("PWD=")) entry = std::string("PWD=") + own.data();
    }
  }

  bool OpenPipes(std::array<Descriptor, 3>& streams) {
    for (int i = 0; i < 3; ++i) {
      std::array<int, 2> ends;
      if (::pipe2(ends.data(), O_CLOEXEC) != 0) return false;
      const bool is_input = i == 0;
      streams[static_cast<std::size_t>(i)].Reset(ends[is_input ? 0 : 1]);
      Descriptor& ours = is_input ? in_ : out_[static_cast<std::size_t>(i) - 1];
      ours.Reset(ends[is_input ? 1 : 0]);
      NeverWait(ours.get());
    }
    return true;
  }

  bool OpenTerminal(std::array<Descriptor, 3>& streams) {
    int master = -1, slave = -1;
    if (::openpty(&master, &slave, nullptr, nullptr, nullptr) != 0) return false;
    for (const int fd : {master, slave}) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    out_[0].Reset(master);
    in_.Reset(::fcntl(master, F_DUPFD_CLOEXEC, 3));
    NeverWait(master);
    streams[0].Reset(slave);
    for (int i = 1; i < 3; ++i) streams[static_cast<std::size_t>(i)].Reset(::fcntl(slave, F_DUPFD_CLOEXEC, 3));
    is_terminal_ = true;
    Resize(window_);
    return in_.is_open();
  }

  bool StartCall(const StepCall& call, const std::array<Descriptor, 3>& streams) {
    std::vector<std::string> words = call.words;
    if (words.front() != "srun") words.insert(words.begin(), "divvy");
    Spawn spawn(Spawn::Apart::kGroup);
    for (int fd = 0; fd < 3; ++fd) spawn.Give(fd, streams[static_cast<std::size_t>(fd)].get());
    spawn.Reset(SIGPIPE);
    const auto child = spawn.Start("/proc/self/exe", words, call.environment);
    child_ = child ? *child : -1;
    return child_ > 0;
  }

  void Resize(int packed) {
    window_ = packed;
    if (!is_terminal_ || packed == 0) return;
    winsize size = {};
    size.ws_row = static_cast<unsigned short>(packed >> 16);
    size.ws_col = static_cast<unsigned short>(packed & 0xffff);
    ::ioctl(out_[0].get(), TIOCSWINSZ, &size);
    if (child_ > 0) ::kill(child_, SIGWINCH);
  }

  void WriteInput() {
    std::size_t written = 0;
    while (written < typed_.size() && in_.is_open()) {
      const ssize_t put = ::write(in_.get(), typed_.data() + written, typed_.size() - written);
      if (IsLater(put)) break;
      if (put > 0) {
        written += static_cast<std::size_t>(put);
      } else {
        in_.Reset();  // The reader is gone.
      }
    }
    if (!in_.is_open()) written = typed_.size();
    typed_.erase(0, written);
    if (written > 0) Send(StepWord::kWantInput, static_cast<int>(written), "");
    if (typed_.empty() && is_input_over_ && !is_terminal_) in_.Reset();
  }

  /// Returns false at the end of the stream or if no data is available now.
  bool ReadOutput(std::size_t stream) {
    std::array<char, 16'384> buffer;
    const ssize_t got = ::read(out_[stream].get(), buffer.data(), buffer.size());
    if (IsLater(got)) return false;
    if (got <= 0) {
      out_[stream].Reset();
      return false;
    }
    Send(StepWord::kOutput, static_cast<int>(stream) + 1, {buffer.data(), static_cast<std::size_t>(got)});
    return true;
  }

  /// Returns false if everything was reported.
  bool LookAtChild() {
    signalfd_siginfo info = {};
    while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    }
    int status = 0;
    if (child_ <= 0 || ::waitpid(child_, &status, WNOHANG) != child_) return true;
    child_ = -1;
    for (std::size_t i = 0; i < out_.size(); ++i) {
      for (std::size_t rest = 0; rest < kRestMost && out_[i].is_open() && ReadOutput(i); rest += 16'384) {
      }
    }
    End("", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    return false;
  }

  void Send(StepWord word, int value, std::string_view body) {
    unsent_ += EncodeStepFrame(word, value, body);
    Flush();
  }

  void Flush() {
    while (!unsent_.empty()) {
      const ssize_t sent = ::send(STDIN_FILENO, unsent_.data(), unsent_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (IsLater(sent)) return;
      // If sending fails, the caller has gone: the unsent data is dropped, and the next poll reports the end.
      unsent_.erase(0, sent < 0 ? std::string::npos : static_cast<std::size_t>(sent));
    }
  }

  /// Sends the last messages and waits until the caller has taken them.
  void End(std::string_view text, int code) {
    if (!text.empty()) Send(StepWord::kSay, 0, text);
    Send(StepWord::kExit, code, "");
    while (!unsent_.empty()) {
      pollfd one = {STDIN_FILENO, POLLOUT, 0};
      ::poll(&one, 1, -1);
      Flush();
    }
    is_over_ = true;
  }

  const InsideOptions& options_;
  Descriptor signals_;
  StepFrameReader reader_;
  Descriptor in_;                  // The step's input, which we write.
  std::array<Descriptor, 2> out_;  // The step's outputs, which we read; a terminal is the first.
  std::string typed_;              // Input not written yet.
  std::string unsent_;             // Output not sent to the caller yet.
  pid_t child_ = -1;
  int window_ = 0;
  bool is_terminal_ = false;
  bool is_input_over_ = false;
  bool is_over_ = false;
};

}  // namespace

int RunInside(const InsideOptions& options) { return Inside(options).Run(); }

}  // namespace divvy
