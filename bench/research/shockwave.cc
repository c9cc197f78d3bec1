#include "research/shockwave.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "research/rates/fair_rounds.h"
#include "research/rates/max_min.h"
#include "research/rates/slack.h"

namespace divvy::research {
namespace {

struct Training {
  std::size_t id = 0;
  const ShockwaveJob* job = nullptr;
  std::vector<double> epoch_s;  // According to the profile.
  double alone_s = 0;
  double steps = 0, steps_done = 0;  // Counted in steps of the present batch size.
  int batch = 0;
  int next_batch = 0;  // The requested batch size; 0: none is requested.
  double rate = 0;     // Steps per second.
  double ran_s = 0;
  bool is_running = false;  // Whether it ran in the last round.
  double jobs_seen = 0;     // The number of active jobs, summed over the rounds since it arrived.
  std::int64_t rounds = 0;

  double RemainingS(bool knows_profile) const {
    if (!knows_profile) return (steps - steps_done) / rate;
    const auto done = static_cast<std::ptrdiff_t>(std::floor(steps_done / EpochSteps(*job, batch)));
    const auto from = std::min(done, static_cast<std::ptrdiff_t>(epoch_s.size()) - 1);
    return std::accumulate(epoch_s.begin() + from, epoch_s.end(), 0.0);
  }
};

class Experiment {
 public:
  Experiment(const ShockwaveOptions& options, const std::vector<ShockwaveJob>& jobs,
             const GavelThroughputs& throughputs)
      : options_(options), jobs_(jobs), throughputs_(throughputs), fair_({options.gpus}, options.round_s / 2) {}

  Result<ShockwaveResult> Run() {
    result_.jobs.resize(jobs_.size());
    while (next_ < jobs_.size() || !active_.empty()) {
      if (active_.empty()) now_s_ = std::max(now_s_, jobs_[next_].arrival_s);
      DIVVY_CHECK(Admit());
      Round();
    }
    Summarise();
    return std::move(result_);
  }

 private:
  Status Admit() {
    for (; next_ < jobs_.size() && jobs_[next_].arrival_s <= now_s_; ++next_) {
      const ShockwaveJob& job = jobs_[next_];
      if (job.gpus > options_.gpus)
        return FailedPrecondition("job " + std::to_string(next_) + " needs " + std::to_string(job.gpus) + " GPUs of " +
                                  std::to_string(options_.gpus));
      Training added{.id = next_, .job = &job, .steps = job.steps, .batch = job.batch};
      DIVVY_TRY(added.epoch_s, ProfiledEpochSeconds(job, throughputs_));
      added.alone_s = std::accumulate(added.epoch_s.begin(), added.epoch_s.end(), 0.0);
      const std::optional<double> rate = throughputs_.Alone("v100", KindAt(job, job.batch));
      if (!rate || *rate <= 0) return InvalidArgument("no v100 rate of " + KindAt(job, job.batch).model);
      added.rate = *rate;
      active_.push_back(std::move(added));
      if (options_.policy == ShockwavePolicy::kMaxMin) fair_.Join(next_, job.gpus);
      has_changed_ = true;
    }
    return {};
  }

  std::vector<std::size_t> Decide() {
    return options_.policy == ShockwavePolicy::kMaxMin ? DecideByShares() : DecideBySlack();
  }

  std::vector<std::size_t> DecideByShares() {
    constexpr double kBetweenS = 1000;
    if (has_changed_ && (settled_s_ == 0 || now_s_ - settled_s_ >= kBetweenS)) {
      std::vector<rates::RatedJob> rated;
      for (const Training& job : active_) rated.push_back({{1}, job.job->gpus, 1});
      const std::array<double, 1> gpus = {static_cast<double>(options_.gpus)};
      fair_.Settle(now_s_ - settled_s_, rates::MaxMinShares(rated, gpus).time);
      settled_s_ = now_s_;
      has_changed_ = false;
    }
    const std::array<std::size_t, 1> types = {0};
    std::vector<std::size_t> running;
    for (const auto& [id, type] : fair_.Pick(types)) {
      const auto job = std::ranges::lower_bound(active_, id, {}, &Training::id);
      running.push_back(static_cast<std::size_t>(job - active_.begin()));
    }
    return running;
  }

  std::vector<std::size_t> DecideBySlack() {
    std::vector<rates::SlackJob> jobs;
    for (Training& job : active_) {
      job.jobs_seen += static_cast<double>(active_.size());
      ++job.rounds;
      jobs.push_back({job.job->arrival_s, job.ran_s, job.RemainingS(options_.policy == ShockwavePolicy::kSlackProfiled),
                      job.jobs_seen / static_cast<double>(job.rounds), job.job->gpus, job.is_running});
    }
    return rates::PickByLeastSlack(jobs, now_s_, options_.gpus, {options_.rho, options_.round_s});
  }

