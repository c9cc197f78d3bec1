// Finds running jobs that waste their GPUs: compares the samples of each with the rules (samples/waste.h) every ten
// seconds. Used on the loop's thread. Reports and warnings about a job are kept in the store. Samples
// of running jobs from before the daemon's start come from samples.db (waste_past.h), and so do the losses of ended
// jobs.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "control/controller/controller.h"
#include "daemon/telemetry/metric_store.h"
#include "samples/job_use.h"
#include "samples/run_waste.h"
#include "samples/waste.h"
#include "samples/waste_steps.h"
#include "wire/messages/waste_messages.h"

namespace divvy {

class WasteTracker {
 public:
  static constexpr samples::Second kEvery = 10;
  /// A job is queued again for waste at most this often. The next time it is also held, because it would repeat
  /// indefinitely.
  static constexpr std::int64_t kMostRequeues = 2;
  static constexpr std::string_view kRow = "waste.job.";  // The key of a row in the store is this and the job's id.

  /// The action that the job itself requests.
  using WishOf = std::function<WasteAction(const JobRecord& record)>;
  /// `own_node` is the name of the controller's own node in samples. `wish` may be null.
  WasteTracker(WasteRules rules, std::string own_node, WishOf wish = nullptr)
      : rules_(std::move(rules)), own_node_(std::move(own_node)), wish_(std::move(wish)) {}

  /// Something to report about a job: a kind of waste (once per run), a warning, or an action to take now.
  struct News {
    JobId job;
    std::uint32_t attempt = 0;
    std::string text;                         // "wastes 4 GPUs: it does nothing with ...; divvy cancel 17"
    WasteAction action = WasteAction::kNone;  // The action to take now; OnAction reports the result.
    double lost_gpu_hours = 0;                // Of this run, as far as it was sampled.
    std::optional<double> lost_cost;          // Set if prices are known.
  };
  /// A row for the store; an empty text removes it.
  using Setting = std::pair<std::string, std::string>;
  /// Loads a row of the store. Call before the first look. Returns true if the key belongs to this class.
  bool LoadSetting(std::string_view key, std::string_view text);
  /// Returns the rows that have changed since the last call.
  std::vector<Setting> TakeSettings(const Controller& controller);

  /// Call before the first look if samples from before the daemon's start can be read. A job that ran before then is
  /// examined only after Resume was called with its stored samples. TakeUnknown returns each such job once.
  void ExpectPast() { expects_past_ = true; }
  std::vector<JobRecord> TakeUnknown(const Controller& controller);
  /// Takes past samples of a running job. `use` is what the run has used until now, `looks` its most recent samples in
  /// order of time, `idle_since` as in samples::WasteWatch::Past. Does nothing if the run is over.
  void Resume(const JobRecord& record, const samples::JobUse& use, const std::vector<samples::WasteWatch::Look>& looks,
              const std::vector<samples::Second>& idle_since = {});
  const std::string& own_node() const { return own_node_; }
  /// Returns how many seconds back samples matter for the rules.
  samples::Second LooksBack() const;

  /// Examines every running job and returns what is to be reported. Does nothing within kEvery after the last call that
  /// did.
  std::vector<News> Look(const Controller& controller, const MetricStore& samples, samples::Second now);

  /// Call when the action of `news` was done (`is_done`) or could not be done.
  void OnAction(const News& news, bool is_done, samples::Second now);

  wire::WasteAnswer View(const Controller& controller, samples::Second now) const;

  /// Returns the time from which samples of the run count: the end of the grace period after its start.
  samples::Second CountsFrom(const JobRecord& record) const;
  const WasteRules& rules() const { return rules_; }
  /// Returns true if the job's last run is over and was long enough to be judged.
  bool JudgesEnded(const JobRecord& record) const;
  /// Returns findings about the last run of an ended job, and the requests that would have been enough. `use` and
  /// `detail` are from the samples since CountsFrom.
  std::vector<wire::WasteFinding> OfEnded(const JobRecord& record, const samples::JobUse& use,
                                          const samples::RunDetail& detail, const Controller& controller) const;

 private:
  struct Watched {
    std::uint32_t attempt = 0;
    samples::WasteWatch watch;
    std::uint32_t told = 0;  // The reported kinds, as bits of samples::WasteKind.
    samples::WasteSteps steps;
    /// The warning steps are those from before a restart; they stay unchanged until enough is sampled.
    bool is_resumed = false;
    std::int64_t requeues = 0;  // See KeptWaste.
    enum class Past { kKnown, kUnknown, kAsked } past = Past::kKnown;
  };
  Watched Begin(const JobRecord& record, const samples::WasteShape& shape) const;
  /// The action for this job after that many requeues; kNone if none is possible or wanted.
  WasteAction ActionFor(const JobRecord& record, std::int64_t requeues) const;
  void Tell(const JobRecord& record, Watched& watched, samples::Second now, std::vector<News>& news) const;
  bool IsExempt(const JobRecord& record) const;
  bool ActsOnIdleAlone() const;
  samples::WasteWatch::Look LookAt(const JobRecord& record, const MetricStore& samples, samples::Second now) const;
  std::string NodeIn(const NodeAllocation& allocation) const {
    return allocation.node.empty() ? own_node_ : allocation.node;
  }

  WasteRules rules_;
  std::string own_node_;
  WishOf wish_;
  bool expects_past_ = false;
  samples::Second begun_at_ = 0;  // The time of the first look; 0: none.
  samples::Second looked_at_ = 0;
  std::map<JobId, Watched> jobs_;
  std::map<JobId, wire::KeptWaste> kept_;  // As stored.
};

/// Returns true if the job holds GPU fractions. The samples then have one value for all GPUs of the job on a node,
/// which comes from its processes.
bool IsSeenAsOne(const JobRecord& record);
/// The cost of these GPU-hours on the job's GPU model; nullopt if no prices are set.
std::optional<double> CostOf(double gpu_hours, const JobRecord& record, const Controller& controller);
/// Returns what happens to the job: "stopped", "queued again and held".
std::string DoneText(WasteAction action, const JobRecord& record);
/// Returns advice for a finding; for an ended job, advice for the next time.
std::string RemedyOf(const samples::Waste& waste, const JobRecord& record);

}  // namespace divvy
