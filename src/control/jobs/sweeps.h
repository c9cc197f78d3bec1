// Sweeps: arrays whose elements are trials. The numbers that trials report decide which of them continue
// (sweep/halving.h); losers are stopped, or paused until they are promoted. A pause is a requeued, held job: it gives
// its GPUs back, and starts again when it is promoted. With SweepRule::parks_losers, it is a job whose GPUs' memory is
// parked on its node, if that is possible (TimeSharer).
//
// Every verdict is in the same effects as the row of the report that led to it. So after a restart either both
// happened or neither did, and the rows alone give the state back.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "control/jobs/job_access.h"
#include "control/jobs/job_commands.h"
#include "control/jobs/job_lifecycle.h"
#include "control/jobs/time_sharer.h"
#include "control/state/effect_recorder.h"
#include "control/state/job_table.h"
#include "control/state/sweep_row.h"

namespace divvy {

class Sweeps {
 public:
  static constexpr std::uint64_t kMostTrials = 100'000;  // Each takes memory while its sweep is known.
  using Numbers = std::vector<std::pair<std::string, double>>;

  Sweeps(JobTable& jobs, EffectRecorder& effects, SchedulerFeed& feed, JobLifecycle& lifecycle, JobAccess& access,
         JobCommands& commands, TimeSharer& time_sharer)
      : jobs_(jobs),
        effects_(effects),
        feed_(feed),
        lifecycle_(lifecycle),
        access_(access),
        commands_(commands),
        time_sharer_(time_sharer) {}

  /// Returns the sweep's rule from the labels of a job's specification; nullopt if the job is not a sweep. Fails if the
  /// rule is not valid for this job.
  static Result<std::optional<sweep::SweepRule>> RuleOf(const JobSpec& spec, std::uint64_t elements);
  /// Begins a sweep: the array `id` was submitted with this rule.
  void Begin(JobId id, const sweep::SweepRule& rule);
  /// Forgets the sweep of the array `id`, because its submission was undone.
  void Withdraw(JobId id) { sweeps_.erase(id); }

  // See Controller.
  void OnMetrics(JobId job, const Numbers& numbers, Time now);
  Result<JobId> Tell(JobId id, const std::map<std::string, std::string>& parameters,
                     const std::shared_ptr<const JobSpec>& spec, const Caller& caller, Time now);
  /// Fails if users may not release this held job, because its sweep decides when it continues.
  Status CheckRelease(JobId id) const;

  /// Returns true if the job is a trial that is parked when it pauses.
  bool IsParkedWhenPaused(const JobRecord& record) const;

  /// Records that a job has ended. The next Follow decides the consequences for its sweep.
  void OnFinished(const JobRecord& ended);
  /// Carries out the consequences of ended trials for other trials. Ends sweeps of which only paused trials are left,
  /// and forgets sweeps that ended before a trial began. Cost: O(sweeps), and O(trials) for those whose trials have all
  /// begun.
  void Follow(Time now);

  /// Loads a row of the store. Returns false if its key is not one of sweeps. A row that cannot be read is ignored.
  bool LoadSetting(std::string_view key, std::string_view text);
  /// Call after all rows and live jobs are loaded. Drops sweeps whose array is not known any more.
  void Restore(const FindOutcome& outcome);

  const std::map<JobId, Sweep>& all() const { return sweeps_; }
  /// Returns the sweep of which this job is the array or an element; null if there is none.
  const Sweep* Of(JobId job) const { return const_cast<Sweeps*>(this)->FindOf(job); }
  /// The trials that were running when the controller started. It may have missed their reports.
  const std::vector<JobId>& restored() const { return restored_; }

 private:
  Sweep* FindOf(JobId job);
  SweepTrial& TrialOf(Sweep& sweep, std::uint32_t ordinal) { return sweep.trials[ordinal]; }
  void Keep(const Sweep& sweep, std::uint32_t ordinal) {
    effects_.ReplaceSetting(TrialRow(sweep.id, ordinal, sweep.trials.at(ordinal)));
  }
  void CarryOut(Sweep& sweep, const std::vector<sweep::Decision>& decisions, Time now);
  void Continue(Sweep& sweep, std::uint32_t ordinal, Time now);
  void Pause(Sweep& sweep, std::uint32_t ordinal, Time now);
  void Stop(Sweep& sweep, std::uint32_t ordinal, const std::string& why, Time now);
  void EndAtTarget(Sweep& sweep, std::uint32_t ordinal, Time now);
  void FollowEnds(Time now);
  /// Trials that could not be parked after all, or whose runs were lost, wait instead.
  void FollowParked(Sweep& sweep, Time now);
  void PauseInQueue(Sweep& sweep, std::uint32_t ordinal, Time now);
  void EndIfOnlyPaused(Sweep& sweep, Time now);

  JobTable& jobs_;
  EffectRecorder& effects_;
  SchedulerFeed& feed_;
  JobLifecycle& lifecycle_;
  JobAccess& access_;
  JobCommands& commands_;
  TimeSharer& time_sharer_;
  std::map<JobId, Sweep> sweeps_;
  std::map<JobId, std::map<std::uint32_t, SweepTrial>> loaded_trials_;  // Until Restore.
  std::vector<JobId> restored_;
  std::vector<std::pair<JobId, std::uint32_t>> ended_;  // Trials that have ended since Follow.
};

}  // namespace divvy
