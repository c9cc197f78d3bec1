// Faults from a seed: the real controller on a store in memory and a modelled node, in one process and in virtual time.
// Daemon, supervisors, guards and the machine die at any moment; messages come late, twice or not at all; the disk
// fills; the wall clock jumps; GPUs fail. After every step the promises of the design are checked. docs/chaos.md tells
// what is real in it, what is modelled, and which message may be lost.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace divvy::simulate {

/// Wrong protocols, each with one rule left out, to show that the checks see it.
enum class ChaosMutation {
  kNone,
  kAnswersBeforeCommit,   // A command is answered before it is durable.
  kLaunchesBeforeCommit,  // A job is started before its start is durable.
  kForgetsExits,          // The end of a job is not written to the store.
  kTearsCommits,          // A crash during a commit keeps a part of it.
  kFreesGpusEarly,        // A job that was asked to end counts as ended.
  kRepeatsOnSuspicion,    // A launch is repeated though it may have happened.
  kForgetsBeforeCommit,   // A run record is removed before its end is durable.
  kRemovesAnyRecord,      // A late report removes the run record of a later attempt.
  kForgetsToConfirm,      // An end that no report told of does not confirm its launch.
  kForgetsToResume,       // After a restart a job that was resumed is not told again.
  kForgetsLimits,         // After a restart a job whose time limit was changed is not told again.
  kForgetsVoidClaims,     // A claim of an earlier launcher that came to nothing is not noticed.
};

struct ChaosOptions {
  std::uint64_t seed = 1;           // World i runs from seed + i.
  std::uint64_t steps = 1'000'000;  // Worlds are begun until so many steps were made.
  std::uint64_t worlds = 0;         // At most so many worlds; 0: as many as `steps` take.
  std::uint64_t check_every = 1;    // The expensive checks at every so many steps, and at every restart and end.
  std::size_t events_kept = 60;     // Of a world, for the report of a failure.
  bool traces = false;              // Gives the events of the last world even if nothing broke.
  ChaosMutation mutation = ChaosMutation::kNone;
  /// Called after each world with the steps made so far. May be empty.
  std::function<void(std::uint64_t steps)> on_world_done;
};

/// What happened, so that a quiet run can be told from a thorough one.
struct ChaosFigures {
  std::uint64_t steps = 0;
  std::uint64_t worlds = 0;
  std::uint64_t jobs = 0;      // Acknowledged, elements of arrays counted one by one.
  std::uint64_t launches = 0;  // First processes that began.
  std::uint64_t ends = 0;      // Durable ends.
  std::uint64_t commits = 0;
  std::uint64_t checks = 0;  // Expensive ones.
  // Faults.
  std::uint64_t crashes = 0;            // Of the daemon,
  std::uint64_t crashes_midway = 0;     // of which between a commit and its last effect,
  std::uint64_t crashes_in_commit = 0;  // and while one was being written.
  std::uint64_t reboots = 0;
  std::uint64_t supervisor_kills = 0;
  std::uint64_t guard_kills = 0;
  std::uint64_t process_kills = 0;
  std::uint64_t launcher_kills = 0;
  std::uint64_t lost_messages = 0;
  std::uint64_t doubled_messages = 0;
  std::uint64_t late_messages = 0;  // Overtaken by a later one.
  std::uint64_t full_disks = 0;
  std::uint64_t clock_jumps = 0;
  std::uint64_t gpu_faults = 0;
  std::uint64_t foreign_processes = 0;

  ChaosFigures& operator+=(const ChaosFigures& other);
};

struct ChaosFailure {
  std::uint64_t seed = 0;  // Of the world: runs alone with ChaosOptions{.seed = seed, .worlds = 1}.
  std::uint64_t step = 0;
  std::string broken;  // What should hold and did not.
  std::string events;  // The last ones, oldest first, one a line.
};

struct ChaosResult {
  ChaosFigures figures;
  std::optional<ChaosFailure> failure;  // The first one ends the run.
  std::string events;                   // With ChaosOptions::traces.
};

/// Deterministic: the same options give the same result. A broken assertion ends the process as it does in the daemon,
/// with the world's seed on standard error.
ChaosResult RunChaos(const ChaosOptions& options);

/// "10000000 steps in 812 worlds: ...", one line.
std::string ToText(const ChaosFigures& figures);

}  // namespace divvy::simulate
