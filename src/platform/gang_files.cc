#include "platform/gang_files.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/text.h"
#include "model/gang_environment.h"
#include "platform/launch_descriptor.h"
#include "platform/secret_file.h"
#include "platform/supervisor_watch.h"

namespace divvy {
namespace {

constexpr std::size_t kKeyDigits = 64;
constexpr std::size_t kFileMost = std::size_t{1} << 20;

Error Failed(const std::string& doing, const std::string& path) {
  return Internal(doing + " " + path + ": " + std::strerror(errno));
}

/// What arrives on `fd` until it is closed, a line has ended or `deadline` has come.
std::string ReadLine(int fd, Duration deadline) {
  std::string text;
  while (text.find('\n') == std::string::npos && text.size() < 4096) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - MonotonicNow()).count();
    pollfd one = {fd, POLLIN, 0};
    const int ready = left <= 0 ? 0 : ::poll(&one, 1, static_cast<int>(std::min<std::int64_t>(left, 3'600'000)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) break;
    std::array<char, 512> buffer;
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return text;
}

/// What ps shows of this process, from now on: a fork still has the line of what it was forked from, the job's own
/// command in it, and whoever ends that by its name would end this.
void ShowAs(const std::string& line) {
  const Descriptor file(::open("/proc/self/stat", O_RDONLY | O_CLOEXEC));
  std::array<char, 2048> text{};
  if (!file.is_open() || ::read(file.get(), text.data(), text.size() - 1) <= 0) return;
  // The second field is the command's name in brackets and may hold anything; the 48th and 49th say where its
  // arguments lie in our own memory.
  const char* at = std::strrchr(text.data(), ')');
  for (int field = 2; at != nullptr && field < 48; ++field) at = std::strchr(at + 1, ' ');
  if (at == nullptr) return;
  char* end = nullptr;
  auto* const begin = reinterpret_cast<char*>(std::strtoull(at, &end, 10));
  const auto* const behind = reinterpret_cast<char*>(std::strtoull(end, nullptr, 10));
  if (begin == nullptr || behind <= begin) return;
  const auto size = static_cast<std::size_t>(behind - begin);
  std::memset(begin, 0, size);
  std::memcpy(begin, line.data(), std::min(line.size(), size - 1));
}

/// In a fork of ours: never returns. What `main` prints follows our own pid and a blank.
[[noreturn]] void BecomeSteps(const GangStepsMain& main, const std::vector<std::string>& words, int out, int err) {
  const std::string own = std::to_string(::getpid()) + " ";
  ShowAs("divvy internal-steps " + words.back());
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const bool is_whole = nothing >= 0 && ::setpgid(0, 0) == 0 && ::dup2(nothing, 0) == 0 && ::dup2(out, 1) == 1 &&
                        ::dup2(err, 2) == 2 && ::write(1, own.data(), own.size()) > 0;
  ::_exit(is_whole ? main(words) : 1);
}

}  // namespace

Status WriteGangKey(const std::string& steps, const std::string& key) {
  const bool is_key =
      key.size() == kKeyDigits && std::ranges::all_of(key, [](unsigned char c) { return std::isxdigit(c) != 0; });
  if (!is_key) return InvalidArgument("the key of a job on several machines has 64 hexadecimal digits");
  return WriteSecret(GangKeyPath(steps), key + "\n", false);
}

Result<std::string> ReadGangKey(const std::string& steps) {
  DIVVY_TRY(const std::string text, ReadSecret(GangKeyPath(steps), kFileMost));
  const std::string key(Trim(text));
  const bool is_key =
      key.size() == kKeyDigits && std::ranges::all_of(key, [](unsigned char c) { return std::isxdigit(c) != 0; });
  if (!is_key) return CorruptData(GangKeyPath(steps) + " has no key in it: 64 hexadecimal digits");
  return key;
}

Status WriteMpiFiles(const std::string& steps, const GangFile& gang, const std::string& divvy) {
  const std::string link = steps + ".rsh";
  ::unlink(link.c_str());
  if (::symlink(divvy.c_str(), link.c_str()) != 0) return Failed("cannot make the link", link);
  DIVVY_CHECK(WriteSecret(steps + ".hosts", OpenMpiHosts(gang), false));
  return WriteSecret(steps + ".machines", HydraHosts(gang), false);
}

Result<GangFile> ReadGangFile(const std::string& steps) {
  DIVVY_TRY(const std::string text, ReadSecret(GangFilePath(steps), kFileMost));
  auto gang = ReadGangText(text);
  if (!gang) return CorruptData(GangFilePath(steps) + ": " + gang.error().message);
  return gang;
}

Result<GangSteps> StartGangSteps(const GangStepsMain& main, const std::string& steps, const std::string& listen,
                                 Duration patience) {
  std::array<int, 2> out = {-1, -1};
  std::array<int, 2> err = {-1, -1};
  if (::pipe2(out.data(), O_CLOEXEC) != 0) return Failed("cannot start the step process of", steps);
  const Descriptor out_end(out[0]);
  Descriptor out_start(out[1]);
  if (::pipe2(err.data(), O_CLOEXEC) != 0) return Failed("cannot start the step process of", steps);
  const Descriptor err_end(err[0]);
  Descriptor err_start(err[1]);
  const pid_t between = ::fork();
  if (between < 0) return Failed("cannot start the step process of", steps);
  if (between == 0) {
    const pid_t child = ::fork();
    if (child == 0) BecomeSteps(main, {"--listen=" + listen, "--stay", steps}, out[1], err[1]);
    ::_exit(child < 0 ? 1 : 0);
  }
  out_start.Reset();
  err_start.Reset();
  while (::waitpid(between, nullptr, 0) < 0 && errno == EINTR) {
  }
  const std::string said = ReadLine(out_end.get(), MonotonicNow() + patience);
  const auto numbers = SplitWords(said);
  const auto pid = numbers.empty() ? std::nullopt : ParseInteger(numbers[0]);
  const auto port = numbers.size() < 2 ? std::nullopt : ParseInteger(numbers[1]);
  if (pid && port && *port > 0 && *port <= 65'535)
    return GangSteps{static_cast<pid_t>(*pid), static_cast<std::uint16_t>(*port)};
  const std::string why(Trim(ReadLine(err_end.get(), MonotonicNow() + std::chrono::seconds(1))));
  if (pid && *pid > 0) ::kill(static_cast<pid_t>(*pid), SIGKILL);
  return Internal("the job's step process does not listen for other machines: " +
                  (why.empty() ? "it has said nothing in the time it was given" : why));
}

}  // namespace divvy
