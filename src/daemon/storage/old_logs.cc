#include "daemon/storage/old_logs.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "base/text.h"
#include "platform/os/log_limit.h"

namespace divvy {
namespace {

constexpr int kFilesPerStep = 256;
// Freeing a log of many gigabytes takes a file system a while.
constexpr int kRemovalsPerStep = 32;
constexpr std::string_view kSuffix = ".log";

std::optional<JobId> JobOfLog(std::string_view name) {
  if (!name.ends_with(kSuffix)) return std::nullopt;
  const std::string_view number = name.substr(0, name.size() - kSuffix.size());
  if (number.empty() || number.front() == '0' || number.find_first_not_of("0123456789") != std::string_view::npos)
    return std::nullopt;
  const auto id = ParseInteger(number);
  return id ? std::optional(JobId(static_cast<std::uint64_t>(*id))) : std::nullopt;
}

}  // namespace

Result<bool> OldLogs::Step(Time ended_before) {
  if (listing_ == nullptr) listing_.reset(::opendir(directory_.c_str()));
  if (listing_ == nullptr)
    return FailedPrecondition("cannot read the folder of logs " + directory_ + ": " + std::strerror(errno));
  int removals = 0;
  for (int seen = 0; seen < kFilesPerStep && removals < kRemovalsPerStep; ++seen) {
    const dirent* entry = ::readdir(listing_.get());
    if (entry == nullptr) {
      listing_.reset();
      const std::string failure = std::exchange(failure_, "");
      if (!failure.empty()) return FailedPrecondition(failure);
      return false;
    }
    const std::string name = entry->d_name;
    if (!IsOld(name, ended_before)) continue;
    ++removals;
    if (::unlinkat(::dirfd(listing_.get()), name.c_str(), 0) == 0) {
      ++removed_;
    } else if (errno != ENOENT && failure_.empty()) {
      failure_ = "cannot remove the old log " + directory_ + "/" + name + ": " + std::strerror(errno);
    }
  }
  return true;
}

bool OldLogs::IsOld(const std::string& name, Time ended_before) {
  const auto job = JobOfLog(name);
  if (!job) return false;
  struct stat status {};
  if (::fstatat(::dirfd(listing_.get()), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return false;
  const Time written(std::chrono::seconds(status.st_mtim.tv_sec) + std::chrono::nanoseconds(status.st_mtim.tv_nsec));
  // Most files are young and need no lookup in the store.
  if (!S_ISREG(status.st_mode) || written >= ended_before) return false;
  // If the history does not know the job, only the mode shows that the file is divvy's own: a file that a user named is
  // created with the user's umask.
  const bool has_our_mode = HasOwnLogMode(status);
  if (store_ == nullptr) return has_our_mode && !is_alive_(*job);
  const auto record = store_->Find(*job);
  if (!record) return record.error().code == ErrorCode::kNotFound && has_our_mode;
  if (!IsFinal(record->state) || record->ended >= ended_before) return false;
  const auto spec = store_->Spec(*job);
  return spec && spec->output.empty() && !spec->is_foreground;
}

}  // namespace divvy
