#include "daemon/waste_past.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "daemon/waste_book.h"

namespace divvy {
namespace {

using samples::Metric;
using samples::Of;

std::vector<std::string> NamesOf(std::initializer_list<Metric> metrics) {
  std::vector<std::string> names;
  for (const Metric metric : metrics) names.emplace_back(samples::FactsOf(metric).name);
  return names;
}

/// What a curve shows at this second; nothing: it was not seen.
std::optional<double> At(const SampleBook::Answer& answer, const SampleBook::Series& series, Metric metric,
                         samples::Second at) {
  for (const samples::Curve& curve : series.curves) {
    if (curve.metric != metric || !curve.name.empty() || at < answer.begin) continue;
    const auto i = static_cast<std::size_t>((at - answer.begin) / answer.step);
    if (i >= curve.points.size() || !samples::IsPoint(curve.points[i])) return std::nullopt;
    // A moment of work is work, though the mean is too small to be kept.
    return curve.points[i].mean > 0 ? curve.points[i].mean : curve.points[i].greatest;
  }
  return std::nullopt;
}

/// Of this GPU; below 0 of the only series that there is.
std::optional<double> Shown(const SampleBook::Answer& answer, int gpu, Metric metric, samples::Second at) {
  for (const SampleBook::Series& series : answer.series) {
    if (gpu < 0 || series.subject.gpu == gpu) return At(answer, series, metric, at);
  }
  return std::nullopt;
}

}  // namespace

std::vector<SampleBook::Question> PastQuestions(const JobRecord& record, const std::string& own_node,
                                                const samples::Range& range) {
  std::vector<SampleBook::Question> questions;
  for (const Seat& seat : SeatsOf(record)) {
    SampleBook::Question gpus;
    gpus.of = Of::kGpu;
    gpus.node = seat.node.empty() ? own_node : seat.node;
    gpus.metrics = NamesOf({Metric::kGpuUtilization, Metric::kGpuMemoryUsed});
    gpus.range = range;
    SampleBook::Question machine;
    machine.of = Of::kNode;
    machine.node = gpus.node;
    machine.metrics = NamesOf({Metric::kCpuUtilization});
    machine.range = range;
    questions.push_back(std::move(gpus));
    questions.push_back(std::move(machine));
  }
  SampleBook::Question job;
  job.of = Of::kJob;
  job.job = record.id.value();
  job.metrics = NamesOf({Metric::kGpuUtilization, Metric::kGpuMemoryUsed, Metric::kCpuCores});
  job.range = range;
  questions.push_back(std::move(job));
  return questions;
}

std::vector<samples::WasteWatch::Look> LooksOf(const JobRecord& record, const std::vector<SampleBook::Answer>& answers,
                                               const samples::Range& range, samples::Second every) {
  std::vector<samples::WasteWatch::Look> looks;
  const std::vector<Seat> seats = SeatsOf(record);
  const SampleBook::Answer& own = answers.back();
  for (samples::Second at = range.since; at < range.until; at += every) {
    samples::WasteWatch::Look look;
    look.at = at;
    look.machine_cpus = 1;
    const bool does = Shown(own, -1, Metric::kGpuUtilization, at).has_value();
    for (std::size_t i = 0; i < seats.size(); ++i) {
      const auto busy = Shown(answers[2 * i + 1], -1, Metric::kCpuUtilization, at);
      look.machine_cpus = busy && look.machine_cpus ? std::optional(std::min(*busy, *look.machine_cpus)) : std::nullopt;
      if (IsSeenAsOne(record)) {
        auto memory = Shown(own, -1, Metric::kGpuMemoryUsed, at);
        if (memory) *memory /= std::max(1, GpuCountOf(record));
        look.gpus.push_back({Shown(own, -1, Metric::kGpuUtilization, at), memory});
        continue;
      }
      for (const int gpu : seats[i].gpus.ToVector()) {
        // What its GPUs did while it was paused, and nothing is known of it, is not its doing.
        const auto use = does ? Shown(answers[2 * i], gpu, Metric::kGpuUtilization, at) : std::nullopt;
        look.gpus.push_back({use, Shown(answers[2 * i], gpu, Metric::kGpuMemoryUsed, at)});
      }
    }
    look.cpus = Shown(own, -1, Metric::kCpuCores, at);
    if (look.cpus) *look.cpus /= static_cast<double>(std::max<std::size_t>(1, seats.size()));
    looks.push_back(std::move(look));
  }
  return looks;
}

namespace {

/// Asks one after the other: while the first are answered, what memory has of the job is put behind what was kept of
/// it.
struct Asking : std::enable_shared_from_this<Asking> {
  SampleBook& book;
  JobRecord record;
  samples::Range range;
  samples::Second now;
  std::function<void(WastePast)> done;
  std::vector<SampleBook::Question> questions;
  std::vector<SampleBook::Answer> answers = {};

  Asking(SampleBook& samples, const JobRecord& job, const samples::Range& over, samples::Second at,
         std::function<void(WastePast)> then)
      : book(samples), record(job), range(over), now(at), done(std::move(then)) {}

  void Next() {
    if (answers.size() < questions.size()) {
      book.Ask(questions[answers.size()], now,
               [self = shared_from_this()](Result<SampleBook::Answer> answer) -> std::function<void()> {
                 return [self, answer = std::move(answer)] {
                   self->answers.push_back(answer ? *answer : SampleBook::Answer());
                   self->Next();
                 };
               });
      return;
    }
    const auto started = static_cast<samples::Second>(ToSeconds(record.started));
    book.AskUsesOf(record.id.value(), {started}, now + 1,
                   [self = shared_from_this()](const std::vector<samples::JobUse>& uses) {
                     self->done({uses.front(), LooksOf(self->record, self->answers, self->range, WasteBook::kEvery)});
                   });
  }
};

}  // namespace

void AskPast(SampleBook& samples, const JobRecord& record, const std::string& own_node, samples::Second back,
             samples::Second now, std::function<void(WastePast)> done) {
  const auto started = static_cast<samples::Second>(ToSeconds(record.started));
  samples::Range range{std::max(started, now - back), now + 1};
  range.points = std::clamp<std::size_t>(static_cast<std::size_t>((range.until - range.since) / WasteBook::kEvery), 60,
                                         samples::kMostChartPoints);
  const auto asking = std::make_shared<Asking>(samples, record, range, now, std::move(done));
  asking->questions = PastQuestions(record, own_node, range);
  asking->Next();
}

}  // namespace divvy
