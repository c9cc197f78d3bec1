#include "platform/records/step_list_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "platform/os/clock.h"

namespace divvy {
namespace {

constexpr std::size_t kSizeMost = 256 << 10;
constexpr std::size_t kEndedMost = 200;

std::string ReadFrom(int fd) {
  struct stat about = {};
  if (::fstat(fd, &about) != 0) return "";
  std::string text(std::min(static_cast<std::size_t>(about.st_size), kSizeMost * 2), '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::pread(fd, text.data() + size, text.size() - size, static_cast<off_t>(size));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    size += static_cast<std::size_t>(got);
  }
  text.resize(size);
  return text;
}

}  // namespace

std::string StepListPath(const std::string& run_directory, std::int64_t uid, std::uint64_t job) {
  return run_directory + "/steps-" + std::to_string(uid) + "/" + std::to_string(job);
}

Status MakeStepFolder(const std::string& run_directory, std::int64_t uid, std::int64_t gid, std::int64_t reader) {
  const std::string folder = run_directory + "/steps-" + std::to_string(uid);
  if (::mkdir(folder.c_str(), 0700) != 0) {
    if (errno == EEXIST) return {};
    return Internal("cannot make the folder for steps '" + folder + "': " + std::strerror(errno));
  }
  const gid_t group = static_cast<gid_t>(reader < 0 ? gid : reader);
  if (::geteuid() == 0 && ::chown(folder.c_str(), static_cast<uid_t>(uid), group) != 0)
    return Internal("cannot give the folder for steps '" + folder + "' to its user: " + std::strerror(errno));
  if (reader >= 0 && ::chmod(folder.c_str(), 02750) != 0)
    return Internal("cannot let the daemon read the folder for steps '" + folder + "': " + std::strerror(errno));
  return {};
}

void RemoveStepList(const std::string& run_directory, std::int64_t uid, std::uint64_t job) {
  const std::string path = StepListPath(run_directory, uid, job);
  ::unlink((path + ".sock").c_str());
  // Files of a job on several nodes (platform/records/gang_files.h).
  for (const char* end : {".key", ".hosts", ".machines", ".rsh"}) ::unlink((path + end).c_str());
  ::unlink((path + ".containers").c_str());  // The job's containers (daemon/node/container.h).
  ::unlink(path.c_str());
}

std::vector<StepLine> ReadStepListFile(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  struct stat status = {};
  if (!file.is_open() || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  return ReadStepList(ReadFrom(file.get()));
}

void ShareWithDaemon(int fd) { static_cast<void>(!::fchmod(fd, 0640)); }

StepListFile::Outcome StepListFile::Lock() {
  file_.Reset(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
  if (!file_.is_open()) return Outcome::kFailed;
  ShareWithDaemon(file_.get());
  return ::flock(file_.get(), LOCK_EX | LOCK_NB) == 0 ? Outcome::kLocked : Outcome::kTaken;
}

bool StepListFile::Exists() const {
  struct stat about = {};
  return ::fstat(file_.get(), &about) != 0 || about.st_nlink > 0;
}

StepNumber StepListFile::TakeOver() {
  std::vector<StepLine> steps = ReadStepList(ReadFrom(file_.get()));
  size_ = static_cast<std::size_t>(std::max<off_t>(::lseek(file_.get(), 0, SEEK_END), 0));
  for (StepLine& step : steps) {
    if (step.state == StepState::kEnded) continue;
    step.state = StepState::kEnded;
    step.code = 128 + SIGKILL;
    step.ended = WallNow();
    Write(step);
  }
  return steps.empty() ? 0 : steps.back().number + 1;
}

void StepListFile::Write(const StepLine& step) {
  const std::string line = StepLineText(step);
  if (size_ + line.size() > kSizeMost) {
    const std::string shorter = ShortenStepList(ReadFrom(file_.get()), kEndedMost);
    if (::ftruncate(file_.get(), 0) == 0) size_ = 0;
    const ssize_t wrote = ::pwrite(file_.get(), shorter.data(), shorter.size(), 0);
    size_ = static_cast<std::size_t>(std::max<ssize_t>(wrote, 0));
  }
  const ssize_t wrote = ::pwrite(file_.get(), line.data(), line.size(), static_cast<off_t>(size_));
  if (wrote == static_cast<ssize_t>(line.size())) size_ += line.size();
}

}  // namespace divvy
