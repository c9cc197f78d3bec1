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
  /// All nodes of a multi-node job must prepare their parts within this time; otherwise the launch is rolled back.
  static constexpr Duration kPrepareWithin = std::chrono::seconds(60);

  GangLaunches(JobTable& jobs, EffectRecorder& effects) : jobs_(jobs), effects_(effects) {}

  /// Sends the launch commands of a job to its nodes (one or several). `is_parkable`: see LaunchCommand.
  void Launch(const JobRecord& record, bool is_parkable, Time now);
  /// Call this for a running job on several nodes after a restart. If it was just starting, its launch is rolled back,
  /// because it is not stored which of its nodes were ready.
  void NoteRestored(const JobRecord& record);
  void Forget(JobId job);
  /// Handles a node's report that it has prepared its part of a job on several nodes (see Controller::OnPrepared).
  void OnPrepared(JobId job, std::uint32_t attempt, const std::string& node, std::uint16_t port, Time now);
  /// Call this when the node is connected again. Repeats its GoCommands, which may not have arrived.
  void RepeatGo(const std::string& node) const;
  /// Rolls back launches that were not prepared in time. Ends jobs on several nodes that have continued without a lost
  /// part for as long as they may.
  void Follow(Time now);
  Time next_deadline() const;
  /// Call this when a part of a job on several nodes has ended with `exit`. If the part was lost and the job may
  /// continue without it for a while (it is stale then), records that and returns true. Otherwise changes nothing and
  /// returns false; then call EndAllocation.
  bool OutlivesLoss(JobRecord& record, const std::string& node, const Exit& exit, PartLoss loss);
  /// Explains that a job on several nodes continues without a lost part (is stale), why, and for how long; empty if it
  /// does not.
  static Reason StaleReason(const JobRecord& record);
  /// Records the end of the part of a job on several nodes that ran on this node. Returns true if it was the last part.
  /// The job's exit is that of its first node, unless another part was lost before.
  bool EndAllocation(JobRecord& record, const std::string& node, const Exit& exit, Time at, Time now);

 private:
  /// Starts a job on several nodes: sends GoCommands to its nodes, which are all prepared.
  void LetGo(const JobRecord& record) const;
  void UndoGang(JobRecord& record, const std::string& why, Time now);
  /// Ends a job that continued without a lost part: makes its first loss the cause of its end, and decides whether it
  /// is requeued.
  static void ConcludeLoss(JobRecord& record);
  /// Stops the parts of the job that have not ended. Call it when the job's reason is set.
  void StopOthers(JobRecord& record);
  void FollowStale(Time now);

  JobTable& jobs_;
  EffectRecorder& effects_;
  std::map<JobId, Time> preparing_;  // Gangs that are being prepared, and their deadlines.
  std::map<JobId, Time> stale_;      // Stale gangs, and when they end. Those that never do are left out.
};

}  // namespace divvy
