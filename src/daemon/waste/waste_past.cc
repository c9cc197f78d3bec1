#include "daemon/waste/waste_past.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "daemon/waste/waste_tracker.h"

namespace divvy {
namespace {

using samples::Metric;
using samples::Of;

std::vector<std::string> NamesOf(std::initializer_list<Metric> metrics) {
  std::vector<std::string> names;
  for (const Metric metric : metrics) names.emplace_back(samples::FactsOf(metric).name);
  return names;
}

/// Returns the value of a series at this second; nullopt if it was not sampled.
std::optional<double> At(const MetricStore::Answer& answer, const MetricStore::Series& series, Metric metric,
                         samples::Second at) {
  for (const samples::Curve& curve : series.curves) {
    if (curve.metric != metric || !curve.name.empty() || at < answer.begin) continue;
    const auto i = static_cast<std::size_t>((at - answer.begin) / answer.step);
    if (i >= curve.points.size() || !samples::IsPoint(curve.points[i])) return std::nullopt;
    // A moment of work counts, even if the mean is too small to be stored.
    return curve.points[i].mean > 0 ? curve.points[i].mean : curve.points[i].greatest;
  }
  return std::nullopt;
}

/// Returns a metric's value for this GPU at this second; if `gpu` is below 0, that of the only series.
std::optional<double> Shown(const MetricStore::Answer& answer, int gpu, Metric metric, samples::Second at) {
  for (const MetricStore::Series& series : answer.series) {
    if (gpu < 0 || series.subject.gpu == gpu) return At(answer, series, metric, at);
  }
  return std::nullopt;
}

}  // namespace

std::vector<MetricStore::Question> PastQuestions(const JobRecord& record, const std::string& own_node,
                                                 const samples::Range& range) {
  std::vector<MetricStore::Question> questions;
  for (const NodeAllocation& allocation : AllocationsOf(record)) {
    MetricStore::Question gpus;
    gpus.of = Of::kGpu;
    gpus.node = allocation.node.empty() ? own_node : allocation.node;
    gpus.metrics = NamesOf({Metric::kGpuUtilization, Metric::kGpuMemoryUsed});
    gpus.range = range;
    MetricStore::Question machine;
    machine.of = Of::kNode;
    machine.node = gpus.node;
    machine.metrics = NamesOf({Metric::kCpuUtilization});
    machine.range = range;
    questions.push_back(std::move(gpus));
    questions.push_back(std::move(machine));
  }
  MetricStore::Question job;
  job.of = Of::kJob;
  job.job = record.id.value();
  job.metrics = NamesOf({Metric::kGpuUtilization, Metric::kGpuMemoryUsed, Metric::kCpuCores});
  job.range = range;
  questions.push_back(std::move(job));
  return questions;
}

std::vector<samples::WasteWatch::Look> LooksOf(const JobRecord& record, const std::vector<MetricStore::Answer>& answers,
                                               const samples::Range& range, samples::Second every) {
  std::vector<samples::WasteWatch::Look> looks;
  const std::vector<NodeAllocation> allocations = AllocationsOf(record);
  const MetricStore::Answer& own = answers.back();
  for (samples::Second at = range.since; at < range.until; at += every) {
    samples::WasteWatch::Look look;
    look.at = at;
    look.machine_cpus = 1;
    const bool does = Shown(own, -1, Metric::kGpuUtilization, at).has_value();
    for (std::size_t i = 0; i < allocations.size(); ++i) {
      const auto busy = Shown(answers[2 * i + 1], -1, Metric::kCpuUtilization, at);
      look.machine_cpus = busy && look.machine_cpus ? std::optional(std::min(*busy, *look.machine_cpus)) : std::nullopt;
      if (IsSeenAsOne(record)) {
        auto memory = Shown(own, -1, Metric::kGpuMemoryUsed, at);
        if (memory) *memory /= std::max(1, GpuCountOf(record));
        look.gpus.push_back({Shown(own, -1, Metric::kGpuUtilization, at), memory});
        continue;
      }
      for (const int gpu : allocations[i].gpus.ToVector()) {
        // The use of its GPUs while the job was paused, and had no samples of its own, is not the job's.
        const auto use = does ? Shown(answers[2 * i], gpu, Metric::kGpuUtilization, at) : std::nullopt;
        look.gpus.push_back({use, Shown(answers[2 * i], gpu, Metric::kGpuMemoryUsed, at)});
      }
    }
    look.cpus = Shown(own, -1, Metric::kCpuCores, at);
    if (look.cpus) *look.cpus /= static_cast<double>(std::max<std::size_t>(1, allocations.size()));
    looks.push_back(std::move(look));
  }
  return looks;
}

std::vector<samples::Second> IdleSinceOf(const JobRecord& record, const std::vector<MetricStore::Answer>& answers,
                                         const samples::Range& range) {
  std::vector<samples::Second> since;
  const std::vector<NodeAllocation> allocations = AllocationsOf(record);
  if (IsSeenAsOne(record)) return since;  // The job's own samples show that.
  const MetricStore::Answer& own = answers.back();
  constexpr samples::Second kMayBeMissed = 60;
  for (std::size_t i = 0; i < allocations.size(); ++i) {
    const MetricStore::Answer& of = answers[2 * i];
    const samples::Second step = std::max<samples::Second>(of.step, 1);
    for (const int gpu : allocations[i].gpus.ToVector()) {
      samples::Second idle_since = 0;
      samples::Second missed = 0;
      for (samples::Second at = range.until - 1; at >= range.since && missed <= std::max(kMayBeMissed, step);
           at -= step) {
        const bool does = Shown(own, -1, Metric::kGpuUtilization, at).has_value();
        const auto use = does ? Shown(of, gpu, Metric::kGpuUtilization, at) : std::nullopt;
        if (use && *use > 0) break;
        missed = use ? 0 : missed + step;
        if (use) idle_since = std::max(range.since, of.begin + (at - of.begin) / step * step);
      }
      since.push_back(idle_since);
    }
  }
  return since;
}

namespace {

using Answers = std::vector<MetricStore::Answer>;

/// Asks the questions one after another. While earlier ones are answered, the metric store adds the stored data of the
/// job to what memory holds.
struct Asking : std::enable_shared_from_this<Asking> {
  MetricStore& tracker;
  std::vector<MetricStore::Question> questions;
  samples::Second now;
  std::function<void(const Answers&)> done;
  Answers answers = {};

