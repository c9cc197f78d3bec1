// The limits of groups: maps names given by users to the core's indices.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/core/state/cluster.h"
#include "engine/scheduler/scheduler_facts.h"

namespace divvy {

/// Returns the name of a group for messages. A group that users named gets a prefix: "group train" for "train". The
/// names of other groups have a prefix already: "array 7", "user ada", "team vision", "pool big".
std::string CapText(const std::string& group);

/// The core's limits of groups, by group name. An unused index is given to the next name, so that the number of limits
/// follows the number of present arrays, not of all arrays ever seen.
class GroupCaps {
 public:
  /// Counts one more job or array in the group `name`, and returns the number of the group's limit in `core`.
  core::CapIndex Use(core::Cluster& core, const std::string& name);
  void Leave(const std::string& name);
  void SetLimits(core::Cluster& core, const std::string& name, GroupLimits limits);
  /// Returns the limits of all groups that have one, by group name.
  std::map<std::string, GroupLimits> limits() const;

 private:
  struct Slot {
    core::CapIndex index = 0;
    int users = 0;
    GroupLimits limits;
  };
  Slot& SlotOf(core::Cluster& core, const std::string& name);
  void ForgetIfUnused(std::map<std::string, Slot>::iterator at);

  std::map<std::string, Slot> slots_;
  std::vector<core::CapIndex> free_;
};

}  // namespace divvy
