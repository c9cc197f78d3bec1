// The columns of squeue: each has a letter (-o), a name (-O) or both.
#pragma once

#include <vector>

#include "cli/shims/slurm_look/slurm_format.h"
#include "cli/shims/slurm_look/slurm_queue.h"

namespace divvy::cli::slurm {

using JobField = Field<QueueRow>;

/// All columns. They look at `scene`, which must outlive them.
std::vector<JobField> JobFields(const Scene& scene);
/// The same of steps (squeue -s), with those that steps alone have in place of jobs' of the same letter.
std::vector<JobField> StepFields(const Scene& scene);

// What columns and JSON say of the same things.
/// "afterok:12(unfulfilled)"; "" for none, and for a job that waits no more.
std::string DependencyText(const QueueRow& row);
/// When it began, or is expected to.
std::optional<double> StartOf(const QueueRow& row);
/// When it ended, or its time limit ends it at the latest.
std::optional<double> EndOf(const QueueRow& row);

}  // namespace divvy::cli::slurm
