#include "cli/shims/slurm_refusals.h"

#include <string_view>
#include <utility>

namespace divvy::cli::slurm {

std::string InSlurmsWords(const std::string& said) {
  constexpr std::pair<std::string_view, std::string_view> kOptions[] = {
      {"name another pool with --pool", "name another with --partition"},
      {"leave --gpu-type out", "leave the type of the GPUs out"},
      {"leave --pool out", "leave --partition out"}};
  std::string refusal = said;
  for (const auto& [ours, slurms] : kOptions) {
    if (const auto at = refusal.find(ours); at != std::string::npos) refusal.replace(at, ours.size(), slurms);
  }
  constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"there is no pool '", "Invalid partition name specified"},
      {"there is no node in pool ", "Invalid partition name specified"},
      {"there is no node '", "Invalid node name specified"},
      {" takes no jobs: its state is ", "Required partition not available (inactive or drain)"},
      {" is not theirs; name another", "User's group not permitted to use this partition"},
      {" runs a job for ", "Requested time limit is invalid (missing or exceeds some limit)"},
      {" machines, but pool ", "Node count specification invalid"},
      {" GPU, but pool ", "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"},
      {" GPUs, but pool ", "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"}};
  for (const auto& [ours, theirs] : kWords) {
    if (refusal.find(ours) != std::string::npos) return std::string(theirs) + ": " + refusal;
  }
  return refusal;
}

}  // namespace divvy::cli::slurm
