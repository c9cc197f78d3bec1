// Launches, and jobs on several nodes (gangs). Each node prepares its part and reports that. When all are ready, this
// is made durable, and all are told to go. If a node fails to prepare, the launch is rolled back everywhere. The job
// ends with its first process on its first node, or when a node loses its part. The other nodes are then stopped, and
// the job is over when all parts have ended.
//
// A gang with a grace for lost parts (JobSpec::stale_grace) is stale after a loss: its other parts continue, and it
// keeps all its GPUs. It ends as if the loss had just happened when the first loss is that old, or when its program
// fails. If the program succeeds before that, so does the job.
#pragma once

#include <map>
#include <string>

#include "control/state/effect_recorder.h"
#include "control/state/job_table.h"

namespace divvy {

class GangLaunches {
 public:
  /// All nodes of a gang must prepare their parts within this time; otherwise the launch is rolled back.
  static constexpr Duration kPrepareWithin = std::chrono::seconds(60);

  GangLaunches(JobTable& jobs, EffectRecorder& effects) : jobs_(jobs), effects_(effects) {}

  /// Sends the launch commands of a job, which may be on one node. `is_parkable`: see LaunchCommand.
  void Launch(const JobRecord& record, bool is_parkable, Time now);
  /// A gang was loaded or found. Which of its nodes are ready is not stored, so one that is starting is rolled back.
  void NoteRestored(const JobRecord& record);
  void Forget(JobId job);
  /// See Controller::OnPrepared.
  void OnPrepared(JobId job, std::uint32_t attempt, const std::string& node, std::uint16_t port, Time now);
  /// The node is connected again: a GoCommand sent before may not have arrived.
  void RepeatGo(const std::string& node) const;
  /// Rolls back launches whose deadline has passed, and ends gangs that were stale for as long as they may be.
  void Follow(Time now);
  Time next_deadline() const;
  /// A part has ended with `exit`. If that is a loss and the gang may be stale, records the loss and returns true.
  /// Otherwise nothing has changed: call EndAllocation.
  bool OutlivesLoss(JobRecord& record, const std::string& node, const Exit& exit, PartLoss loss);
  /// Explains why the gang is stale, and for how long; empty if it is not.
  static Reason StaleReason(const JobRecord& record);
  /// Records the end of a gang's part. Returns whether it was the last part. The job's exit is that of its first node,
  /// unless another part was lost before.
  bool EndAllocation(JobRecord& record, const std::string& node, const Exit& exit, Time at, Time now);

 private:
  /// Sends the GoCommands of a gang whose nodes are all ready.
  void LetGo(const JobRecord& record) const;
  void UndoGang(JobRecord& record, const std::string& why, Time now);
  /// Makes the first loss of a stale gang the cause of its end, and decides whether it is requeued.
  static void ConcludeLoss(JobRecord& record);
  /// Stops the parts that have not ended. Call once the reason is known.
  void StopOthers(JobRecord& record);
  void FollowStale(Time now);

  JobTable& jobs_;
  EffectRecorder& effects_;
  std::map<JobId, Time> preparing_;  // Gangs that are being prepared, and their deadlines.
  std::map<JobId, Time> stale_;      // Stale gangs, and when they end. Those that never do are left out.
};

}  // namespace divvy
