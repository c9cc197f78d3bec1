// Runs the tasks of one srun inside a job: N processes side by side on this server, without asking the daemon.
//
// A step ends when all its tasks have ended; its exit code is the highest of theirs, with 128 + signal for one that a
// signal ended, as Slurm has it. srun holds nothing that must survive it: if it is killed, the job's own end cleans up.
#pragma once

#include <string>
#include <vector>

namespace divvy::cli::slurm {

struct StepTask {
  std::vector<std::string> command;      // argv; found through PATH.
  std::vector<std::string> environment;  // NAME=value, all of it.
};

struct StepPlan {
  std::vector<StepTask> tasks;  // By rank.
  std::string job;              // "17", for file names and messages.
  std::string array_job;        // Empty: no element of an array.
  std::string array_task;
  std::string job_name;
  std::string user;
  std::string hostname;
  std::string step;       // "0".
  std::string directory;  // Empty: this process's.
  // Patterns as Slurm's (%t rank, %j job, %s step, %J job.step, %n node, %N host, %x name, %u user, %A %a array).
  // Empty: this process's own streams. "none": /dev/null; a plain number: that rank's stream alone.
  std::string output;
  std::string error;  // Empty: joins the output.
  std::string input;
  bool appends = false;
  bool has_labels = false;         // "3: " before each line.
  bool kills_on_bad_exit = false;  // The first task that fails ends the others.
  bool is_quiet = false;           // No word on failed tasks.
};

/// Starts all tasks, waits for all, and gives the step's exit code. SIGINT, SIGTERM and their kind that reach this
/// process are passed on to the tasks.
int RunSteps(const StepPlan& plan);

/// A file's name with the patterns filled for one rank.
std::string FillStepPattern(const std::string& pattern, const StepPlan& plan, std::size_t rank);

/// "0", "0-2,5": ranks as Slurm's messages have them.
std::string RankList(const std::vector<std::size_t>& ranks);

}  // namespace divvy::cli::slurm
