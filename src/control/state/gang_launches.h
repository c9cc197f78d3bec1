// Launches, and jobs on several nodes (gangs). Each node prepares its part and reports that. When all are ready, this
// is made durable, and all are told to go. If a node fails to prepare, the launch is rolled back everywhere. The job
// ends with its first process on its first node, or when a node loses its part. The other nodes are then stopped, and
// the job is over when all parts have ended.
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

  /// Sends the launch commands of a job, which may be on one node.
  void Launch(const JobRecord& record, Time now);
  /// A gang was loaded or found that is starting. Which of its nodes are ready is not stored, so it is rolled back.
  void NoteRestored(const JobRecord& record) {
    if (!record.gang.empty() && !record.was_let_go) preparing_[record.id] = kNoTime;
  }
  void Forget(JobId job) { preparing_.erase(job); }
  /// See Controller::OnPrepared.
  void OnPrepared(JobId job, std::uint32_t attempt, const std::string& node, std::uint16_t port, Time now);
  /// The node is connected again: a GoCommand sent before may not have arrived.
  void RepeatGo(const std::string& node) const;
  /// Rolls back launches whose deadline has passed.
  void Follow(Time now);
  Time next_deadline() const;
  /// Records the end of a gang's part. Returns whether it was the last part. The job's exit is that of its first node,
  /// unless another part was lost before.
  bool EndAllocation(JobRecord& record, const std::string& node, const Exit& exit, Time at, Time now);

 private:
  /// Sends the GoCommands of a gang whose nodes are all ready.
  void LetGo(const JobRecord& record) const;
  void UndoGang(JobRecord& record, const std::string& why, Time now);

  JobTable& jobs_;
  EffectRecorder& effects_;
  std::map<JobId, Time> preparing_;  // Gangs that are being prepared, and their deadlines.
};

}  // namespace divvy
