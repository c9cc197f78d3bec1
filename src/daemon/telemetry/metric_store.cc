#include "daemon/telemetry/metric_store.h"

#include <algorithm>
#include <set>
#include <utility>

#include "daemon/telemetry/sample_keeper.h"

namespace divvy {
namespace {

/// Agents send their samples every ten seconds.
constexpr samples::Second kFresh = 30;
/// A job without samples for this long has ended: its blocks are on disk and are dropped from memory.
constexpr samples::Second kJobIsOver = 60;
constexpr samples::Second kIsGone = 3600;

}  // namespace

MetricStore::MetricStore(Options options, Ports ports)
    : options_(std::move(options)),
      ports_(std::move(ports)),
      keeper_(std::make_shared<Keeper>(
          options_, [this](const std::string& line) { ports_.post([note = ports_.note, line] { note(line); }); })),
      worker_(std::make_unique<Worker>()) {}

MetricStore::~MetricStore() = default;

void MetricStore::Add(const samples::Snapshot& snapshot, samples::Second now) {
  for (const samples::Sample& sample : snapshot.samples) AddOf(sample, snapshot.at);
  for (const samples::Sample& sample : snapshot.samples) {
    if (sample.subject.of != samples::Of::kNode) continue;
    OfNow& newest = of_now_[sample.subject.node];
    if (newest.at <= snapshot.at) newest = {snapshot.at, snapshot.processes, snapshot.counters};
    AddSaidOn(sample.subject.node, snapshot.at);
  }
  if (flushed_at_ == 0) flushed_at_ = begun_at_ = now;
  if (now - flushed_at_ < options_.flush_every) return;
  Flush(now);
  Forget(now);
}

void MetricStore::AddOf(const samples::Sample& sample, samples::Second at) {
  if (sample.subject.of != samples::Of::kJob) {
    histories_[sample.subject].Add(at, sample.readings);
    return;
  }
  const auto [found, is_new] = jobs_.try_emplace(sample.subject);
  if (is_new && !options_.path.empty()) {
    // The job may have started before this process.
    worker_->Do([this, keeper = keeper_, subject = sample.subject] {
      auto kept = keeper->TrackOf(subject);
      if (!kept) return;
      ports_.post([this, subject, kept = *std::move(kept)]() mutable {
        const auto job = jobs_.find(subject);
        if (job == jobs_.end()) return;
        // Adds the samples that arrived meanwhile on top.
        const samples::Block since = job->second.track.block();
        for (std::size_t i = 0; i < since.count; ++i) {
          std::vector<samples::Reading> readings;
          for (const samples::Column& column : since.columns) {
            if (IsPoint(column.points[i]))
              readings.push_back({column.metric, static_cast<double>(column.points[i].mean), column.name});
          }
          kept.Add(since.begin + static_cast<samples::Second>(i) * since.step, readings);
        }
        job->second.track = std::move(kept);
      });
    });
  }
  found->second.seconds.Add(at, sample.readings);
  found->second.track.Add(at, sample.readings);
}

void MetricStore::AddSaid(std::uint64_t job, const std::vector<samples::Reading>& readings, samples::Second now) {
  said_.Add(job, now, readings);
}

// The metrics of a job on several nodes are stored with its first node. A job that has ended since was sampled a moment
// ago.
void MetricStore::AddSaidOn(const std::string& node, samples::Second at) {
  for (const std::uint64_t job : said_.jobs()) {
    const auto first = std::ranges::find_if(jobs_, [&](const auto& seen) { return seen.first.job == job; });
    if (first == jobs_.end() || first->first.node != node) continue;
    for (const SaidMetrics::Second& second : said_.Take(job, at)) first->second.track.Add(second.at, second.readings);
  }
}

samples::Second MetricStore::FreshSince(samples::Second now) const { return now - kFresh - 2 * options_.every; }

std::optional<double> MetricStore::MeanOf(const samples::Subject& subject, samples::Metric metric,
                                          samples::Second seconds, samples::Second now) const {
  const samples::History* history = nullptr;
  if (subject.of == samples::Of::kJob) {
    const auto at = jobs_.find(subject);
    if (at != jobs_.end()) history = &at->second.seconds;
  } else if (const auto at = histories_.find(subject); at != histories_.end()) {
    history = &at->second;
  }
  if (history == nullptr || history->newest() <= FreshSince(now)) return std::nullopt;
  return history->MeanOf(metric, seconds);
}

std::map<samples::Subject, MetricStore::Newest> MetricStore::Latest(samples::Second now) const {
  std::map<samples::Subject, Newest> latest;
  for (const auto& [subject, history] : histories_) {
    if (history.newest() > FreshSince(now)) latest[subject] = {history.newest(), history.Newest(), nullptr};
  }
  for (const auto& [subject, job] : jobs_) {
    if (job.seconds.newest() > FreshSince(now))
      latest[subject] = {job.seconds.newest(), job.seconds.Newest(), &job.track.own()};
  }
  return latest;
}

double MetricStore::GpusUsed(samples::Second now) const {
  double used = 0;
  for (const auto& [subject, history] : histories_) {
    if (subject.of != samples::Of::kGpu || history.newest() <= FreshSince(now)) continue;
    used += history.NewestOf(samples::Metric::kGpuUtilization).value_or(0);
  }
  return used;
}

std::vector<samples::ProcessUse> MetricStore::ProcessesOn(const std::string& node, samples::Second now) const {
  const auto at = of_now_.find(node);
  if (at == of_now_.end() || at->second.at <= FreshSince(now)) return {};
  return at->second.on;
}

std::vector<samples::GpuCounters> MetricStore::CountersOn(const std::string& node, samples::Second now) const {
  const auto at = of_now_.find(node);
  if (at == of_now_.end() || at->second.at <= FreshSince(now)) return {};
  return at->second.counters;
}

void MetricStore::Keep(std::uint64_t job, samples::Second ended, std::string text) {
  if (options_.path.empty()) return;
  worker_->Do([keeper = keeper_, row = KeptRow(job, ended, std::move(text)), now = std::max(ended, flushed_at_)] {
    keeper->Put({row}, now);
  });
}

void MetricStore::AskKept(std::uint64_t job, std::function<void(std::string)> done) {
  worker_->Do([this, keeper = keeper_, job, done = std::move(done)]() mutable {
    ports_.post([done = std::move(done), text = keeper->KeptOf(job)] { done(text); });
  });
}

void MetricStore::AskUses(const Stretch& of, std::function<void(Uses, Kept)> done) {
  Uses uses;
  std::set<std::string> known;  // For these jobs, memory holds newer data than the file.
  for (const auto& [subject, job] : jobs_) {
    AddUseOf(subject.job, job.track.block(), of, uses);
    known.insert(ToText(subject));
  }
  worker_->Do(
      [this, keeper = keeper_, of, done = std::move(done), uses = std::move(uses), known = std::move(known)]() mutable {
        Kept kept;
        keeper->AddUses(of, known, uses, kept);
        ports_.post([done = std::move(done), uses = std::move(uses), kept = std::move(kept)]() mutable {
          done(std::move(uses), std::move(kept));
        });
      });
}

void MetricStore::AskUsesOf(std::uint64_t job, std::vector<samples::Second> since, samples::Second until,
                            std::function<void(std::vector<samples::JobUse>)> done) {
  std::vector<samples::Block> tracks;
  std::set<std::string> known;
  for (const auto& [subject, seen] : jobs_) {
    if (subject.job != job) continue;
    tracks.push_back(seen.track.block());
    known.insert(ToText(subject));
  }
  worker_->Do([this, keeper = keeper_, job, since = std::move(since), until, done = std::move(done),
               tracks = std::move(tracks), known = std::move(known)]() mutable {
    keeper->AddTracks(job, known, samples::IsOfUse, tracks);
    std::vector<samples::JobUse> uses(since.size());
    for (std::size_t i = 0; i < since.size(); ++i) {
      for (const samples::Block& track : tracks) samples::AddUse(track, since[i], until, uses[i]);
    }
    ports_.post([done = std::move(done), uses = std::move(uses)]() mutable { done(std::move(uses)); });
  });
}

void MetricStore::AskReported(std::set<std::uint64_t> jobs, std::function<void(Reported)> done) {
  Reported reported;
  for (const auto& [subject, seen] : jobs_) {
    if (!jobs.contains(subject.job) || seen.track.own().empty()) continue;
    reported[subject.job].insert(seen.track.own().begin(), seen.track.own().end());
  }
  for (const auto& [job, values] : reported) jobs.erase(job);
  worker_->Do([this, keeper = keeper_, jobs = std::move(jobs), done = std::move(done),
               reported = std::move(reported)]() mutable {
    for (const std::uint64_t job : jobs) keeper->AddReported(job, reported);
    ports_.post([done = std::move(done), reported = std::move(reported)]() mutable { done(std::move(reported)); });
  });
}

void MetricStore::Flush(samples::Second now) {
  flushed_at_ = now;
  std::vector<SampleBlock> blocks;
  for (auto& [subject, history] : histories_) {
    for (const samples::Block& block : history.TakeFull()) blocks.push_back(KeptBlock(subject, block, block.step));
    for (std::size_t level = 0; level < samples::kLevels.size(); ++level) {
      if (const auto block = history.TakeChanged(level); block && block->count > 0)
        blocks.push_back(KeptBlock(subject, *block, block->step));
    }
  }
  for (auto& [subject, job] : jobs_) {
    if (job.track.TakeChanged() && job.track.block().count > 0)
      blocks.push_back(KeptBlock(subject, job.track.block(), 0));
  }
  if (blocks.empty() || options_.path.empty()) return;
  worker_->Do([keeper = keeper_, blocks = std::move(blocks), now] { keeper->Put(blocks, now); });
}

void MetricStore::Forget(samples::Second now) {
  std::erase_if(jobs_, [&](const auto& job) { return job.second.seconds.newest() < now - kJobIsOver; });
  std::erase_if(histories_, [&](const auto& history) { return history.second.newest() < now - kIsGone; });
  std::erase_if(of_now_, [&](const auto& one) { return one.second.at < now - kIsGone; });
  said_.Forget(now);
}

void MetricStore::Close() {
  Flush(flushed_at_);
  worker_.reset();
}

MetricStore::Gathered MetricStore::Gather(Question question, samples::Second now) const {
  Gathered gathered;
  gathered.now = now;
  samples::Range& range = question.range;
  const bool is_job = question.of == samples::Of::kJob;
  if (!is_job) {
    if (range.until == 0) range.until = now + 1;
    if (range.since == 0) range.since = range.until - samples::kRingSeconds;
    gathered.level = ChooseStep(range, now);
    gathered.ring_since = begun_at_ == 0 ? now + 1 : begun_at_;
  }
  const auto is_asked = [&](const samples::Subject& subject) {
    return subject.of == question.of && (!question.node || subject.node == *question.node) &&
           (!question.gpu || subject.gpu == *question.gpu) && (!question.job || subject.job == *question.job);
  };
  for (const auto& [subject, history] : histories_) {
    if (!is_asked(subject)) continue;
    Gathered::Of& part = gathered.parts.emplace_back(Gathered::Of{subject, {}, gathered.level == 1});
    for (const samples::Block& block : history.full()) {
      if (block.step == gathered.level) part.blocks.push_back(block);
    }
    for (std::size_t level = 0; level < samples::kLevels.size(); ++level) {
      if (samples::kLevels[level].step == gathered.level) part.blocks.push_back(history.Open(level));
    }
    if (gathered.level == 1) part.blocks.push_back(history.Seconds(range.since, range.until));
  }
  for (const auto& [subject, job] : jobs_) {
    if (!is_asked(subject)) continue;
    Gathered::Of& part = gathered.parts.emplace_back(Gathered::Of{subject, {}, true});
    // Uses the ring of seconds if only the last minutes are requested.
    const bool is_short = range.since != 0 && range.since < now && now - range.since <= samples::kRingSeconds;
    const bool wants_own = std::ranges::any_of(
        question.metrics, [](const std::string& name) { return name.starts_with(samples::kOwnPrefix); });
    if (is_short && job.track.block().step > 1 && !question.metrics.empty() && !wants_own)
      part.blocks.push_back(job.seconds.Seconds(range.since, range.until == 0 ? now + 1 : range.until));
    else part.blocks.push_back(job.track.block());
  }
  gathered.question = std::move(question);
  return gathered;
}

void MetricStore::Ask(Question question, samples::Second now,
                      std::function<std::function<void()>(Result<Answer>)> shape) {
  worker_->Do(
      [this, keeper = keeper_, shape = std::move(shape), gathered = Gather(std::move(question), now)]() mutable {
        ports_.post(shape(keeper->Find(std::move(gathered))));
      });
}

}  // namespace divvy
