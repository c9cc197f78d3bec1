// squeue's listing, as text.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/shims/slurm_look/slurm_json.h"
#include "cli/shims/slurm_look/slurm_queue_fields.h"

namespace divvy::cli::slurm {

struct QueueFormat {
  std::string letters;  // "%.18i %.9P ..."; used when `names` is empty.
  std::string names;    // "jobid,name:30".
  std::string sort;     // "+i,-t": letters; empty: Slurm's own order.
  bool has_header = true;
  bool is_of_steps = false;  // The rows are steps.
};

inline constexpr std::string_view kQueueDefault = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R";
inline constexpr std::string_view kQueueLong = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R";
inline constexpr std::string_view kQueueSteps = "%.15i %.8j %.9P %.8u %.9M %N";
inline constexpr std::string_view kQueueStart = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R";

/// True if a column of `format` needs the full answer about a job (wire::JobDetail), which must be fetched per job.
/// False for an invalid format, which FormatQueue refuses.
bool QueueNeedsDetail(const QueueFormat& format);

/// The header and one line per row, in the given order unless format.sort is set.
Result<std::string> FormatQueue(std::vector<QueueRow> rows, const QueueFormat& format, const Scene& scene);

/// {"jobs": [...]} with those fields of Slurm's REST interface that exist here. Rows must have details.
std::string QueueJson(const std::vector<QueueRow>& rows, const Scene& scene, JsonSchema schema);

}  // namespace divvy::cli::slurm
