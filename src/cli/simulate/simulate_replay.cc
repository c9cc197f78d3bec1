#include "cli/simulate/simulate_replay.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "base/text.h"
#include "cli/client/commands.h"
#include "cli/client/progress_indicator.h"
#include "platform/emulation/emulation.h"
#include "simulate/experiment.h"
#include "simulate/report_html.h"
#include "simulate/traces/trace_formats.h"

namespace divvy::cli {
namespace {

using simulate::Grid;
using simulate::PlannedRun;
using simulate::PolicyChoice;
using simulate::Report;
using simulate::RunMetrics;
using simulate::TraceCluster;
using simulate::Workload;

Result<std::vector<PolicyChoice>> Policies(const SimulateFlags& flags) {
  const simulate::PolicyDefaults defaults{flags.engine, flags.time_sharing};
  std::vector<PolicyChoice> policies;
  for (const std::string& name : flags.policies) {
    DIVVY_TRY(PolicyChoice choice, simulate::ParsePolicy(name, defaults));
    policies.push_back(std::move(choice));
  }
  if (policies.empty()) {
    DIVVY_TRY(PolicyChoice choice, simulate::ParsePolicy("small-first", defaults));
    policies.push_back(std::move(choice));
  }
  return policies;
}

/// Rejects a model that is neither in the cluster nor a known product. A typing error would otherwise create a separate
/// class of GPUs.
Status CheckModels(const TraceCluster& cluster, const TraceCluster& changed, std::string_view change) {
  std::vector<std::string> known;
  for (const simulate::NodeGroup& group : cluster.groups) {
    if (!group.model.empty() && std::ranges::find(known, group.model) == known.end()) known.push_back(group.model);
  }
  for (const simulate::NodeGroup& group : changed.groups) {
    if (group.model.empty() || std::ranges::find(known, group.model) != known.end()) continue;
    if (ParseGpuDescription(group.model)) continue;
    return InvalidArgument(
        "--what-if '" + std::string(change) + "': unknown GPU model '" + group.model + "'" +
        (known.empty() ? "; write a real model such as H100 or A100-80GB" : "; this cluster has " + Join(known, ", ")));
  }
  return {};
}

/// Returns the policies for requesting nodes that are compared. Leaves out the policy that requests none if the cluster
/// has no nodes of its own, because no job would run.
std::vector<simulate::GrowthPolicy> GrowthPolicies(const SimulateFlags& flags, const TraceCluster& cluster) {
  using simulate::GrowthPolicy;
  if (flags.providers.empty() || !flags.growth.empty()) return flags.growth;
  std::vector<GrowthPolicy> policies = {GrowthPolicy::kNodePerJob, GrowthPolicy::kCheapestFirst, GrowthPolicy::kDivvy};
  if (cluster.nodes() > 0) policies.insert(policies.begin(), GrowthPolicy::kNone);
  return policies;
}

/// Plans a run of every policy on every cluster with every seed. `workloads`: a single one, or one per seed.
Result<std::vector<PlannedRun>> Plan(const SimulateFlags& flags, const TraceCluster& cluster,
                                     const std::vector<Workload>& workloads) {
  DIVVY_TRY(const std::vector<PolicyChoice> policies, Policies(flags));
  std::vector<std::pair<std::string, TraceCluster>> clusters = {{"", cluster}};
  for (const std::string& change : flags.what_if) {
    DIVVY_TRY(TraceCluster changed, simulate::WhatIf(cluster, change));
    DIVVY_CHECK(CheckModels(cluster, changed, change));
    clusters.emplace_back(" " + change, std::move(changed));
  }
  std::vector<PlannedRun> plan;
  for (const PolicyChoice& policy : policies) {
    for (const auto& [name, one] : clusters) {
      for (std::size_t i = 0; i < workloads.size(); ++i) {
        const std::string seed = flags.seeds.empty() ? "" : " #" + std::to_string(flags.seeds[i]);
        const std::string label = policy.label + name + seed;
        if (flags.providers.empty()) plan.push_back({label, policy, one, &workloads[i]});
        for (const simulate::GrowthPolicy growth : GrowthPolicies(flags, one)) {
          const std::string_view called = simulate::GrowthPolicyNames()[static_cast<std::size_t>(growth)];
          plan.push_back({label + " " + std::string(called), policy, one, &workloads[i],
                          simulate::GrowthSetup{growth, {}, flags.providers, {}}});
        }
      }
    }
  }
  // The queue policy and the cluster are the same everywhere unless several were asked for.
  if (!flags.providers.empty() && policies.size() * clusters.size() == 1) {
    for (PlannedRun& run : plan) run.label.erase(0, policies.front().label.size() + 1);
  }
  return plan;
}

/// Keeps only the requested columns, by title or key.
Status Choose(Grid& grid, const std::vector<std::string>& names) {
  if (names.empty()) return {};
  Grid chosen;
  chosen.rows.resize(grid.rows.size());
  for (const std::string& name : names) {
    const auto at = std::ranges::find_if(grid.columns, [&](const simulate::GridColumn& column) {
      return ToLower(column.title) == ToLower(name) || column.key == name;
    });
    if (at == grid.columns.end()) {
      std::string known;
      for (const simulate::GridColumn& column : grid.columns)
        known += (known.empty() ? "" : ", ") + ToLower(column.title);
      return InvalidArgument("unknown column '" + name + "'; columns are " + known);
    }
    chosen.columns.push_back(*at);
    for (std::size_t row = 0; row < grid.rows.size(); ++row)
      chosen.rows[row].push_back(grid.rows[row][static_cast<std::size_t>(at - grid.columns.begin())]);
  }
  grid = std::move(chosen);
  return {};
}

Grid GroupsBy(const Report& report, const std::string& by) {
  if (by == "size") return simulate::GroupGrid(report, &RunMetrics::by_size, "GPUS", "gpus");
  if (by == "team") return simulate::GroupGrid(report, &RunMetrics::by_team, "TEAM", "team");
  return simulate::GroupGrid(report, &RunMetrics::by_hour, "HOUR", "hour");
}

Status WriteFile(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) return InvalidArgument("cannot write " + path.string());
  return {};
}

Status WriteFolder(const std::filesystem::path& folder, const Report& report) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) return InvalidArgument("cannot make the folder " + folder.string() + ": " + failed.message());
  DIVVY_CHECK(WriteFile(folder / "summary.csv", GridCsv(SummaryGrid(report))));
  for (const char* by : {"size", "team", "hour"})
    DIVVY_CHECK(WriteFile(folder / ("by_" + std::string(by) + ".csv"), GridCsv(GroupsBy(report, by))));
  return WriteFile(folder / "jobs.csv", GridCsv(JobGrid(report)));
}

