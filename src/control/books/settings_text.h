// The settings that commands change at run time, as the texts that the store keeps.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/gpus/gpu.h"

namespace divvy {

/// An ignore rule is bound to one process for its life.
struct IgnoredProcess {
  int gpu = -1;  // -1: on every GPU.
  ProcessIdentity identity;
  std::string user;
  std::string command;
  std::string node;  // On which it is; empty: the controller's own.

  friend bool operator==(const IgnoredProcess&, const IgnoredProcess&) = default;
};

inline constexpr std::string_view kRestrictionKey = "gpus.restriction";
/// Before the name of another machine.
inline constexpr std::string_view kNodeRestrictionPrefix = "gpus.restriction.of.";
inline constexpr std::string_view kIgnoredKey = "gpus.ignored";
inline constexpr std::string_view kGroupPrefix = "group.";
inline constexpr std::string_view kTeamUsageKey = "usage.decayed";

/// "0-3,6"; "none" for no GPU at all.
std::string FormatRestriction(GpuSet allowed);
std::optional<GpuSet> ParseRestriction(std::string_view text);

/// One process a line: "gpu pid start_ticks user command", "gpu@node pid ..." on another machine. Lines that cannot be
/// read are dropped: a rule is a comfort.
std::string FormatIgnored(const std::vector<IgnoredProcess>& processes);
std::vector<IgnoredProcess> ParseIgnored(std::string_view text);

}  // namespace divvy
