#include "research/gavel.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <numeric>
#include <tuple>
#include <utility>

#include "research/gavel_jobs.h"
#include "research/rates/fair_rounds.h"
#include "research/rates/max_min.h"
#include "research/rates/seats.h"

namespace divvy::research {
namespace {

constexpr std::array<const char*, 3> kTypes = {"v100", "p100", "k80"};
constexpr std::size_t kNone = rates::kNobody;
// If this many jobs are active, the queue grows without end, and the run fails.
constexpr std::size_t kMostActive = 5000;
// Weighs the waiting time of a job that has just arrived (rates::ProgressWeight).
constexpr double kGraceS = 3600;

struct Active {
  std::size_t id = 0, kind = 0;
  int gpus = 1;
  double arrival_s = 0, steps_left = 0;
  double progress_s = 0;          // Seconds on its fastest type for the same progress.
  std::size_t last_type = kNone;  // The type on which it ran in the previous round.
};

struct Turn {
  std::size_t type = 0;
  std::size_t first = 0, second = kNone;  // Indices of active jobs.
};

/// Steps per second of the kinds of jobs, alone and in pairs.
struct Rates {
  explicit Rates(std::size_t kinds)
      : alone(kinds), fastest(kinds), together(kinds, std::vector<PairRates>(kinds)), speeds(kinds, kTypes.size()) {}

  using PairRates = std::array<std::pair<double, double>, kTypes.size()>;
  std::vector<std::array<double, kTypes.size()>> alone;
  std::vector<double> fastest;
  std::vector<std::vector<PairRates>> together;
  rates::Speeds speeds;
};

Result<Rates> LookUp(const GavelThroughputs& throughputs, const std::vector<JobKind>& kinds, bool with_pairs) {
  Rates result(kinds.size());
  for (std::size_t a = 0; a < kinds.size(); ++a) {
    for (std::size_t type = 0; type < kTypes.size(); ++type) {
      const std::optional<double> rate = throughputs.Alone(kTypes[type], kinds[a]);
      if (!rate)
        return InvalidArgument("the throughputs have no " + std::string(kTypes[type]) + " rate of " + kinds[a].model +
                               " on " + std::to_string(kinds[a].gpus) + " GPUs");
      result.alone[a][type] = *rate;
      result.fastest[a] = std::max(result.fastest[a], *rate);
    }
    for (std::size_t type = 0; type < kTypes.size(); ++type)
      result.speeds.SetAlone(a, type, result.alone[a][type] / result.fastest[a]);
  }
  for (std::size_t a = 0; with_pairs && a < kinds.size(); ++a) {
    for (std::size_t b = 0; b <= a; ++b) {
      for (std::size_t type = 0; type < kTypes.size(); ++type) {
        const auto pair = throughputs.Locality(kTypes[type], kinds[a], kinds[b]);
        if (!pair || kinds[a].gpus != kinds[b].gpus) continue;
        result.together[a][b][type] = *pair;
        result.together[b][a][type] = {pair->second, pair->first};
        result.speeds.SetTogether(a, b, type, {pair->first / result.fastest[a], pair->second / result.fastest[b]});
      }
    }
  }
  return result;
}

class Policy {
 public:
  virtual ~Policy() = default;
  virtual void Arrived(const Active&) {}
  virtual void Left(const Active&) {}
  virtual void Ran(const Active&, std::size_t /*type*/, double /*seconds*/) {}
  /// `active` is sorted by ascending id.
  virtual std::vector<Turn> Decide(double now_s, const std::vector<Active>& active) = 0;
};

/// Computes shares after arrivals and ends, but at most every 32 minutes, and chooses the jobs of each round by them.
class SharesPolicy : public Policy {
 public:
  SharesPolicy(const Rates& rates, const GavelOptions& options, bool is_aware)
      : rates_(rates),
        gpus_{options.v100, options.p100, options.k80},
        rounds_(gpus_, options.round_s / 2),
        types_(kTypes.size()),
        shuffle_(options.seed + 5),
        is_aware_(is_aware) {}