/// Returns the text to print to stdout in the requested format. Notes are printed for users only.
Result<std::string> Printed(const Report& report, const SimulateFlags& flags) {
  if (flags.listing.json) return ReportJson(report);
  Grid grid = flags.by.empty() ? SummaryGrid(report) : GroupsBy(report, flags.by);
  DIVVY_CHECK(Choose(grid, flags.listing.columns));
  if (grid.rows.empty()) return InvalidArgument("the trace has no teams; write --by size or --by hour");
  // Without titles a program reads this, so each row stays one line.
  const auto width = static_cast<std::size_t>(flags.listing.has_header ? TerminalWidth() : 0);
  std::string text = flags.listing.csv ? GridCsv(grid) : GridText(grid, width);
  if (!flags.listing.has_header) text.erase(0, text.find('\n') + 1);
  if (flags.listing.csv) return text;
  for (const std::string& note : report.notes) text += note + "\n";
  const auto shows = [&](std::string_view word) {
    return std::ranges::any_of(
        grid.columns, [&](const simulate::GridColumn& column) { return column.title.find(word) != std::string::npos; });
  };
  if (!flags.listing.has_header) return text;
  if (shows("JCT")) text += "JCT: job completion time, from submission to end\n";
  if (!flags.providers.empty())
    text +=
        "COST: from each node's request to its return. STARTING, IDLE: node hours before a node took jobs, and "
        "while it had none\n"
        "REQUESTED, MOST: nodes in all, and the most at one time. UNFINISHED: jobs that never ended\n";
  if (shows("RHO"))
    text += "RHO: JCT divided by the time that an equal share of the cluster would take; UNFAIR: jobs above 1\n";
  return text;
}

