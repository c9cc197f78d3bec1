#include "platform/supervisor/supervisor_files.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "platform/os/process_tree.h"

namespace divvy {
namespace {

// A record that stays locked longer belongs to a working supervisor; one that is being abandoned is unlocked almost at
// once.
constexpr auto kClaimWait = std::chrono::seconds(1);

/// The largest field is LaunchRequest::about, which is shorter than half of this.
constexpr std::size_t kMaxRecordSize = std::size_t{64} << 10;

bool Lock(int fd) {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  return ::fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

// `file` is the record of a supervisor that is gone. Returns true if that supervisor started nothing or an earlier
// attempt; its record is removed then.
bool ClearAway(int file, const LaunchRequest& request) {
  struct stat status = {};
  if (::fstat(file, &status) == 0 && status.st_nlink == 0) return true;
  std::string text(kMaxRecordSize, '\0');
  const ssize_t size = ::read(file, text.data(), text.size());
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  const RunRecord record = ReadRecordFields(RecordFields(text));
  const bool has_run = record.process.pid != 0 || record.exit.has_value();
  if (has_run && record.attempt >= request.attempt) return false;
  ::unlink(ToString(request.job).c_str());
  return true;
}

bool IsLauncherAlive(const SupervisorSetup& setup) {
  if (setup.launcher_pidfd < 0) return IsAlive(setup.launcher);
  pollfd polled = {.fd = setup.launcher_pidfd, .events = POLLIN, .revents = 0};
  return ::poll(&polled, 1, 0) == 0;
}

std::string AbsolutePath(const LaunchRequest& request, const std::string& path) {
  return path.starts_with('/') ? path : request.directory + "/" + path;
}

bool GiveTo(const FileOwner& owner, int file) { return !owner.is_set() || ::fchown(file, owner.uid, owner.gid) == 0; }

}  // namespace

Result<Descriptor> ClaimRunRecord(const LaunchRequest& request, const SupervisorSetup& setup) {
  const std::string name = ToString(request.job);
  const auto give_up = std::chrono::steady_clock::now() + kClaimWait;
  while (true) {
    // If another daemon may read the folder, files in it get that daemon's group.
    Descriptor record(::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW,
                             setup.serves_another() ? 0640 : 0600));
    if (!record.is_open() && errno != EEXIST) {
      return Internal("cannot make the run record '" + name + "': " + std::strerror(errno));
    }
    if (record.is_open()) {
      const bool is_locked = Lock(record.get());
      if (!IsLauncherAlive(setup)) {
        ::unlink(name.c_str());
        return Descriptor();
      }
      // Before this supervisor had locked the new record, another one may have removed it as a leftover. Then it has no
      // links.
      struct stat status = {};
      if (is_locked && ::fstat(record.get(), &status) == 0 && status.st_nlink > 0) return record;
    } else {
      const Descriptor other(::open(name.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
      if (other.is_open() && Lock(other.get())) {
        if (!ClearAway(other.get(), request)) return Descriptor();
        continue;
      }
    }
    // Another supervisor watches this job, and will report.
    if (std::chrono::steady_clock::now() > give_up) return Descriptor();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

std::vector<OpenedFile> FilesToOpen(const LaunchRequest& request) {
  std::vector<OpenedFile> files;
  const auto add = [&](const std::string& path, int stream, std::string_view role) {
    if (path.empty() || stream >= 0) return;
    std::string full = AbsolutePath(request, path);
    const JobIsolation& isolation = request.isolation;
    const bool is_private = (isolation.has_own_tmp && full.starts_with("/tmp/")) ||
                            (isolation.has_own_shm && full.starts_with("/dev/shm/"));
    if (!is_private) files.push_back({std::move(full), role});
  };
  if (!request.is_own_log) add(request.output, request.wants_pty ? -1 : request.streams[1], "output");
  if (request.wants_pty) return files;
  add(request.input, request.streams[0], "input");
  if (request.error != request.output) add(request.error, request.streams[2], "error");
  return files;
}

Result<std::string> WriteScript(const LaunchRequest& request, const FileOwner& owner) {
  // The job's id makes the name unique; the user's name for the script is what $0 shows.
  std::string base = request.script_name.substr(request.script_name.rfind('/') + 1);
  if (base.empty()) base = "script";
  const std::string name = ToString(request.job) + "." + base.substr(0, 200);
  ::unlink(name.c_str());
  const Descriptor file(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0500));
  const std::string& text = request.script;
  const bool is_written =
      file.is_open() && ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (is_written && GiveTo(owner, file.get())) return name;
  const Error error = Internal("cannot write the script '" + name + "': " + std::strerror(errno));
  ::unlink(name.c_str());
  return error;
}

namespace {

// A log for a daemon with fewer rights is opened with that daemon's rights, because it is in the daemon's folder. It is
// given to the job's user only if it belonged to the daemon, or to that user from an earlier attempt.
Descriptor OpenKeptLog(const std::string& path, int flags, const FileOwner& owner, const SupervisorSetup& setup) {
  if (!setup.serves_another()) {
    Descriptor log(::open(path.c_str(), flags | O_NOFOLLOW, 0600));
    if (log.is_open() && !GiveTo(owner, log.get())) log.Reset();
    return log;
  }
  const auto gid = static_cast<gid_t>(setup.daemon_gid);
  const std::vector<gid_t> groups = {gid};
  const auto uid = static_cast<uid_t>(setup.daemon_uid);
  Descriptor log = OpenAs({uid, gid, &groups}, path, flags | O_NOFOLLOW);
  struct stat about = {};
  if (!log.is_open() || ::fstat(log.get(), &about) != 0) return {};
  const bool is_theirs = about.st_uid == owner.uid && about.st_gid == gid;
  errno = EPERM;
  if (!S_ISREG(about.st_mode) || about.st_nlink != 1 || (about.st_uid != uid && !is_theirs)) return {};
  if (!is_theirs && (::fchmod(log.get(), 0660) != 0 || ::fchown(log.get(), owner.uid, gid) != 0)) return {};
  return log;
}

}  // namespace

Result<Descriptor> OpenLog(const LaunchRequest& request, const FileOwner& owner, const SupervisorSetup& setup) {
  const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (request.appends_output ? 0 : O_TRUNC);
  const std::string& path = request.output;
  Descriptor log =
      request.is_own_log ? OpenKeptLog(path, flags, owner, setup) : OpenAs(owner, AbsolutePath(request, path), flags);
  if (log.is_open()) return log;
  return Internal("cannot open '" + path + "' for writing: " + std::strerror(errno));
}

}  // namespace divvy
