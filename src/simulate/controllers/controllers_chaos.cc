#include "simulate/controllers/controllers_chaos.h"

#include "simulate/chaos/run_worlds.h"
#include "simulate/controllers/controllers_world.h"

namespace divvy::simulate {

ControllersChaosResult RunControllersChaos(const ControllersChaosOptions& options) {
  ControllersChaosResult result;
  RunWorlds<ControllersWorld>(options, result, [](std::uint64_t) {});
  return result;
}

std::string ToText(const ControllersChaosFigures& figures) {
  const auto count = [](std::uint64_t number, const char* what) { return ", " + std::to_string(number) + " " + what; };
  return std::to_string(figures.steps) + " steps in " + std::to_string(figures.worlds) +
         " worlds: " + std::to_string(figures.jobs) + " jobs" + count(figures.nodes.launches, "launches") +
         count(figures.commits, "commits") + count(figures.leaders, "leaders") + "; " + std::to_string(figures.kills) +
         " controllers killed" + count(figures.stops, "stopped") +
         count(figures.frozen_clocks, "paused with their clocks") + count(figures.clock_jumps, "clock jumps") +
         count(figures.database_cuts, "cuts from the database") + count(figures.failovers, "failovers") +
         count(figures.agent_cuts, "cuts from agents") + count(figures.agent_restarts, "agents killed") + "; " +
         std::to_string(figures.unknown_outcomes) + " commits with unknown outcome (" +
         std::to_string(figures.unknown_but_done) + " had happened)" + count(figures.late_requests, "late requests") +
         count(figures.fenced_commits, "commits fenced off") +
         count(figures.refused_welcomes, "leaders refused by agents") +
         count(figures.deposed_but_acting, "steps with a deposed leader that acts");
}

}  // namespace divvy::simulate
