// divvy emulate: changes the state of emulated GPUs.
#include <unistd.h>

#include "cli/client/commands.h"
#include "platform/emulation/emulation.h"
#include "platform/os/runtime_paths.h"

namespace divvy::cli {

int EmulateMain(const Words& words) {
  const RuntimePaths places = FindPlaces();
  // An agent's emulation is in the agent's own directory.
  const std::string agents = places.state + "/agent/emulate";
  const bool is_agents = ::access(places.emulation.c_str(), F_OK) != 0 && ::access(agents.c_str(), F_OK) == 0;
  const Status driven = DriveEmulation(is_agents ? agents : places.emulation, words);
  return driven ? 0 : Fail(driven.error());
}

}  // namespace divvy::cli
