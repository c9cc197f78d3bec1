// The text form, for the store, of settings that commands change at run time.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/gpus/gpu.h"

namespace divvy {

/// A rule to ignore a process on a GPU. It is bound to one process, for the lifetime of that process.
struct IgnoredProcess {
  int gpu = -1;  // -1: on every GPU.
  ProcessIdentity identity;
  std::string user;
  std::string command;
  std::string node;  // The node of the process; empty: the controller's own machine.

  friend bool operator==(const IgnoredProcess&, const IgnoredProcess&) = default;
};

inline constexpr std::string_view kRestrictionKey = "gpus.restriction";
/// Followed by the name of another node.
inline constexpr std::string_view kNodeRestrictionPrefix = "gpus.restriction.of.";
inline constexpr std::string_view kIgnoredKey = "gpus.ignored";
/// Followed by GroupNameOf.
inline constexpr std::string_view kGroupPrefix = "group of user.";
/// Followed by the name of a group, which belonged to all users. Written by earlier releases.
inline constexpr std::string_view kSharedGroupPrefix = "group.";
inline constexpr std::string_view kTeamUsageKey = "usage.decayed";

/// Returns the allowed GPUs as the text that is stored: "0-3,6"; "none" if no GPU is allowed.
std::string FormatRestriction(GpuSet allowed);
std::optional<GpuSet> ParseRestriction(std::string_view text);

/// Returns the processes that are ignored on GPUs as the text that is stored, one per line: "gpu pid start_ticks user
/// command", or "gpu@node pid ..." for another node than the controller's own. When the text is read, lines that are
/// not valid are dropped.
std::string FormatIgnored(const std::vector<IgnoredProcess>& processes);
std::vector<IgnoredProcess> ParseIgnored(std::string_view text);

}  // namespace divvy
