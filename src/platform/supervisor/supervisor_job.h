// Starting the job's first process, with the user's rights, in the directory, with the files and limits that were asked
// for; and saying exactly why that failed.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "platform/isolation/job_mounts.h"
#include "platform/supervisor/launch.h"

namespace divvy {

/// What to execute: argv, and the paths to try for it in turn.
struct JobProgram {
  std::vector<std::string> argv;
  std::vector<std::string> candidates;
  int executable = -1;      // The program itself, opened with O_PATH, in place of any path; -1: by path.
  std::string shown_name;   // In errors: what the user wrote.
  std::string interpreter;  // A script's, as its first line names it; empty for a command.
};

/// A command is searched in the PATH of the job's own environment. A script runs as `script_path`: its "#!" line is
/// read here and not by the kernel, because /run is often mounted noexec. Without either there is no argv.
JobProgram ResolveProgram(const LaunchRequest& request, const std::string& script_path);

struct StartPlan {
  const LaunchRequest* request = nullptr;
  const JobProgram* program = nullptr;
  const std::vector<gid_t>* groups = nullptr;
  bool changes_user = false;
  int own_log = -1;                       // Standard output when the log is divvy's own.
  std::string terminal;                   // Path of the slave side; empty: no terminal.
  std::vector<std::string> cgroup_procs;  // Files to write "0" to.
  const MountPlan* mounts = nullptr;      // Null: it sees what all see.
  const SeatEntry* seat = nullptr;        // Of a gang's part: called with the program's argv, and nothing is executed.
  int key = -1;                           // What that reads its key from.
  int record = -1;  // The run record: the new process itself writes `watch` and its identity there.
  std::string watch;
  bool is_another = false;               // Not the job's first process: no record is written.
  const JobNamespaces* joins = nullptr;  // It enters these, made for the job's first process.
};

struct StartedJob {
  ProcessIdentity process;
  JobNamespaces namespaces;  // Made by plan.mounts.
  Time started = kNoTime;
  std::string failure;   // Not empty: nothing runs, and the process is reaped.
  int failure_code = 0;  // model/exit_codes.h
};

/// Returns when the program has been executed or could not be. The record is written before the first instruction of
/// the program. Requires: one thread, all signals blocked.
StartedJob StartJob(const StartPlan& plan);

}  // namespace divvy
