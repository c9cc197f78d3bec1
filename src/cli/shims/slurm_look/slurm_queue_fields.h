// The columns of squeue: each has a letter (-o), a name (-O) or both.
#pragma once

#include <vector>

#include "cli/shims/slurm_look/slurm_format.h"
#include "cli/shims/slurm_look/slurm_queue.h"

namespace divvy::cli::slurm {

using JobField = Field<QueueRow>;

/// All columns. They refer to `scene`, which must outlive them.
std::vector<JobField> JobFields(const Scene& scene);
/// The columns for steps (squeue -s). Columns that only steps have replace those of jobs with the same letter.
std::vector<JobField> StepFields(const Scene& scene);

// Texts that the columns and JSON share.
/// "afterok:12(unfulfilled)"; "" without a dependency, and for a job that no longer waits.
std::string DependencyText(const QueueRow& row);
/// When it began, or is expected to begin.
std::optional<double> StartOf(const QueueRow& row);
/// When it ended, or when its time limit will end it.
std::optional<double> EndOf(const QueueRow& row);

}  // namespace divvy::cli::slurm
