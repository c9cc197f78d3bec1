// Starts the job's first process with the user's rights and the requested directory, files and limits. Reports exactly
// why a start failed.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "platform/isolation/job_mounts.h"
#include "platform/supervisor/launch_request.h"

namespace divvy {

/// The program to execute: argv, and the paths to try for it in order.
struct JobProgram {
  std::vector<std::string> argv;
  std::vector<std::string> candidates;
  int executable = -1;      // The program itself, opened with O_PATH and used instead of a path; -1: use the path.
  std::string shown_name;   // Used in errors: what the user wrote.
  std::string interpreter;  // The interpreter of a script, as its first line names it; empty for a command.
};

/// Returns the program that the job executes, with its arguments. A command is searched in the PATH of the job's own
/// environment. A script runs as `script_path`. Its "#!" line is read here and not by the kernel, because /run is often
/// mounted noexec. With neither a command nor a script, argv is empty.
JobProgram ResolveProgram(const LaunchRequest& request, const std::string& script_path);

/// The descriptor from which the first process of a node allocation reads the job's key, up to the end of file. It
/// closes the descriptor when it has written its report.
constexpr int kAllocationKeyDescriptor = 3;

struct StartPlan {
  const LaunchRequest* request = nullptr;
  const JobProgram* program = nullptr;
  const std::vector<gid_t>* groups = nullptr;
  bool changes_user = false;
  int own_log = -1;                       // Used as standard output if the log is divvy's own.
  std::string terminal;                   // Path of the terminal's slave side; empty: no terminal.
  std::vector<std::string> cgroup_procs;  // Files to write "0" to.
  const MountPlan* mounts = nullptr;      // Null: the job has the same view as the system.
  // Set for a gang's node allocation: called with the program's argv instead of executing a program.
  const AllocationEntry* allocation_main = nullptr;
  int key = -1;     // The descriptor from which `allocation_main` reads its key.
  int record = -1;  // The run record. The new process itself writes `watch` and its identity to it.
  std::string watch;
  bool is_another = false;               // Not the job's first process: no record is written.
  const JobNamespaces* joins = nullptr;  // Namespaces to enter, made for the job's first process.
};

struct StartedJob {
  ProcessIdentity process;
  JobNamespaces namespaces;  // Created by plan.mounts.
  Time started = kNoTime;
  std::string failure;   // Not empty: the start failed, and the process is reaped.
  int failure_code = 0;  // model/exit_codes.h
};

/// Starts the job's first process. Returns when its program has been executed or could not be executed. The run record
/// is written before the program's first instruction. Requires: one thread, all signals blocked.
StartedJob StartJob(const StartPlan& plan);

}  // namespace divvy
