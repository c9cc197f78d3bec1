// Where a job is, in Slurm's terms: its hosts, and its resources on each. Pure functions of messages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/shims/slurm_look/slurm_view.h"
#include "wire/messages/messages.h"

namespace divvy::cli::slurm {

/// The resources that a job has, or last had, on one node.
struct Place {
  std::string host;
  std::vector<std::int64_t> gpus;
  std::int64_t cpus = 0;
  std::int64_t memory_bytes = 0;
};
/// Returns the nodes of the job in rank order, each with the job's resources there. Empty before the job has started.
/// The controller's own machine is called scene.hostname.
std::vector<Place> PlacesOf(const wire::JobView& job, const Scene& scene);

/// Returns the nodes of the job as a host list: "n[1-3]". `none` is returned before the job has started.
std::string HostListOf(const wire::JobView& job, const Scene& scene, std::string_view none = "");
/// Returns the host list of a job, or "(Reason)" for states in which Slurm shows the reason instead.
std::string NodesOrReason(const wire::JobView& job, const Scene& scene);
/// Returns the host that runs the job's batch script; `none` before the job has started.
std::string BatchHostOf(const wire::JobView& job, const Scene& scene, std::string_view none = "");
/// True if one of these names, with or without domain ("n1", "n1.lab"), is a node of the job.
bool IsOnOneOf(const wire::JobView& job, const std::vector<std::string>& names, const Scene& scene);

/// True if both names are equal, or differ only in the domain: "n1" and "n1.lab".
bool IsSameHost(std::string_view a, std::string_view b);
/// Parses a host list that was split at all its commas, even those inside brackets.
Result<std::vector<std::string>> HostNames(const std::vector<std::string>& parts);

/// Returns the job's GPUs as "gpu:4(IDX:0-3)" for each of its nodes with GPUs, joined with ','.
std::string HeldGpusOf(const wire::JobView& job);

}  // namespace divvy::cli::slurm
