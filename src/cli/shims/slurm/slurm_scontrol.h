// scontrol's read-only verbs, and what they share with the other verbs.
#pragma once

#include <string>
#include <vector>

#include "cli/shims/slurm/slurm_show.h"
#include "cli/shims/slurm_look/slurm_json.h"

namespace divvy::cli::slurm {

/// The requested form of the answer.
struct ControlStyle {
  ShowStyle job;
  AnswerForm form;
  bool is_verbose = false;  // -v: the time and number of the records.
};

/// Prints a line to stderr and returns 1.
int Say(const std::string& message);

// Each prints its answer to stdout and returns the exit code.

/// scontrol show job, node, partition, ...
int ControlShow(const std::vector<std::string>& words, const ControlStyle& style);
int ControlPing(const ControlStyle& style);
/// scontrol listpids [JOBID[.STEP]], listjobs, liststeps: lists the processes of jobs on this machine, the running
/// jobs, or the running steps.
enum class Listed { kPids, kJobs, kSteps };
int ControlList(const std::vector<std::string>& words, Listed what);
/// pidinfo PID: the job that a process on this machine belongs to.
int ControlPidInfo(const std::vector<std::string>& words);
/// completing: jobs that are ending, with their nodes.
int ControlCompleting();
/// getaddrs [NODES]
int ControlAddresses(const std::vector<std::string>& words);
/// notify JOBID MESSAGE...: appends a line to the job's error file.
int ControlNotify(const std::vector<std::string>& words);
/// create, update and delete of PartitionName=... Nodes=...: sets the label "pool" of the nodes.
enum class PartitionVerb { kCreate, kUpdate, kDelete };
int ControlPartition(PartitionVerb verb, const std::vector<std::string>& words);

}  // namespace divvy::cli::slurm