  Asking(MetricStore& samples, std::vector<MetricStore::Question> all, samples::Second at,
         std::function<void(const Answers&)> then)
      : tracker(samples), questions(std::move(all)), now(at), done(std::move(then)) {}

  void Next() {
    if (answers.size() == questions.size()) return done(answers);
    tracker.Ask(questions[answers.size()], now,
                [self = shared_from_this()](Result<MetricStore::Answer> answer) -> std::function<void()> {
                  return [self, answer = std::move(answer)] {
                    self->answers.push_back(answer ? *answer : MetricStore::Answer());
                    self->Next();
                  };
                });
  }
};

/// Returns the job's use from `since` until range.until (exclusive), and the answers for the range.
void AskBoth(MetricStore& samples, const JobRecord& record, const std::string& own_node, const samples::Range& range,
             samples::Second since, samples::Second now,
             std::function<void(const samples::JobUse& use, const Answers& answers)> done) {
  const auto then = [&samples, id = record.id, since, until = range.until,
                     done = std::move(done)](const Answers& answers) {
    samples.AskUsesOf(id.value(), {since}, until,
                      [done, answers](const std::vector<samples::JobUse>& uses) { done(uses.front(), answers); });
  };
  std::make_shared<Asking>(samples, PastQuestions(record, own_node, range), now, then)->Next();
}

samples::Range RangeOf(samples::Second since, samples::Second until, std::size_t most) {
  samples::Range range{since, until};
  range.points = std::clamp<std::size_t>(static_cast<std::size_t>((until - since) / WasteTracker::kEvery), 60, most);
  return range;
}

/// Calls `take` for the points of this metric that lie completely in the range.
template <typename Take>
void ForEachWithin(const MetricStore::Answer& answer, const MetricStore::Series& series, Metric metric,
                   const samples::Range& range, const Take& take) {
  for (const samples::Curve& curve : series.curves) {
    if (curve.metric != metric || !curve.name.empty()) continue;
    for (std::size_t i = 0; i < curve.points.size(); ++i) {
      const samples::Second begin = answer.begin + static_cast<samples::Second>(i) * answer.step;
      const bool is_within = begin >= range.since && begin + answer.step <= range.until;
      if (is_within && samples::IsPoint(curve.points[i])) take(curve.points[i]);
    }
  }
}

bool DidNothing(const MetricStore::Answer& answer, int gpu, const samples::Range& range) {
  samples::Second seen = 0;
  bool has_worked = false;
  for (const MetricStore::Series& series : answer.series) {
    if (series.subject.gpu != gpu) continue;
    ForEachWithin(answer, series, Metric::kGpuUtilization, range, [&](const samples::Point& point) {
      seen += answer.step;
      has_worked |= point.greatest > 0;
    });
  }
  // If less than half of the range was sampled, the GPU does not count as unused.
  return !has_worked && 2 * seen >= range.until - range.since;
}

std::optional<double> MeanWithin(const MetricStore::Answer& answer, Metric metric, const samples::Range& range) {
  double sum = 0;
  int count = 0;
  for (const MetricStore::Series& series : answer.series) {
    ForEachWithin(answer, series, metric, range, [&](const samples::Point& point) {
      sum += static_cast<double>(point.mean);
      ++count;
    });
  }
  return count > 0 ? std::optional(sum / count) : std::nullopt;
}

}  // namespace

samples::RunDetail DetailOf(const JobRecord& record, const std::vector<MetricStore::Answer>& answers,
                            const samples::Range& range) {
  samples::RunDetail detail;
  const std::vector<NodeAllocation> allocations = AllocationsOf(record);
  for (std::size_t i = 0; i < allocations.size(); ++i) {
    const auto busy = MeanWithin(answers[2 * i + 1], Metric::kCpuUtilization, range);
    const bool was_known = i == 0 || detail.machine_cpus;
    detail.machine_cpus =
        busy && was_known ? std::optional(std::min(*busy, detail.machine_cpus.value_or(1))) : std::nullopt;
    // It is not known which GPUs an elastic job had at which time.
    if (IsSeenAsOne(record) || record.request.is_elastic()) continue;
    for (const int gpu : allocations[i].gpus.ToVector())
      detail.gpus_unused += DidNothing(answers[2 * i], gpu, range) ? 1 : 0;
  }
  return detail;
}

void AskPast(MetricStore& samples, const JobRecord& record, const std::string& own_node, samples::Second back,
             samples::Second now, std::function<void(WastePast)> done) {
  const auto started = static_cast<samples::Second>(ToSeconds(record.started));
  const samples::Range range = RangeOf(std::max(started, now - back), now + 1, samples::kMostChartPoints);
  // Looks at the whole of a long run would be too many, so idle times are read from its curves.
  const samples::Range whole = RangeOf(started, now + 1, samples::kMostChartPoints);
  AskBoth(samples, record, own_node, range, started, now,
          [&samples, record, own_node, range, whole, now, done = std::move(done)](const samples::JobUse& use,
                                                                                  const Answers& answers) {
            WastePast past{use, LooksOf(record, answers, range, WasteTracker::kEvery), {}};
            const auto then = [record, whole, past = std::move(past), done](const Answers& of_whole) mutable {
              past.idle_since = IdleSinceOf(record, of_whole, whole);
              done(std::move(past));
            };
            std::make_shared<Asking>(samples, PastQuestions(record, own_node, whole), now, then)->Next();
          });
}

void AskEnded(MetricStore& samples, const JobRecord& record, const std::string& own_node, samples::Second counts_from,
              samples::Second now, std::function<void(const samples::JobUse&, const samples::RunDetail&)> done) {
  constexpr std::size_t kMostPoints = 512;
  const auto ended = static_cast<samples::Second>(ToSeconds(record.ended));
  const samples::Range range = RangeOf(counts_from, ended + 1, kMostPoints);
  AskBoth(samples, record, own_node, range, counts_from, now,
          [record, range, done = std::move(done)](const samples::JobUse& use, const Answers& answers) {
            done(use, DetailOf(record, answers, range));
          });
}

}  // namespace divvy
