// Random fault injection from a seed: the real controller on a store in memory and a modelled node, in one process and
// in virtual time. Daemon, supervisors, guards and the machine die at any moment. Messages arrive late, twice or not at
// all. The disk fills up, the wall clock jumps, and GPUs fail. After every step the guarantees of the design are
// checked. docs/chaos.md explains what is real, what is modelled, and which messages may be lost.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace divvy::simulate {

/// Wrong protocols, each without one rule, to show that the checks detect it.
enum class ChaosMutation {
  kNone,
  kAnswersBeforeCommit,     // A command is answered before it is durable.
  kLaunchesBeforeCommit,    // A job is started before its start is durable.
  kForgetsExits,            // The end of a job is not written to the store.
  kTearsCommits,            // A crash during a commit keeps a part of it.
  kFreesGpusEarly,          // A job that was asked to stop counts as ended.
  kRepeatsOnSuspicion,      // A launch is repeated although it may have happened.
  kForgetsBeforeCommit,     // A run record is removed before its end is durable.
  kRemovesAnyRecord,        // A late report removes the run record of a later attempt.
  kForgetsToConfirm,        // An end that was found without a report does not confirm its launch.
  kForgetsToResume,         // After a restart, a resumed job is not resumed again.
  kForgetsLimits,           // After a restart, a changed time limit is not sent again.
  kForgetsVoidNominations,  // A failed claim of an earlier launcher is not noticed.
  kSkipsRows,               // A commit with several changed jobs leaves one out.
  kSkipsSettings,           // Settings, such as group limits, are not written to the store.
  kCommitsFirstOnly,        // Only the first of several batches is written.
  kHidesFullDisk,           // A commit that the full disk refused counts as durable.
  kAcceptsRefused,          // A submission that was refused is answered as accepted.
  kLosesTimers,             // Timers of the daemon's loop never fire.
  kDropsStops,              // Stop commands do not reach the node.
  kRepeatsCommands,         // Each node command is carried out twice.
  // Wrong node drivers.
  kAdoptsTwice,       // A run that is adopted is launched again.
  kDropsExits,        // The node does not report ends to the controller.
  kIgnoresLeftovers,  // A run counts as over although some of its processes run.
  kStartsUnrecorded,  // A start is reported before the run record is written.
  kMistakesAttempts,  // Every report of a job is taken for one of its current attempt.
  kOverlooksRecords,  // A new daemon reads no run records.
  kIgnoresClaims,     // A record that names no process yet counts as one of a dead supervisor.
  kIgnoresReboots,    // After a reboot, runs are treated as if their processes were alive.
  kTrustsTheDead,     // Dead supervisors are not noticed.
  kSparesAdopted,     // Signals to adopted runs are not sent.
  kKeepsRecords,      // Run records are never removed.
  kHidesFoundRuns,    // Runs that the controller did not name are not reported to it.
  // Wrong time-sharing.
  kParksEarly,       // A job counts as parked before it has left its GPUs.
  kDropsReturns,     // Parked jobs are not told to return.
  kKeepsStopped,     // The processes of a job that returns are not continued.
  kLoosensContract,  // The controller lets jobs lose more than they are promised.
};

struct ChaosOptions {
  std::uint64_t seed = 1;           // World i uses seed + i.
  std::uint64_t steps = 1'000'000;  // New worlds are started until this many steps were made.
  std::uint64_t worlds = 0;         // Maximal number of worlds. 0: unlimited.
  std::uint64_t check_every = 1;    // Expensive checks run after this many steps, and at every restart and end.
  std::size_t events_kept = 60;     // Per world, for the report of a failure.
  bool traces = false;              // Returns the events of the last world even without a failure.
  ChaosMutation mutation = ChaosMutation::kNone;
  /// Optional. Called after each simulated world with the number of steps made so far.
  std::function<void(std::uint64_t steps)> on_world_done;
};

/// Counts of events, which show how thorough a run was.
struct ChaosFigures {
  std::uint64_t steps = 0;
  std::uint64_t worlds = 0;
  std::uint64_t jobs = 0;      // Acknowledged jobs; array elements count one by one.
  std::uint64_t launches = 0;  // First processes that were started.
  std::uint64_t ends = 0;      // Ends that became durable.
  std::uint64_t commits = 0;
  std::uint64_t checks = 0;  // Expensive checks.
  std::uint64_t parks = 0;   // Jobs that have left their GPUs for others.
  std::uint64_t returns = 0;
  // Faults.
  std::uint64_t crashes = 0;            // Kills of the daemon.
  std::uint64_t crashes_midway = 0;     // Kills of the daemon between a commit and its last effect.
  std::uint64_t crashes_in_commit = 0;  // Kills of the daemon while a commit was being written.
  std::uint64_t reboots = 0;
  std::uint64_t supervisor_kills = 0;
  std::uint64_t guard_kills = 0;
  std::uint64_t process_kills = 0;
  std::uint64_t launcher_kills = 0;
  std::uint64_t keeper_kills = 0;
  std::uint64_t lost_messages = 0;
  std::uint64_t doubled_messages = 0;
  std::uint64_t late_messages = 0;  // Messages that arrived after a later one.
  std::uint64_t full_disks = 0;
  std::uint64_t clock_jumps = 0;
  std::uint64_t gpu_faults = 0;
  std::uint64_t foreign_processes = 0;

  ChaosFigures& operator+=(const ChaosFigures& other);
};

struct ChaosFailure {
  std::uint64_t seed = 0;  // Seed of the world. ChaosOptions{.seed = seed, .worlds = 1} runs it alone.
  std::uint64_t step = 0;
  std::string broken;  // The guarantee that was broken.
  std::string events;  // The last events, oldest first, one per line.
};

struct ChaosResult {
  ChaosFigures figures;
  std::optional<ChaosFailure> failure;  // The first failure. It ends the run.
  std::string events;                   // Set with ChaosOptions::traces.
};

/// Simulates daemons, jobs and kills at random moments, and checks that no guarantee is broken. The same options always
/// give the same result. A failing assertion ends the process as in the daemon, and the world's seed is written to
/// standard error.
ChaosResult RunChaos(const ChaosOptions& options);

/// Returns the figures as one line: "10000000 steps in 812 worlds: ...".
std::string ToText(const ChaosFigures& figures);

}  // namespace divvy::simulate
