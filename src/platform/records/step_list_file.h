// The file that lists a job's steps (model/steps/step_list.h): written by the job's step process, read by others.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "model/steps/step_list.h"
#include "platform/os/unique_fd.h"

namespace divvy {

/// Returns RUN_DIRECTORY/steps-UID/JOB, where job `job` of user `uid` lists its steps. The folder belongs to the user.
std::string StepListPath(const std::string& run_directory, std::int64_t uid, std::uint64_t job);

/// Creates the user's folder for these files. `reader`: the group of a daemon with fewer rights than the launcher,
/// which may read them; -1: only the user may. Succeeds if the folder exists.
Status MakeStepFolder(const std::string& run_directory, std::int64_t uid, std::int64_t gid, std::int64_t reader = -1);
/// Lets the folder's group read a file in it, whatever the job's umask. This is safe: the group is the daemon's, or may
/// not enter the folder.
void ShareWithDaemon(int fd);
/// Removes the list, its socket and the other files of the job next to it. Succeeds if they do not exist.
void RemoveStepList(const std::string& run_directory, std::int64_t uid, std::uint64_t job);

/// Returns the steps in a user's own file in ascending order; empty if there are none. Never blocks, and never reads
/// more than a valid file can hold.
std::vector<StepLine> ReadStepListFile(const std::string& path);

class StepListFile {
 public:
  explicit StepListFile(std::string path) : path_(std::move(path)) {}

  enum class Outcome { kLocked, kTaken, kFailed };
  /// Opens the job's list of steps and locks it until this object is destroyed. kTaken: another process holds the lock.
  /// kFailed: the file cannot be created.
  Outcome Lock();
  /// Returns false once the list was removed; by that the job's agent signals that the job is over. Requires: Lock()
  /// has succeeded.
  bool Exists() const;
  /// Returns the number of the next step. Marks steps that an earlier step process left unfinished as ended. Requires:
  /// Lock() has succeeded.
  StepNumber TakeOver();
  /// Adds a line about the step to the list. If the disk is full, the line is missing and the step continues.
  void Write(const StepLine& step);

 private:
  std::string path_;
  Descriptor file_;
  std::size_t size_ = 0;
};

}  // namespace divvy