std::string Sizes(const PlannedRun& run) {
  std::string text = std::to_string(run.workload->jobs.size()) + " jobs";
  text += ", " + Plural(run.cluster.nodes(), "node") + ", " + Plural(run.cluster.gpus(), "GPU");
  return text;
}

}  // namespace

int ReplayAndShow(Workload workload, const TraceCluster& cluster, const std::string& title,
                  const SimulateFlags& flags) {
  const Time last = Time::max();
  if (flags.from || flags.to) CutTo(workload, flags.from.value_or(Time::min()), flags.to.value_or(last));
  if (workload.jobs.empty()) return Fail(NotFound(title + ": the trace has no jobs in that period"));
  ScaleLoad(workload, flags.load);
  std::vector<Workload> workloads;
  for (const std::uint64_t seed : flags.seeds) workloads.push_back(simulate::Shaken(workload, seed));
  if (workloads.empty()) workloads.push_back(std::move(workload));
  DIVVY_TRY_OR_FAIL(const auto plan, Plan(flags, cluster, workloads));

  auto bar = std::make_unique<ProgressBar>(title);
  auto runs = simulate::RunAll(plan, std::max(1U, std::thread::hardware_concurrency()),
                               [&bar](double share) { bar->Show(share); });
  bar.reset();
  if (!runs) return Fail(runs.error());
  Report report;
  report.title = title;
  report.notes.push_back(title + ": " + Sizes(plan.front()));
  for (const std::string& note : workloads.front().notes) report.notes.push_back(note);
  report.runs = std::move(*runs);
  DIVVY_TRY_OR_FAIL(const auto text, Printed(report, flags));
  if (!flags.csv_folder.empty()) {
    if (const Status written = WriteFolder(flags.csv_folder, report); !written) return Fail(written.error());
  }
  if (!flags.html_file.empty()) {
    const Status written = WriteFile(flags.html_file, ReportHtml(report, "divvy simulate " + title));
    if (!written) return Fail(written.error());
  }
  std::fputs(text.c_str(), stdout);
  return 0;
}

int SimulateTrace(const std::string& format, const SimulateFlags& flags) {
  if (flags.jobs.empty())
    return Fail(InvalidArgument("divvy simulate " + format + " needs --jobs FILE; see divvy help simulate"));
  std::optional<ProgressIndicator> progress(std::in_place, "reading the trace");
  auto workload = simulate::ReadWorkload(format, flags.jobs);
  progress.reset();
  if (!workload) return Fail(workload.error());
  if (!workload->knows_runtimes)
    return Fail(FailedPrecondition("traces of format " + format +
                                   " contain steps, not run times, so they cannot be replayed alone"));
  std::string title = format;
  for (const std::string& path : flags.jobs) title += " " + std::filesystem::path(path).filename().string();
  if (flags.nodes.empty()) {
    if (!flags.providers.empty()) return ReplayAndShow(std::move(*workload), TraceCluster(), title, flags);
    if (!workload->cluster)
      return Fail(InvalidArgument(title + " does not describe its cluster; write --nodes FILE or --nodes 96x8"));
    const TraceCluster cluster = *workload->cluster;
    return ReplayAndShow(std::move(*workload), cluster, title, flags);
  }
  std::error_code ignored;
  DIVVY_TRY_OR_FAIL(const auto cluster, std::filesystem::exists(flags.nodes, ignored)
                                            ? simulate::ReadCluster(flags.nodes)
                                            : simulate::ParseCluster(flags.nodes));
  return ReplayAndShow(std::move(*workload), cluster, title, flags);
}

}  // namespace divvy::cli
