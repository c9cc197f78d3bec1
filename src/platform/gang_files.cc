#include "platform/gang_files.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
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

pid_t Spawn(const std::vector<std::string>& words, const std::vector<std::string>& environment, int out, int err,
            int& failure) {
  std::vector<char*> argv;
  std::vector<char*> entries;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  for (const std::string& entry : environment) entries.push_back(const_cast<char*>(entry.c_str()));
  argv.push_back(nullptr);
  entries.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDWR, 0);
  ::posix_spawn_file_actions_adddup2(&actions, out, 1);
  ::posix_spawn_file_actions_adddup2(&actions, err, 2);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none;
  ::sigemptyset(&none);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  pid_t pid = -1;
  failure = ::posix_spawn(&pid, words.front().c_str(), &actions, &attributes, argv.data(), entries.data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  return failure == 0 ? pid : -1;
}

}  // namespace

Status WriteGangKey(const std::string& steps, const std::string& key) {
  const bool is_key =
      key.size() == kKeyDigits && std::ranges::all_of(key, [](unsigned char c) { return std::isxdigit(c) != 0; });
  if (!is_key) return InvalidArgument("the key of a job on several machines has 64 hexadecimal digits");
  // Of an earlier attempt: it would name machines that are none of this one's.
  ::unlink(GangFilePath(steps).c_str());
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

Status WriteGangFile(const std::string& steps, const GangFile& gang, const std::string& divvy) {
  const std::string link = steps + ".rsh";
  ::unlink(link.c_str());
  if (::symlink(divvy.c_str(), link.c_str()) != 0) return Failed("cannot make the link", link);
  DIVVY_CHECK(WriteSecret(steps + ".hosts", OpenMpiHosts(gang), false));
  DIVVY_CHECK(WriteSecret(steps + ".machines", HydraHosts(gang), false));
  return WriteSecret(GangFilePath(steps), GangFileText(gang), false);
}

Result<GangFile> ReadGangFile(const std::string& steps) {
  DIVVY_TRY(const std::string text, ReadSecret(GangFilePath(steps), kFileMost));
  auto gang = ReadGangText(text);
  if (!gang) return CorruptData(GangFilePath(steps) + ": " + gang.error().message);
  return gang;
}

std::vector<std::string> GangStepsCommand(const std::string& divvy, const std::string& steps, const std::string& listen,
                                          bool stays) {
  std::vector<std::string> words = {divvy, "internal-steps", "--listen=" + listen};
  if (stays) words.emplace_back("--stay");
  words.push_back(steps);
  return words;
}

Result<GangSteps> StartGangSteps(const std::string& divvy, const std::string& steps, const std::string& listen,
                                 const std::vector<std::string>& environment, Duration patience) {
  std::array<int, 2> out = {-1, -1};
  std::array<int, 2> err = {-1, -1};
  if (::pipe2(out.data(), O_CLOEXEC) != 0) return Failed("cannot start the step process of", steps);
  const Descriptor out_end(out[0]);
  Descriptor out_start(out[1]);
  if (::pipe2(err.data(), O_CLOEXEC) != 0) return Failed("cannot start the step process of", steps);
  const Descriptor err_end(err[0]);
  Descriptor err_start(err[1]);
  int failure = 0;
  GangSteps started;
  started.pid = Spawn(GangStepsCommand(divvy, steps, listen, true), environment, out[1], err[1], failure);
  if (started.pid < 0) return Internal("cannot start " + divvy + ": " + std::strerror(failure));
  out_start.Reset();
  err_start.Reset();
  const auto port = ParseInteger(Trim(ReadLine(out_end.get(), MonotonicNow() + patience)));
  if (port && *port > 0 && *port <= 65'535) {
    started.port = static_cast<std::uint16_t>(*port);
    return started;
  }
  ::kill(started.pid, SIGKILL);
  while (::waitpid(started.pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  const std::string why(Trim(ReadLine(err_end.get(), MonotonicNow() + std::chrono::seconds(1))));
  return Internal("the job's step process does not listen for other machines: " +
                  (why.empty() ? "it has said nothing in the time it was given" : why));
}

}  // namespace divvy
