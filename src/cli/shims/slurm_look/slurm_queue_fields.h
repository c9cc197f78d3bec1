// The columns of squeue: each has a letter (-o), a name (-O) or both.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/shims/slurm_look/slurm_format.h"
#include "cli/shims/slurm_look/slurm_view.h"
#include "wire/messages/messages.h"

namespace divvy::cli::slurm {

/// One line of squeue: the job or one of its steps, and data that only some columns need.
struct QueueRow {
  wire::JobView job;
  std::optional<double> predicted_start;          // For --start.
  std::shared_ptr<const wire::JobDetail> detail;  // For columns that need it (QueueNeedsDetail) and for JSON.
  std::int64_t step_tasks = 0;                    // Set for a step only.
  std::size_t components = 1;                     // The whole job has this many.
};

using JobField = Field<QueueRow>;

/// All columns. They refer to `scene`, which must outlive them.
std::vector<JobField> JobFields(const Scene& scene);
/// The columns for steps (squeue -s). Columns that only steps have replace those of jobs with the same letter.
std::vector<JobField> StepFields(const Scene& scene);

// Texts that the columns and JSON share.
/// Returns the dependency of a waiting job: "afterok:12(unfulfilled)". "" for a job without dependencies or one that no
/// longer waits.
std::string DependencyText(const QueueRow& row);
/// When the job or step began, or is expected to begin. Seconds since 1970.
std::optional<double> StartOf(const QueueRow& row);
/// When the job or step ended, or when its time limit will end it. Seconds since 1970.
std::optional<double> EndOf(const QueueRow& row);

}  // namespace divvy::cli::slurm