  void Arrived(const Active& job) override {
    rounds_.Join(job.id, job.gpus);
    has_changed_ = true;
  }
  void Left(const Active& job) override {
    rounds_.Leave(job.id);
    has_changed_ = true;
  }
  void Ran(const Active& job, std::size_t type, double seconds) override { rounds_.Ran(job.id, type, seconds); }

  std::vector<Turn> Decide(double now_s, const std::vector<Active>& active) override {
    constexpr double kBetweenS = 1920;
    if (has_changed_ && (settled_s_ == 0 || now_s - settled_s_ >= kBetweenS)) {
      rounds_.Settle(now_s - settled_s_, Shares(active));
      settled_s_ = now_s;
      has_changed_ = false;
    }
    std::iota(types_.begin(), types_.end(), std::size_t{0});
    // A policy that is unaware of types takes them in random order.
    if (!is_aware_) shuffle_.Shuffle(types_);
    std::vector<Turn> turns;
    for (const auto& [id, type] : rounds_.Pick(types_)) {
      const auto job = std::ranges::lower_bound(active, id, {}, &Active::id);
      turns.push_back({type, static_cast<std::size_t>(job - active.begin())});
    }
    return turns;
  }

 private:
  std::vector<std::vector<double>> Shares(const std::vector<Active>& active) const {
    std::vector<rates::RatedJob> jobs;
    for (const Active& job : active) {
      const auto& rate = rates_.alone[job.kind];
      jobs.push_back({{rate.begin(), rate.end()}, job.gpus, 1});
      if (!is_aware_) jobs.back().rates = {1};
    }
    if (is_aware_) return rates::MaxMinShares(jobs, std::vector<double>(gpus_.begin(), gpus_.end())).time;
    // An unaware policy sees all GPUs as one type; the time is spread evenly over the real types.
    const double all = std::accumulate(gpus_.begin(), gpus_.end(), 0);
    std::vector<std::vector<double>> time = rates::MaxMinShares(jobs, std::vector<double>{all}).time;
    for (std::vector<double>& share : time) {
      const double total = share[0];
      share.clear();
      for (const int gpus : gpus_) share.push_back(total * gpus / all);
    }
    return time;
  }

  const Rates& rates_;
  std::vector<int> gpus_;
  rates::FairRounds rounds_;
  std::vector<std::size_t> types_;
  PythonRandom shuffle_;
  bool is_aware_;
  bool has_changed_ = false;
  double settled_s_ = 0;
};

class ProgressPolicy : public Policy {
 public:
  ProgressPolicy(const Rates& rates, const GavelOptions& options, bool together)
      : rates_(rates), gpus_{options.v100, options.p100, options.k80} {
    options_.together = together;
  }

  std::vector<Turn> Decide(double now_s, const std::vector<Active>& active) override {
    std::vector<rates::SeatJob> jobs;
    // The progress of a gang counts once per GPU. Otherwise gangs of eight would wait for a quiet hour.
    for (const Active& job : active) {
      const double weight = rates::ProgressWeight(now_s - job.arrival_s, job.progress_s, kGraceS);
      jobs.push_back({job.kind, job.gpus, job.gpus * weight});
    }
    const auto index = [&](std::size_t id) {
      const auto job = std::ranges::lower_bound(active, id, {}, &Active::id);
      return job == active.end() || job->id != id ? kNone : static_cast<std::size_t>(job - active.begin());
    };
    std::vector<rates::Seat> before;
    for (const Turn& turn : last_) {
      rates::Seat seat{turn.type, index(turn.first), turn.second == kNone ? kNone : index(turn.second)};
      if (seat.first == kNone) std::swap(seat.first, seat.second);
      if (seat.first != kNone) before.push_back(seat);
    }
    std::vector<Turn> turns;
    last_.clear();
    for (const rates::Seat& seat : rates::BestSeats(jobs, rates_.speeds, gpus_, before, options_)) {
      turns.push_back({seat.type, seat.first, seat.second});
      last_.push_back({seat.type, active[seat.first].id, seat.second == kNone ? kNone : active[seat.second].id});
    }
    return turns;
  }

