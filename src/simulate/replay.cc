#include "simulate/replay.h"

#include <algorithm>
#include <cmath>
#include <queue>

#include "simulate/cpu_seconds.h"

namespace divvy::simulate {
namespace {

enum class Phase { kComing, kWaiting, kRunning, kDone };

struct Life {
  Phase phase = Phase::kComing;
  std::uint32_t attempt = 0;  // Ends of earlier attempts are stale.
  double left_seconds = 0;    // Remaining run time at speed 1.
  double speed = 1;
  double gpus = 0;    // GPUs held; fractions count as such.
  Time since{};       // Start of this attempt.
  Duration delay{0};  // Of this attempt, before the run begins.
  Outcome outcome;
};

struct End {
  Time time{};
  JobIndex job = 0;
  std::uint32_t attempt = 0;
  /// For a priority queue whose top is the earliest end.
  friend bool operator<(const End& a, const End& b) { return a.time != b.time ? a.time > b.time : a.job > b.job; }
};

class Run {
 public:
  Run(const Workload& workload, Decider& decider, const ReplayOptions& options)
      : workload_(workload), decider_(decider), options_(options), lives_(workload.jobs.size()) {}

  Result<Replayed> ToTheEnd() {
    while (NextMoment()) {
      const double before = CpuSeconds();
      EndWhatEnds();
      SubmitWhatComes();
      const Decision decision = decider_.Decide(now_);
      result_.decide_cpu_seconds += CpuSeconds() - before;
      ++result_.decisions;
      for (const Stopped& stopped : decision.stops) DIVVY_CHECK(Stop(stopped));
      for (const Started& started : decision.starts) DIVVY_CHECK(Start(started));
      level_.fragmented_gpus = decider_.FragmentedGpus();
      // Times at which the policy only asked to be called again, after all jobs have arrived and ended, are not part of
      // the measured run.
      if (idle_wakeups_ == 0 || !decision.starts.empty()) result_.load.Set(measured_until_ = now_, level_);
      wakeup_ = decider_.NextWakeup();
      if (wakeup_ <= now_) return Internal("the decider requests a wakeup at a time that has passed");
      Progress();
    }
    return Finish();
  }

 private:
  /// Returns false if no event is left.
  bool NextMoment() {
    while (!ends_.empty() && IsStale(ends_.top())) ends_.pop();
    Time next = kNever;
    if (coming_ < lives_.size()) next = workload_.jobs[coming_].submit;
    if (!ends_.empty()) next = std::min(next, ends_.top().time);
    // A decider that only waits for its own wakeups would otherwise be woken indefinitely.
    const bool is_idle = coming_ == lives_.size() && ends_.empty();
    if (wakeup_ < next && !(is_idle && ++idle_wakeups_ > kMostIdleWakeups)) next = wakeup_;
    if (!is_idle) idle_wakeups_ = 0;
    if (next == kNever) return false;
    now_ = next;
    return true;
  }

  bool IsStale(const End& end) const {
    const Life& life = lives_[end.job];
    return life.phase != Phase::kRunning || life.attempt != end.attempt;
  }

  void EndWhatEnds() {
    for (; !ends_.empty() && ends_.top().time == now_; ends_.pop()) {
      if (IsStale(ends_.top())) continue;
      const JobIndex job = ends_.top().job;
      Leave(lives_[job]);
      lives_[job].phase = Phase::kDone;
      lives_[job].outcome.end = now_;
      ++ended_;
      decider_.Ended(job, now_);
    }
  }

  void SubmitWhatComes() {
    for (; coming_ < lives_.size() && workload_.jobs[coming_].submit == now_; ++coming_) {
      const TraceJob& job = workload_.jobs[coming_];
      Life& life = lives_[coming_];
      life.phase = Phase::kWaiting;
      life.left_seconds = ToSeconds(job.runtime);
      life.outcome.job = static_cast<JobIndex>(coming_);
      life.outcome.submit = now_;
      Wait(job, 1);
      decider_.Submit(static_cast<JobIndex>(coming_), job, now_);
    }
  }

