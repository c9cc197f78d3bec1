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

/// "0-3,6"; "none" for no GPU at all.
std::string FormatRestriction(GpuSet allowed);
std::optional<GpuSet> ParseRestriction(std::string_view text);

/// One process per line: "gpu pid start_ticks user command", or "gpu@node pid ..." on another node. Unreadable lines
/// are dropped, because losing a rule is harmless.
std::string FormatIgnored(const std::vector<IgnoredProcess>& processes);
std::vector<IgnoredProcess> ParseIgnored(std::string_view text);

}  // namespace divvy
