// Formats the daemon's answers as gqueue and ginfo tables. Pure, so that tests need no daemon.
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
/// Maps divvy's states to the nearest of gflow's seven.
GflowState GflowStateOf(std::string_view state);
/// Returns the code of a state that is given by its name or code, in any case: "Running" and "r" become "R". Refuses a
/// state that gflow does not have.
Result<std::string> ParseGflowState(std::string_view text);

struct QueueView {
  std::vector<std::string> users, states, names, ids;  // Empty: all. States as codes.
  std::string project, sort = "id", format, output = "table";
  long limit = 0;  // > 0: the first N; < 0: the last N; 0: all.
  bool shows_completed_only = false;
  bool shows_final = false;  // In addition to the active ones.
  bool is_grouped = false;
  bool is_tree = false;
};

/// The jobs that match the view, in its order.
std::vector<wire::JobView> SelectGflowJobs(std::vector<wire::JobView> jobs, const QueueView& view);
/// Formats the jobs as gqueue prints them, in the given order. Fails if `view.format` names an unknown field, or if
/// `view.output` is none of table, json, csv and yaml. `now`: seconds since 1970.
Result<std::string> RenderGqueue(const std::vector<wire::JobView>& jobs, const QueueView& view, double now);

/// PARTITION GPUS NODES STATE JOB(REASON). One line for the GPUs of each job, one for the free ones, and one for each
/// withheld GPU.
std::string RenderGinfo(const std::vector<wire::GpuView>& gpus, const std::vector<wire::JobView>& jobs);
/// "GPU 0  allowed  ...", for gctl show-gpus.
std::string RenderShowGpus(const std::vector<wire::GpuView>& gpus);

/// Removes escape sequences. If a line was repainted with carriage returns, keeps only its last version.
std::string CleanLog(std::string_view text);
/// Returns the first `lines` lines of the text; if `lines` is negative, the last ones.
std::string_view SliceLines(std::string_view text, long lines);

}  // namespace divvy::cli