 private:
  const Rates& rates_;
  std::vector<int> gpus_;
  rates::SeatOptions options_;
  std::vector<Turn> last_;  // `first` and `second` are job ids here.
};

std::unique_ptr<Policy> MakePolicy(const Rates& rates, const GavelOptions& options) {
  switch (options.policy) {
    case GavelPolicy::kAgnostic:
    case GavelPolicy::kMaxMin:
      return std::make_unique<SharesPolicy>(rates, options, options.policy == GavelPolicy::kMaxMin);
    case GavelPolicy::kProgress:
    case GavelPolicy::kProgressPacked:
      return std::make_unique<ProgressPolicy>(rates, options, options.policy == GavelPolicy::kProgressPacked);
  }
  return nullptr;
}

class Experiment {
 public:
  Experiment(const GavelOptions& options, const GavelWorkload& workload, const Rates& rates)
      : options_(options), workload_(workload), rates_(rates), policy_(MakePolicy(rates, options)) {}

  Result<GavelResult> Run() {
    const std::size_t measured = options_.measured_to - options_.measured_from;
    result_.jct_h.assign(measured, 0);
    while (measured_ < measured) {
      Admit();
      if (active_.size() > kMostActive)
        return FailedPrecondition("jobs come faster than this cluster can run them: " + std::to_string(active_.size()) +
                                  " wait or run after " + std::to_string(next_) + " arrivals");
      Round();
    }
    Summarise();
    return std::move(result_);
  }

 private:
  void Admit() {
    if (active_.empty()) now_s_ = std::max(now_s_, workload_.jobs[next_].arrival_s);
    while (next_ < workload_.jobs.size() && workload_.jobs[next_].arrival_s <= now_s_) {
      const GavelJob& job = workload_.jobs[next_];
      active_.push_back({next_++, job.kind, workload_.kinds[job.kind].gpus, job.arrival_s, job.steps});
      policy_->Arrived(active_.back());
    }
  }

  void Round() {
    std::vector<char> has_run(active_.size());
    double end_s = now_s_;
    for (const Turn& turn : policy_->Decide(now_s_, active_)) {
      const double seconds = Advance(turn);
      end_s = std::max(end_s, now_s_ + seconds);
      busy_s_ += seconds * active_[turn.first].gpus;
      for (const std::size_t i : {turn.first, turn.second}) {
        if (i == kNone) continue;
        has_run[i] = 1;
        job_rounds_ += 1;
        moves_ += active_[i].last_type != turn.type ? 1 : 0;
        active_[i].last_type = turn.type;
        policy_->Ran(active_[i], turn.type, seconds);
        if (active_[i].steps_left <= 0) Finish(active_[i], now_s_ + seconds);
      }
    }
    std::size_t kept = 0;
    for (std::size_t i = 0; i < active_.size(); ++i) {
      if (active_[i].steps_left <= 0) continue;
      if (has_run[i] == 0) active_[i].last_type = kNone;
      active_[kept++] = active_[i];
    }
    active_.resize(kept);
    // A round in which no job completes a step must also end.
    now_s_ = end_s > now_s_ ? end_s : now_s_ + options_.round_s;
    ++result_.rounds;
  }

  /// Advances the jobs of `turn` by one round. Returns the seconds until they have done their steps.
  double Advance(const Turn& turn) {
    std::array<double, 2> rate = {rates_.alone[active_[turn.first].kind][turn.type], 0};
    if (turn.second != kNone)
      std::tie(rate[0], rate[1]) = rates_.together[active_[turn.first].kind][active_[turn.second].kind][turn.type];
    double seconds = 0;
    for (std::size_t place = 0; place < 2; ++place) {
      const std::size_t i = place == 0 ? turn.first : turn.second;
      if (i == kNone) continue;
      Active& job = active_[i];
      const double lost_s = job.last_type == turn.type ? 0 : options_.move_s;
      const double steps = std::min(std::floor(rate[place] * (options_.round_s - lost_s)), job.steps_left);
      job.steps_left -= steps;
      job.progress_s += steps / rates_.fastest[job.kind];
      seconds = std::max(seconds, lost_s + steps / rate[place]);
    }
    return seconds;
  }