  void Round() {
    const std::vector<std::size_t> running = Decide();
    std::vector<char> has_run(active_.size()), has_ended(active_.size());
    double end_s = now_s_;
    for (const std::size_t i : running) {
      Training& job = active_[i];
      const double seconds = Train(job);
      end_s = std::max(end_s, now_s_ + seconds);
      has_run[i] = 1;
      has_ended[i] = job.steps_done >= job.steps || job.ran_s > std::floor(std::floor(job.alone_s) * 1.5);
      if (has_ended[i] != 0) {
        Finish(job, now_s_ + seconds);
      } else if (job.next_batch != 0) {
        ChangeBatch(job);
      }
      job.next_batch = 0;
    }
    std::size_t kept = 0;
    for (std::size_t i = 0; i < active_.size(); ++i) {
      if (has_ended[i] != 0) continue;
      active_[i].is_running = has_run[i] != 0;
      if (kept != i) active_[kept] = std::move(active_[i]);
      ++kept;
    }
    active_.resize(kept);
    // A round in which no job completes a step must also end.
    now_s_ = end_s > now_s_ ? end_s : now_s_ + options_.round_s;
    ++result_.rounds;
    for (Training& job : active_) AskForBatch(job);
  }

  /// Runs the job for one round. Returns the seconds that it runs in this round.
  double Train(Training& job) {
    double steps = std::min(std::floor(job.rate * options_.round_s), job.steps - job.steps_done);
    const double seconds = steps / job.rate;
    double trained_s = seconds;
    if (!job.is_running && result_.rounds > 0) {
      ++result_.restarts;
      // As in the published simulator, a job that runs for clearly less than a round restarts without cost.
      constexpr double kShortS = 5;
      if (seconds > options_.round_s - kShortS) {
        trained_s -= options_.restart_s;
        steps = std::floor(steps * trained_s / seconds);
      }
    }
    job.steps_done += steps;
    job.ran_s += trained_s;
    busy_s_ += trained_s * job.job->gpus;
    if (options_.policy == ShockwavePolicy::kMaxMin) fair_.Ran(job.id, 0, trained_s);
    return seconds;
  }

  /// Changes to `next_batch`. Ignored if the throughputs lack that batch size.
  void ChangeBatch(Training& job) {
    const std::optional<double> rate = throughputs_.Alone("v100", KindAt(*job.job, job.next_batch));
    if (!rate || *rate <= 0) return;
    const double before = EpochSteps(*job.job, job.batch), after = EpochSteps(*job.job, job.next_batch);
    const double epochs = std::ceil(job.steps / before);
    job.steps = std::ceil(job.steps * (1.0 * job.batch / job.next_batch));
    if (std::ceil(job.steps / after) != epochs) job.steps = epochs * after;
    job.steps_done = std::ceil(job.steps_done / before) * after;
    job.batch = job.next_batch;
    job.rate = *rate;
    has_changed_ = true;
  }

  static void AskForBatch(Training& job) {
    const auto epoch = static_cast<int>(std::ceil(job.steps_done / EpochSteps(*job.job, job.batch)));
    const int batch = NextBatch(*job.job, job.batch, epoch);
    if (batch != job.batch) job.next_batch = batch;
  }

  void Finish(const Training& job, double end_s) {
    const double contention = std::max(1.0, static_cast<double>(jobs_.size()) / options_.gpus);
    const double jct_s = end_s - job.job->arrival_s;
    result_.jobs[job.id] = {jct_s, job.alone_s, jct_s / (job.alone_s * contention)};
    result_.makespan_s = std::max(result_.makespan_s, end_s);
    if (options_.policy == ShockwavePolicy::kMaxMin) fair_.Leave(job.id);
    has_changed_ = true;
  }

  void Summarise() {
    for (const ShockwaveResult::Job& job : result_.jobs) {
      result_.mean_jct_s += job.jct_s / static_cast<double>(jobs_.size());
      result_.worst_rho = std::max(result_.worst_rho, job.rho);
      result_.unfair += job.rho > 1 ? 1 / static_cast<double>(jobs_.size()) : 0;
    }
    result_.busy = busy_s_ / (now_s_ * options_.gpus);
  }

  const ShockwaveOptions& options_;
  const std::vector<ShockwaveJob>& jobs_;
  const GavelThroughputs& throughputs_;
  rates::FairRounds fair_;
  std::vector<Training> active_;  // Sorted by id.
  std::size_t next_ = 0;
  double now_s_ = 0, settled_s_ = 0, busy_s_ = 0;
  bool has_changed_ = false;  // Since the shares were last computed.
  ShockwaveResult result_;
};

}  // namespace

std::optional<ShockwavePolicy> ParseShockwavePolicy(std::string_view name) {
  if (name == "max-min") return ShockwavePolicy::kMaxMin;
  if (name == "slack") return ShockwavePolicy::kSlack;
  if (name == "slack-profiled") return ShockwavePolicy::kSlackProfiled;
  return std::nullopt;
}

Result<ShockwaveResult> RunShockwave(const ShockwaveOptions& options) {
  DIVVY_TRY(const std::vector<ShockwaveJob> jobs, ReadShockwaveTrace(options.trace));
  DIVVY_TRY(const GavelThroughputs throughputs, GavelThroughputs::Read(options.throughputs));
  return RunShockwave(options, jobs, throughputs);
}

Result<ShockwaveResult> RunShockwave(const ShockwaveOptions& options, const std::vector<ShockwaveJob>& jobs,
                                     const GavelThroughputs& throughputs) {
  if (jobs.empty()) return InvalidArgument("no jobs");
  if (options.gpus < 1 || !(options.round_s > options.restart_s) || options.restart_s < 0 || !(options.rho > 0))
    return InvalidArgument("GPUs, rho and the length of a round beyond a restart must be more than 0");
  return Experiment(options, jobs, throughputs).Run();
}

}  // namespace divvy::research
