// divvy pools: the pools, their nodes and users, and the limits of each pool for a job.
#include <cstdio>
#include <string>

#include "base/text.h"
#include "cli/client/api.h"
#include "cli/client/commands.h"
#include "cli/client/shown_answer.h"
#include "cli/client/table.h"
#include "dialect/options/quantities.h"
#include "dialect/options/slurm_hostlist.h"
#include "wire/messages/messages_nodes.h"

namespace divvy::cli {
namespace {

const std::vector<Column>& PoolColumns() {
  static const std::vector<Column> columns = {{"POOL", false, true, true},
                                              {"STATE", false, true, false},
                                              {"NODES", false, true, true},
                                              {"GPUS", true, true, false},
                                              {"FREE", true, true, false},
                                              {"RUNNING", true, true, false},
                                              {"QUEUED", true, true, false},
                                              {"JOB", false, true, true, false, true},
                                              {"TOGETHER", false, true, true, false, true},
                                              {"WHO", false, true, true, false, true},
                                              {"POLICY", false, true, false, true},
                                              {"PRIORITY", true, true, false, true},
                                              {"PLACEMENT", false, false, true}};
  return columns;
}

std::string TimeText(double seconds) {
  return dialect::FormatDuration(std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds)));
}

/// Limits for one job: "2-8 GPUs, 4 nodes, 12h, exclusive nodes".
std::string OfAJob(const wire::PoolView& view) {
  std::vector<std::string> parts;
  const std::int64_t least = view.min_gpus.value_or(0);
  if (view.max_gpus && *view.max_gpus == 0) parts.emplace_back("no GPUs");
  else if (view.max_gpus && least > 0) parts.push_back(std::to_string(least) + "-" + Plural(*view.max_gpus, "GPU"));
  else if (view.max_gpus) parts.push_back(Plural(*view.max_gpus, "GPU") + " at most");
  else if (least > 0) parts.push_back(Plural(least, "GPU") + " or more");
  if (view.max_nodes) parts.push_back(Plural(*view.max_nodes, "node"));
  if (view.max_time_s) parts.push_back(TimeText(*view.max_time_s));
  if (view.is_exclusive) parts.emplace_back("exclusive nodes");
  if (view.jobs_per_gpu > 1) parts.push_back("1/" + std::to_string(view.jobs_per_gpu) + " of each GPU");
  return Join(parts, ", ");
}

std::string AtOnce(const wire::PoolView& view) {
  std::vector<std::string> parts;
  if (view.running_limit) parts.push_back(Plural(*view.running_limit, "job"));
  if (view.gpu_limit) parts.push_back(Plural(*view.gpu_limit, "GPU"));
  return Join(parts, ", ");
}

std::string Who(const wire::PoolView& view) {
  std::vector<std::string> parts = view.users;
  for (const std::string& team : view.teams) parts.push_back("team " + team);
  return parts.empty() ? "everybody" : Join(parts, ", ");
}

std::vector<Cell> Row(const wire::PoolView& view) {
  return {{view.name + (view.is_default ? "*" : ""), Colour::kBold},
          {view.state, view.state == "up" ? Colour::kGreen : Colour::kYellow},
          {view.nodes.empty() ? "-" : dialect::FoldHostList(view.nodes), Colour::kNone},
          {std::to_string(view.gpus), Colour::kNone},
          {std::to_string(view.gpus_free), Colour::kNone},
          {std::to_string(view.running), Colour::kNone},
          {std::to_string(view.queued), Colour::kNone},
          {OfAJob(view), Colour::kNone},
          {AtOnce(view), Colour::kNone},
          {Who(view), Colour::kNone},
          {view.policy, Colour::kNone},
          {std::to_string(view.priority), Colour::kNone},
          {view.placement, Colour::kNone}};
}

}  // namespace

std::vector<dialect::Option> PoolsOptions() {
  static ListingOptions scratch;
  return ListingOptionTable(scratch);
}

int PoolsMain(const Words& words) {
  ListingOptions options;
  DIVVY_TRY_OR_FAIL(const auto parsed, dialect::ParseOptions(ListingOptionTable(options), words));
  if (!parsed.positional.empty()) {
    return Fail(InvalidArgument("divvy pools takes no argument '" + parsed.positional.front() +
                                "'; to create a pool, write [pools.NAME] in divvy.toml"));
  }
  return ShowListing(options, [&]() -> Result<std::string> {
    DIVVY_TRY(Api api, Api::Connect());
    DIVVY_TRY(const std::string text, api.Raw("GET", "/v1/pools", ""));
    if (options.json) return text + "\n";
    DIVVY_TRY(const auto views, DecodeShown<std::vector<wire::PoolView>>(text));
    if (views.empty() && !options.csv) {
      return std::string(
          "No pools; jobs can use all nodes. To create a pool, write [pools.NAME] in divvy.toml, or label a node "
          "pool=NAME.\n");
    }
    std::vector<std::vector<Cell>> rows;
    for (const wire::PoolView& view : views) rows.push_back(Row(view));
    return RenderTable(PoolColumns(), rows, options);
  });
}

}  // namespace divvy::cli
