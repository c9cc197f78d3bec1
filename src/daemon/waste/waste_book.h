// Running jobs that waste their GPUs: what samples show of each, held against the rules (samples/waste.h), every ten
// seconds. On the loop's thread. What jobs were told, warnings among it, is kept in the store; what was seen of them
// before the daemon began comes from samples.db (waste_past.h), as what ended jobs lost does.
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
#include "daemon/telemetry/sample_book.h"
#include "samples/job_use.h"
#include "samples/run_waste.h"
#include "samples/waste.h"
#include "samples/waste_steps.h"
#include "wire/messages/waste_messages.h"

namespace divvy {

class WasteBook {
 public:
  static constexpr samples::Second kEvery = 10;
  /// So often a job is queued again for wasting its GPUs; the next time it is held besides, for it would go on for
  /// ever.
  static constexpr std::int64_t kMostRequeues = 2;
  static constexpr std::string_view kRow = "waste.job.";  // JOB: under which the store keeps what it was told.

  /// What a job itself wants to be done about it.
  using WishOf = std::function<WasteAction(const JobRecord& record)>;
  /// `own_node`: the name that samples have of the controller's own machine. `wish`: may be null.
  WasteBook(WasteRules rules, std::string own_node, WishOf wish = nullptr)
      : rules_(std::move(rules)), own_node_(std::move(own_node)), wish_(std::move(wish)) {}

  /// Something that a job's history should have: said once for each kind of waste in each of its runs; warnings; and
  /// what is to be done about it now.
  struct News {
    JobId job;
    std::uint32_t attempt = 0;
    std::string text;                         // "wastes 4 GPUs: it does nothing with ...; divvy cancel 17"
    WasteAction action = WasteAction::kNone;  // To be done now; OnAction says what came of it.
    double lost_gpu_hours = 0;                // By its run, as far as it was seen.
    std::optional<double> lost_cost;          // Where prices are known.
  };
  /// A row for the store; an empty text removes it.
  using Setting = std::pair<std::string, std::string>;
  /// Before the first look. True if the key is one of ours.
  bool LoadSetting(std::string_view key, std::string_view text);
  /// What has changed since it was asked last.
  std::vector<Setting> TakeSettings(const Controller& controller);

  /// From now on, what was seen of jobs that ran before the first look is asked for: TakeUnknown names them, each once,
  /// and until Resume has been told of one it is not looked at.
  void ExpectPast() { expects_past_ = true; }
  std::vector<JobRecord> TakeUnknown(const Controller& controller);
  /// `use` of its run until now; `looks` at its end, in order of time; `idle_since` as samples::WasteWatch::Past has
  /// it. Of a run that is over: nothing.
  void Resume(const JobRecord& record, const samples::JobUse& use, const std::vector<samples::WasteWatch::Look>& looks,
              const std::vector<samples::Second>& idle_since = {});
  const std::string& own_node() const { return own_node_; }
  /// So far back looks are of use.
  samples::Second LooksBack() const;

  /// Looks at every running job, where the last look is long enough ago.
  std::vector<News> Look(const Controller& controller, const SampleBook& samples, samples::Second now);

  /// `news.action` was done, or could not be.
  void OnAction(const News& news, bool is_done, samples::Second now);

  wire::WasteAnswer View(const Controller& controller, samples::Second now) const;

  /// When what a run of it did begins to count: the grace after its start is over.
  samples::Second CountsFrom(const JobRecord& record) const;
  const WasteRules& rules() const { return rules_; }
  /// Its last run, which is over, was long enough for a finding, and is to be judged.
  bool JudgesEnded(const JobRecord& record) const;
  /// What this job, which has ended, should have asked for: by what was seen of its last run since CountsFrom.
  std::vector<wire::WasteFinding> OfEnded(const JobRecord& record, const samples::JobUse& use,
                                          const samples::RunDetail& detail, const Controller& controller) const;

 private:
  struct Watched {
    std::uint32_t attempt = 0;
    samples::WasteWatch watch;
    std::uint32_t told = 0;  // Bits of samples::WasteKind.
    samples::WasteSteps steps;
    /// Its steps are those of before a restart, and until more is seen they stay as they are.
    bool is_resumed = false;
    std::int64_t requeues = 0;  // KeptWaste.
    enum class Past { kKnown, kUnknown, kAsked } past = Past::kKnown;
  };
  Watched Begin(const JobRecord& record, const samples::WasteWatch::Shape& shape) const;
  /// What is to be done about this job, which was queued again for it so often; kNone: nothing can, or is to.
  WasteAction ActionFor(const JobRecord& record, std::int64_t requeues) const;
  void Tell(const JobRecord& record, Watched& watched, samples::Second now, std::vector<News>& news) const;
  bool IsExempt(const JobRecord& record) const;
  bool ActsOnIdleAlone() const;
  samples::WasteWatch::Look LookAt(const JobRecord& record, const SampleBook& samples, samples::Second now) const;
  std::string NodeIn(const Seat& seat) const { return seat.node.empty() ? own_node_ : seat.node; }

  WasteRules rules_;
  std::string own_node_;
  WishOf wish_;
  bool expects_past_ = false;
  samples::Second begun_at_ = 0;  // The first look; 0: there was none.
  samples::Second looked_at_ = 0;
  std::map<JobId, Watched> jobs_;
  std::map<JobId, wire::KeptWaste> kept_;  // As the store has it.
};

/// What it has of GPUs is seen as one on each machine, by what its processes use: it has parts of them.
bool IsSeenAsOne(const JobRecord& record);
/// Of these GPU-hours, on the model that it has; nothing where no prices are set.
std::optional<double> CostOf(double gpu_hours, const JobRecord& record, const Controller& controller);
/// What becomes of a job: "stopped", "queued again and held".
std::string DoneText(WasteAction action, const JobRecord& record);
/// What to do about a finding of this job, or, of one that has ended, what to do another time.
std::string RemedyOf(const samples::Waste& waste, const JobRecord& record);

}  // namespace divvy
