// Where a job is, in Slurm's words: its hosts, and what it has on each. Pure functions of messages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/shims/slurm_look/slurm_view.h"
#include "wire/messages/messages.h"

namespace divvy::cli::slurm {

/// What a job has, or last had, on one machine.
struct Place {
  std::string host;
  std::vector<std::int64_t> gpus;
  std::int64_t cpus = 0;
  std::int64_t memory_bytes = 0;
};
/// In the order of its ranks; none before it has started. The controller's own machine is scene.hostname.
std::vector<Place> PlacesOf(const wire::JobView& job, const Scene& scene);

/// "n[1-3]"; `none` before it has started.
std::string HostListOf(const wire::JobView& job, const Scene& scene, std::string_view none = "");
/// The host of its batch script; `none` before it has started.
std::string BatchHostOf(const wire::JobView& job, const Scene& scene, std::string_view none = "");
/// Machines that it has, or asks for.
std::int64_t NodeCountOf(const wire::JobView& job);
/// One of these names, in any form that they have ("n1", "n1.lab"), is a machine that it has.
bool IsOnOneOf(const wire::JobView& job, const std::vector<std::string>& names, const Scene& scene);

/// "n1" and "n1.lab" are the same host.
bool IsSameHost(std::string_view a, std::string_view b);
/// The names of a list that was split at its commas, also those inside brackets.
Result<std::vector<std::string>> HostNames(const std::vector<std::string>& parts);

/// "gpu:4(IDX:0-3)" of each of its machines that gives GPUs, joined with ','.
std::string HeldGpusOf(const wire::JobView& job);

}  // namespace divvy::cli::slurm
