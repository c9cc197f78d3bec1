#include "platform/records/gang_files.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/text.h"
#include "model/steps/gang_environment.h"
#include "platform/os/clock.h"
#include "platform/os/process_title.h"
#include "platform/os/record_text.h"
#include "platform/os/unique_fd.h"
#include "platform/users/secret_file.h"

namespace divvy {
namespace {

constexpr std::size_t kKeyDigits = 64;
constexpr std::size_t kFileMost = std::size_t{1} << 20;
constexpr const char* kJobVariable = "DIVVY_JOB_ID";

Error GangFileError(const std::string& doing, const std::string& path) {
  return Internal(doing + " " + path + ": " + std::strerror(errno));
}

/// Reads from `fd` until it is closed, a line is complete or `deadline` has passed.
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

/// Like fork(), but the new process is a child of our parent. The C library has no such call. Its fork() would only do
/// more for threads, and there are none.
long ForkAsSibling() { return ::syscall(SYS_clone, CLONE_PARENT | SIGCHLD, nullptr, nullptr, nullptr, 0); }

/// Runs in a fork of ours and never returns. The output of `main` is preceded by our own pid and a blank.
[[noreturn]] void BecomeSteps(const GangStepsMain& main, const std::vector<std::string>& words, int out, int err) {
  const std::string own = std::to_string(::getpid()) + " ";
  const char* job = ::getenv(kJobVariable);
  ShowProcessAs("divvy internal-steps " + words.back(), std::string(kJobVariable) + "=" + (job == nullptr ? "" : job));
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const bool is_placed =
      nothing >= 0 && ::setpgid(0, 0) == 0 && ::dup2(nothing, 0) == 0 && ::dup2(out, 1) == 1 && ::dup2(err, 2) == 2;
  CloseFrom(3);
  ::_exit(is_placed && ::write(1, own.data(), own.size()) > 0 ? main(words) : 1);
}

constexpr std::size_t kReportMost = 4096;

std::string StagedPath(const std::string& steps) { return steps + ".going"; }

}  // namespace

Status WriteGangKey(const std::string& steps, const std::string& key) {
  const bool is_key =
      key.size() == kKeyDigits && std::ranges::all_of(key, [](unsigned char c) { return std::isxdigit(c) != 0; });
  if (!is_key) return InvalidArgument("the key of a job on several nodes must have 64 hexadecimal digits");
  return WriteSecret(GangKeyPath(steps), key + "\n", false);
}

Result<std::string> ReadGangKey(const std::string& steps) {
  DIVVY_TRY(const std::string text, ReadSecret(GangKeyPath(steps), kFileMost));
  const std::string key(Trim(text));
  const bool is_key =
      key.size() == kKeyDigits && std::ranges::all_of(key, [](unsigned char c) { return std::isxdigit(c) != 0; });
  if (!is_key) return CorruptData(GangKeyPath(steps) + " has no key; expected 64 hexadecimal digits");
  return key;
}

Status WriteMpiFiles(const std::string& steps, const GangFile& gang, const std::string& divvy) {
  const std::string link = steps + ".rsh";
  ::unlink(link.c_str());
  if (::symlink(divvy.c_str(), link.c_str()) != 0) return GangFileError("cannot make the link", link);
  DIVVY_CHECK(WriteSecret(steps + ".hosts", OpenMpiHosts(gang), false));
  return WriteSecret(steps + ".machines", HydraHosts(gang), false);
}

Result<GangFile> ReadGangFile(const std::string& steps) {
  DIVVY_TRY(const std::string text, ReadSecret(GangFilePath(steps), kFileMost));
  auto gang = ReadGangText(text);
  if (!gang) return CorruptData(GangFilePath(steps) + ": " + gang.error().message);
  return gang;
}

std::optional<AllocationReport> ReadAllocationReport(const std::string& steps) {
  // The file belongs to the user, so reading it never blocks and stops at the maximum size of a report.
  const std::string path = steps + ".seat";
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  struct stat about = {};
  if (!file.is_open() || ::fstat(file.get(), &about) != 0 || !S_ISREG(about.st_mode)) return std::nullopt;
  std::array<char, kReportMost> text;
  const ssize_t size = ::read(file.get(), text.data(), text.size());
  if (size <= 0) return std::nullopt;
  const RecordFields fields(std::string_view(text.data(), static_cast<std::size_t>(size)));
  AllocationReport report;
  report.port = static_cast<std::uint16_t>(std::clamp<std::int64_t>(fields.Number("port"), 0, 65'535));
  report.failure = fields.Text("failure");
  if (report.port == 0 && report.failure.empty()) return std::nullopt;
  return report;
}

Status StageGo(const std::string& steps, std::string_view gang, std::int64_t uid, std::int64_t gid) {
  const std::string path = StagedPath(steps);
  const auto failed = [&] { return Internal("cannot write '" + path + "': " + std::strerror(errno)); };
  ::unlink(path.c_str());
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.is_open()) return failed();
  if (::geteuid() == 0 && ::fchown(file.get(), static_cast<uid_t>(uid), static_cast<gid_t>(gid)) != 0) return failed();
  if (::write(file.get(), gang.data(), gang.size()) != static_cast<ssize_t>(gang.size())) return failed();
  return {};
}

bool SayGo(const std::string& steps) {
  if (::access(GangFilePath(steps).c_str(), F_OK) == 0) return true;
  return ::rename(StagedPath(steps).c_str(), GangFilePath(steps).c_str()) == 0;
}

std::optional<Time> WentAt(const std::string& steps) {
  struct stat about = {};
  if (::lstat(GangFilePath(steps).c_str(), &about) != 0) return std::nullopt;
  return Time(std::chrono::seconds(about.st_mtim.tv_sec) + std::chrono::nanoseconds(about.st_mtim.tv_nsec));
}

void RemoveAllocationFiles(const std::string& steps) {
  for (const char* end : {".seat", ".going", ".go"}) ::unlink((steps + end).c_str());
}

Result<GangSteps> StartGangSteps(const GangStepsMain& main, const std::string& steps, const std::string& listen,
                                 Duration timeout) {
  std::array<int, 2> out = {-1, -1};
  std::array<int, 2> err = {-1, -1};
  if (::pipe2(out.data(), O_CLOEXEC) != 0) return GangFileError("cannot start the step process of", steps);
  const Descriptor out_end(out[0]);
  Descriptor out_start(out[1]);
  if (::pipe2(err.data(), O_CLOEXEC) != 0) return GangFileError("cannot start the step process of", steps);
  const Descriptor err_end(err[0]);
  Descriptor err_start(err[1]);
  const long child = ForkAsSibling();
  if (child < 0) return GangFileError("cannot start the step process of", steps);
  if (child == 0) BecomeSteps(main, {"--listen=" + listen, "--stay", steps}, out[1], err[1]);
  out_start.Reset();
  err_start.Reset();
  const std::string said = ReadLine(out_end.get(), MonotonicNow() + timeout);
  const auto numbers = SplitWords(said);
  const auto pid = numbers.empty() ? std::nullopt : ParseInteger(numbers[0]);
  const auto port = numbers.size() < 2 ? std::nullopt : ParseInteger(numbers[1]);
  if (pid && port && *port > 0 && *port <= 65'535)
    return GangSteps{static_cast<pid_t>(*pid), static_cast<std::uint16_t>(*port)};
  const std::string why(Trim(ReadLine(err_end.get(), MonotonicNow() + std::chrono::seconds(1))));
  if (pid && *pid > 0) ::kill(static_cast<pid_t>(*pid), SIGKILL);
  return Internal("the job's step process does not listen for other nodes: " +
                  (why.empty() ? "it did not report in time" : why));
}

}  // namespace divvy
