// What happens to machines and to their GPUs, in words: what one look finds otherwise than the look before. It is kept
// with the history of jobs and told to whoever watches.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "daemon/driver/core.h"
#include "daemon/fleet/agent_door.h"

namespace divvy {

class MachineEvents {
 public:
  struct Machine {
    std::string state;  // As `divvy nodes` has it: "up", "lost", ...
    std::string reason;
    std::vector<GpuAvailability> gpus;  // By index.
  };

  /// At machines and GPUs as they are now. What the first look finds is nothing new.
  void Look(Core& core, const AgentDoor& door, const std::string& own_name);

  /// What of `now` is news, by machine, in sentences without a full stop. Of the only machine the name is left out.
  static std::vector<std::string> News(const std::map<std::string, Machine>& before,
                                       const std::map<std::string, Machine>& now);

 private:
  bool has_looked_ = false;
  std::map<std::string, Machine> known_;  // By name.
};

}  // namespace divvy
