// scontrol's verbs that only look: what they share with those that change something.
#pragma once

#include <string>
#include <vector>

#include "cli/shims/slurm/slurm_show.h"
#include "cli/shims/slurm_look/slurm_json.h"

namespace divvy::cli::slurm {

/// How the answer is wanted.
struct ControlStyle {
  ShowStyle job;
  AnswerForm form;
};

/// A line on stderr; 1.
int Say(const std::string& message);

// Each answers on stdout and returns the exit code.

/// show ENTITY ...
int ControlShow(const std::vector<std::string>& words, const ControlStyle& style);
int ControlPing(const ControlStyle& style);
/// listpids [JOBID], listjobs, liststeps: what runs here, with the process that each job began with.
enum class Listed { kPids, kJobs, kSteps };
int ControlList(const std::vector<std::string>& words, Listed what);
/// pidinfo PID: whose job's process of this machine it is.
int ControlPidInfo(const std::vector<std::string>& words);
/// completing: jobs that are being ended, with their machines.
int ControlCompleting();
/// getaddrs [NODES]
int ControlAddresses(const std::vector<std::string>& words);
/// notify JOBID MESSAGE...: a line into the file that holds the job's errors.
int ControlNotify(const std::vector<std::string>& words);

}  // namespace divvy::cli::slurm
