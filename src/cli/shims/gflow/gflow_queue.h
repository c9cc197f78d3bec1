// gqueue and ginfo as text: from the daemon's answers to gflow's tables. Pure, so that the tests need no daemon.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "wire/messages/messages.h"

namespace divvy::cli {

struct GflowState {
  std::string_view code;  // "PD"
  std::string_view word;  // "Queued"
};
/// gflow knows seven states; divvy's others show as the nearest one.
GflowState GflowStateOf(std::string_view state);
/// "Running", "r", "PD" -> "R", "PD". Refuses a state that gflow has not.
Result<std::string> ParseGflowState(std::string_view text);

struct QueueView {
  std::vector<std::string> users, states, names, ids;  // Empty: all. States as codes.
  std::string project, sort = "id", format, output = "table";
  long limit = 0;  // > 0: the first so many; < 0: the last so many; 0: all.
  bool shows_completed_only = false;
  bool shows_final = false;  // Besides the active ones.
  bool is_grouped = false;
  bool is_tree = false;
};

/// The jobs that the view keeps, in its order.
std::vector<wire::JobView> SelectGflowJobs(std::vector<wire::JobView> jobs, const QueueView& view);
/// Refuses an unknown field, sort key or output. `now`: seconds since 1970.
Result<std::string> RenderGqueue(const std::vector<wire::JobView>& jobs, const QueueView& view, double now);

/// PARTITION GPUS NODES STATE JOB(REASON): GPUs of one job on one line, free ones together, withheld ones alone.
std::string RenderGinfo(const std::vector<wire::GpuView>& gpus, const std::vector<wire::JobView>& jobs);
/// "GPU 0  allowed  ...", for gctl show-gpus.
std::string RenderShowGpus(const std::vector<wire::GpuView>& gpus);

/// Escape sequences taken out, and of a line that was repainted with carriage returns only the last frame.
std::string CleanLog(std::string_view text);
/// The first (> 0) or last (< 0) lines.
std::string_view SliceLines(std::string_view text, long lines);

}  // namespace divvy::cli