  void Finish(const Active& job, double end_s) {
    policy_->Left(job);
    if (job.id < options_.measured_from || job.id >= options_.measured_to) return;
    result_.jct_h[job.id - options_.measured_from] = (end_s - job.arrival_s) / 3600;
    ++measured_;
  }

  void Summarise() {
    std::vector<double> sorted = result_.jct_h;
    std::ranges::sort(sorted);
    result_.mean_jct_h = std::accumulate(sorted.begin(), sorted.end(), 0.0) / static_cast<double>(sorted.size());
    result_.median_jct_h = sorted[sorted.size() / 2];
    result_.p99_jct_h = sorted[sorted.size() * 99 / 100];
    result_.worst_jct_h = sorted.back();
    result_.busy = busy_s_ / (now_s_ * (options_.v100 + options_.p100 + options_.k80));
    result_.moves_per_round = moves_ / job_rounds_;
  }

  const GavelOptions& options_;
  const GavelWorkload& workload_;
  const Rates& rates_;
  std::unique_ptr<Policy> policy_;
  std::vector<Active> active_;  // Sorted by id.
  std::size_t next_ = 0, measured_ = 0;
  double now_s_ = 0, busy_s_ = 0, moves_ = 0, job_rounds_ = 0;
  GavelResult result_;
};

}  // namespace

std::optional<GavelPolicy> ParseGavelPolicy(std::string_view name) {
  if (name == "agnostic") return GavelPolicy::kAgnostic;
  if (name == "max-min") return GavelPolicy::kMaxMin;
  if (name == "progress") return GavelPolicy::kProgress;
  if (name == "progress-packed") return GavelPolicy::kProgressPacked;
  return std::nullopt;
}

Result<GavelResult> RunGavel(const GavelOptions& options) {
  DIVVY_TRY(const GavelThroughputs throughputs, GavelThroughputs::Read(options.throughputs));
  return RunGavel(options, throughputs);
}

Result<GavelResult> RunGavel(const GavelOptions& options, const GavelThroughputs& throughputs) {
  if (options.measured_to <= options.measured_from) return InvalidArgument("no jobs to measure");
  if (options.v100 < 0 || options.p100 < 0 || options.k80 < 0 || options.v100 + options.p100 + options.k80 == 0)
    return InvalidArgument("a cluster needs GPUs");
  if (!(options.jobs_per_hour > 0) || !(options.round_s > options.move_s) || options.move_s < 0)
    return InvalidArgument("jobs per hour and the length of a round beyond a move must be more than 0");
  // A gang stays on one type. A gang that fits on no type would never finish.
  const int widest = options.multi_gpu ? kWidestGavelGang : 1;
  if (const int most = std::max({options.v100, options.p100, options.k80}); most < widest) {
    return InvalidArgument("jobs of up to " + std::to_string(widest) +
                           " GPUs of one type come, but no type has more than " + std::to_string(most) +
                           "; give one of them " + std::to_string(widest));
  }
  // Jobs keep arriving until the last measured one has ended.
  const std::size_t count = options.measured_to * 2 + kMostActive * 2;
  DIVVY_TRY(const GavelWorkload workload,
            GenerateGavelJobs(throughputs, options.jobs_per_hour, count, options.seed, options.multi_gpu));
  const bool is_packed = options.policy == GavelPolicy::kProgressPacked;
  DIVVY_TRY(const Rates rates, LookUp(throughputs, workload.kinds, is_packed));
  return Experiment(options, workload, rates).Run();
}

}  // namespace divvy::research
