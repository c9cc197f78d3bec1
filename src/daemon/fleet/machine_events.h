// Describes events of nodes and their GPUs as text, by comparing their states at two moments. The texts are stored with
// the history of jobs and sent to clients that watch events.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "daemon/fleet/agent_listener.h"
#include "driver/controller_driver.h"

namespace divvy {

class MachineEvents {
 public:
  struct Machine {
    std::string state;  // As `divvy nodes` prints it: "up", "lost", ...
    std::string reason;
    std::vector<GpuAvailability> gpus;  // By index.
  };

  /// Compares the present state of nodes and GPUs with the previous look. The first look reports nothing.
  void Look(ControllerDriver& driver, const AgentListener& listener, const std::string& own_name);

  /// Returns the differences, ordered by node, as sentences without a full stop. Omits the node's name if there is only
  /// one.
  static std::vector<std::string> News(const std::map<std::string, Machine>& before,
                                       const std::map<std::string, Machine>& now);

 private:
  bool has_looked_ = false;
  std::map<std::string, Machine> known_;  // By name.
};

}  // namespace divvy
