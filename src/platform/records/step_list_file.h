// The file that lists a job's steps (model/steps/step_list.h), as its step process writes it and others read it.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "model/steps/step_list.h"
#include "platform/os/launch_descriptor.h"

namespace divvy {

/// RUN_DIRECTORY/steps-UID/JOB: where job `job` of user `uid` lists its steps. Its folder is the user's own.
std::string StepListPath(const std::string& run_directory, std::int64_t uid, std::uint64_t job);

/// The folder of such files, its user's. `reader`: the group of a daemon with fewer rights than the launcher, which may
/// read them; -1: none but the user. Fine when it is there.
Status MakeStepFolder(const std::string& run_directory, std::int64_t uid, std::int64_t gid, std::int64_t reader = -1);
/// Lets the folder's group read a file in it, whatever the job's umask: the group is the daemon's, or may not enter.
void ShareWithDaemon(int fd);
/// Removes the list and the socket beside it; fine when they are not there.
void RemoveStepList(const std::string& run_directory, std::int64_t uid, std::uint64_t job);

/// The steps in a user's own file, ascending; empty when there are none. Never waits, and never reads beyond what its
/// writer may have written.
std::vector<StepLine> ReadStepListFile(const std::string& path);

class StepListFile {
 public:
  explicit StepListFile(std::string path) : path_(std::move(path)) {}

  enum class Outcome { kLocked, kTaken, kFailed };
  /// Opens and locks it for as long as this lives; kTaken when another has it, kFailed when it cannot be made.
  Outcome Lock();
  /// False once the file was removed, which is how a job's agent says that the job is over. Requires: locked.
  bool Exists() const;
  /// The number of the next step. What an earlier step process did not see the end of has ended with it. Requires:
  /// locked.
  StepNumber TakeOver();
  /// A full disk keeps the line from the list, and the step goes on.
  void Write(const StepLine& step);

 private:
  std::string path_;
  Descriptor file_;
  std::size_t size_ = 0;
};

}  // namespace divvy
