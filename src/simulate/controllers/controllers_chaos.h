// Random fault injection into several controllers on one database, from a seed: three controllers with the production
// lease keeper, controller and driver, two nodes with the production node driver, and a modelled database and network,
// in one process and in virtual time. Controllers die, stop and wake up; their clocks jump; connections are cut at any
// moment, so that outcomes of commits are unknown; the database fails over. docs/chaos.md says what is checked.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "simulate/chaos/chaos.h"

namespace divvy::simulate {

/// Wrong protocols, each without one rule, to show that the checks detect it.
enum class ControllersMutation {
  kNone,
  kSkipsEpochCheck,          // The database accepts commits of a controller that no longer leads.
  kJudgesLeaseByWallClock,   // A leader judges its lease by its wall clock.
  kCountsLeaseFromAnswer,    // A leader counts its lease from the answer to its renewal.
  kTakesEarly,               // A standby takes a lease that has not ended.
  kAssumesLostCommitFailed,  // A commit whose connection was lost counts as failed.
  kAssumesLostCommitDone,    // It counts as done.
  kAcceptsOldEpoch,          // An agent follows a controller that began before another one that it followed.
  kForgetsEpoch,             // A restarted agent has forgotten the newest epoch.
  kReusesEpoch,              // A new leader has the epoch of the one before.
  kTrustsFollowedState,      // A new leader does not read what has changed since it stood by.
  kLeavesOldSession,         // A writer that reconnects neither ends nor fences its old session.
  kDropsReports,             // An agent does not repeat to a new leader what the last one may not have stored.
};

struct ControllersChaosOptions {
  std::uint64_t seed = 1;           // World i uses seed + i.
  std::uint64_t steps = 1'000'000;  // New worlds are started until this many steps were made.
  std::uint64_t worlds = 0;         // Maximal number of worlds. 0: unlimited.
  std::size_t events_kept = 80;     // Per world, for the report of a failure.
  bool traces = false;              // Returns the events of the last world even without a failure.
  ControllersMutation mutation = ControllersMutation::kNone;
  /// Optional. Called after each simulated world with the number of steps made so far.
  std::function<void(std::uint64_t steps)> on_world_done;
};

struct ControllersChaosFigures {
  std::uint64_t steps = 0;
  std::uint64_t worlds = 0;
  std::uint64_t jobs = 0;  // Acknowledged.
  std::uint64_t commits = 0;
  std::uint64_t leaders = 0;  // How often a controller began to lead.
  // Faults and their consequences.
  std::uint64_t kills = 0;
  std::uint64_t stops = 0;
  std::uint64_t frozen_clocks = 0;  // Stops during which the machine's clocks stood still, too.
  std::uint64_t clock_jumps = 0;
  std::uint64_t database_cuts = 0;
  std::uint64_t failovers = 0;
  std::uint64_t agent_cuts = 0;
  std::uint64_t agent_restarts = 0;
  std::uint64_t unknown_outcomes = 0;    // Commits whose connection was lost.
  std::uint64_t unknown_but_done = 0;    // How many of these had happened.
  std::uint64_t late_requests = 0;       // Executed after their sender had given them up.
  std::uint64_t fenced_commits = 0;      // Refused, because another controller led.
  std::uint64_t refused_welcomes = 0;    // Controllers that agents did not follow.
  std::uint64_t deposed_but_acting = 0;  // Steps in which a deposed leader held itself for the leader (frozen clocks).
  ChaosFigures nodes;                    // Counts of the nodes.
};

struct ControllersChaosResult {
  ControllersChaosFigures figures;
  std::optional<ChaosFailure> failure;  // The first failure. It ends the run.
  std::string events;                   // Set with ControllersChaosOptions::traces.
};

/// Simulates several controllers with one database and random faults, and checks that no guarantee is broken. The same
/// options always give the same result.
ControllersChaosResult RunControllersChaos(const ControllersChaosOptions& options);

/// Returns the figures as one line: "10000000 steps in 812 worlds: ...".
std::string ToText(const ControllersChaosFigures& figures);

}  // namespace divvy::simulate
