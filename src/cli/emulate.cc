// divvy emulate: changes what stand-in GPUs show.
#include <unistd.h>

#include "cli/commands.h"
#include "platform/emulation.h"
#include "platform/places.h"

namespace divvy::cli {

int EmulateMain(const Words& words) {
  const std::string state = FindPlaces().state;
  // An agent keeps its own beside all else that is the agent's.
  const bool is_agents =
      ::access((state + "/emulate").c_str(), F_OK) != 0 && ::access((state + "/agent/emulate").c_str(), F_OK) == 0;
  const Status driven = DriveEmulation(state + (is_agents ? "/agent/emulate" : "/emulate"), words);
  return driven ? 0 : Fail(driven.error());
}

}  // namespace divvy::cli