  Status Start(const Started& started) {
    if (started.job >= lives_.size() || lives_[started.job].phase != Phase::kWaiting || started.speed <= 0 ||
        started.delay < Duration(0))
      return Internal("the decider starts job " + std::to_string(started.job) + ", which is not waiting");
    Life& life = lives_[started.job];
    const TraceJob& job = workload_.jobs[started.job];
    ++result_.starts;
    if (++life.attempt == 1) {
      life.outcome.first_start = now_ + started.delay;
    } else {
      life.left_seconds += ToSeconds(options_.restart_cost);
    }
    life.phase = Phase::kRunning;
    life.since = now_;
    life.delay = started.delay;
    life.speed = started.speed;
    life.gpus = 0;
    for (const NodeGpus& part : started.gpus) life.gpus += part.gpus;
    life.gpus *= static_cast<double>(job.share.ten_thousandths()) / GpuShare::kWhole;
    level_.allocated_gpus += life.gpus;
    level_.running_jobs += 1;
    Wait(job, -1);
    // An uninterrupted run at full speed must end exactly as in the trace, without rounding.
    const bool is_plain = life.attempt == 1 && started.speed == 1;
    const Duration left =
        is_plain ? job.runtime : Duration(std::llround(std::min(life.left_seconds / started.speed, 9e9) * 1e9));
    ends_.push({AddSaturating(now_ + started.delay, left), started.job, life.attempt});
    return {};
  }

  Status Stop(const Stopped& stopped) {
    if (stopped.job >= lives_.size() || lives_[stopped.job].phase != Phase::kRunning)
      return Internal("the decider stops job " + std::to_string(stopped.job) + ", which is not running");
    Life& life = lives_[stopped.job];
    const TraceJob& job = workload_.jobs[stopped.job];
    Leave(life);
    life.phase = Phase::kWaiting;
    ++life.outcome.preemptions;
    life.left_seconds = stopped.keeps_progress ? std::max(0.0, life.left_seconds - ToSeconds(Ran(life)) * life.speed)
                                               : ToSeconds(job.runtime);
    Wait(job, 1);
    return {};
  }

  /// How long the current attempt has run, without the copies before it.
  Duration Ran(const Life& life) const { return std::max(Duration(0), now_ - life.since - life.delay); }

  /// Releases the job's GPUs.
  void Leave(Life& life) {
    const Duration held = now_ - life.since;
    life.outcome.held += held;
    life.outcome.copying += held - Ran(life);
    life.outcome.gpu_seconds += life.gpus * ToSeconds(held);
    level_.allocated_gpus -= life.gpus;
    level_.running_jobs -= 1;
  }

  void Wait(const TraceJob& job, double count) {
    level_.waiting_jobs += count;
    level_.waiting_gpus += count * job.gpus * job.share.ten_thousandths() / GpuShare::kWhole;
  }

  void Progress() {
    constexpr std::int64_t kEvery = 4096;
    if (options_.on_progress && result_.decisions % kEvery == 0)
      options_.on_progress(static_cast<double>(ended_) / static_cast<double>(lives_.size()));
  }

  Replayed Finish() {
    result_.load.Finish(measured_until_);
    result_.contract = decider_.contract();
    for (std::size_t i = 0; i < lives_.size(); ++i) {
      if (lives_[i].phase == Phase::kDone) {
        result_.outcomes.push_back(lives_[i].outcome);
      } else {
        result_.unfinished.push_back(static_cast<JobIndex>(i));
      }
    }
    if (options_.on_progress) options_.on_progress(1);
    return std::move(result_);
  }

  static constexpr int kMostIdleWakeups = 1000;

  const Workload& workload_;
  Decider& decider_;
  const ReplayOptions& options_;
  std::vector<Life> lives_;  // By job.
  std::priority_queue<End> ends_;
  std::size_t coming_ = 0;  // The first job that has not arrived yet.
  std::size_t ended_ = 0;
  Time now_{};
  Time measured_until_{};
  Time wakeup_ = kNever;
  int idle_wakeups_ = 0;
  LoadLevel level_;
  Replayed result_;
};

}  // namespace

Result<Replayed> Replay(const Workload& workload, Decider& decider, const ReplayOptions& options) {
  if (!workload.knows_runtimes)
    return FailedPrecondition(
        "this trace has steps instead of run times; compute the run times from throughputs first");
  if (workload.jobs.empty()) return FailedPrecondition("there are no jobs to replay");
  return Run(workload, decider, options).ToTheEnd();
}

}  // namespace divvy::simulate
