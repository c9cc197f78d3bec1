#include "daemon/telemetry/metric_store.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/text.h"

namespace divvy {
namespace {

/// A sample counts as recent for this many seconds. Agents send their samples every ten seconds.
constexpr samples::Second kFresh = 30;
/// A job without samples for this long has ended: its blocks are on disk and are dropped from memory.
constexpr samples::Second kJobIsOver = 60;
constexpr samples::Second kIsGone = 3600;

constexpr samples::Second kThinEvery = 3600;
constexpr samples::Second kForEver = samples::Second{1} << 60;

constexpr std::string_view kEnded = "ended/";

std::string PrefixOf(const MetricStore::Question& question) {
  std::string prefix = std::string(samples::Name(question.of)) + "/";
  if (question.job) prefix += std::to_string(*question.job) + "/";
  if (question.gpu) prefix += std::to_string(*question.gpu) + "/";
  return prefix;
}

bool IsAsked(const MetricStore::Question& question, const samples::Subject& subject) {
  if (subject.of != question.of || (question.node && subject.node != *question.node)) return false;
  return (!question.gpu || subject.gpu == *question.gpu) && (!question.job || subject.job == *question.job);
}

/// Returns the row that stores a block.
SampleBlock KeptBlock(const samples::Subject& subject, const samples::Block& block, samples::Second step) {
  return {ToText(subject), step, step == 0 ? 0 : block.begin, block.end(), EncodeBlock(block)};
}

/// Returns the row that stores a text about an ended job. Its subject ("ended/17") is no subject of samples, so other
/// readers skip it.
SampleBlock KeptRow(std::uint64_t job, samples::Second ended, std::string text) {
  return {std::string(kEnded) + std::to_string(job), 0, 0, ended, std::move(text)};
}

/// Adds the job's use in the period, from its track on one node.
void AddUseOf(std::uint64_t job, const samples::Block& track, const MetricStore::Stretch& of, MetricStore::Uses& uses) {
  if (of.pieces == MetricStore::Pieces::kWhole) return samples::AddUse(track, of.since, of.until, uses[of.since][job]);
  samples::AddUseByHour(track, of.since, of.until,
                        [&](samples::Second hour) -> samples::JobUse& { return uses[hour][job]; });
}

}  // namespace

/// The part of an answer that comes from memory.
struct MetricStore::Gathered {
  Question question;
  samples::Second now = 0;
  // Seconds per point of the answer; not used for jobs, whose tracks have their own step.
  samples::Second level = 1;
  samples::Second ring_since = 0;  // The ring holds seconds from here on.
  struct Of {
    samples::Subject subject;
    std::vector<samples::Block> blocks;
    bool is_whole = false;                    // The file holds nothing more for this subject.
    std::vector<samples::Block> before = {};  // For the ring: kept points of the time before it.
  };
  std::vector<Of> parts;
};

/// The part that runs on the file's thread: the file itself, and answers that merge memory and file. Must not be used
/// by two threads at a time.
class MetricStore::Keeper {
 public:
  Keeper(Options options, std::function<void(const std::string& line)> note)
      : options_(std::move(options)), note_(std::move(note)) {}

  /// Stores blocks, drops those that are too old at `now`, and limits the file's size.
  void Put(const std::vector<SampleBlock>& blocks, samples::Second now);
  Answer Find(Gathered gathered);
  /// Adds the use of all jobs except those whose subjects are `known`, and the kept texts of jobs that ended in the
  /// period or later.
  void AddUses(const Stretch& of, const std::set<std::string>& known, Uses& uses, Kept& kept);
  std::string KeptOf(std::uint64_t job);
  /// Adds the tracks of one job on each node, except those `known`, with the wanted columns.
  void AddTracks(std::uint64_t job, const std::set<std::string>& known, const samples::IsWanted& is_wanted,
                 std::vector<samples::Block>& tracks);
  /// The last value of each number that the job reported. Adds nothing if it reported none.
  void AddReported(std::uint64_t job, Reported& reported);
  /// The kept track of a job; nullopt if there is none.
  std::optional<samples::Track> TrackOf(const samples::Subject& subject);

 private:
  SampleFile* File();
  void Fail(const Error& error);
  void AddKept(Gathered& gathered);
  samples::IsWanted Filter(const Question& question) const;

  Options options_;
  std::function<void(const std::string& line)> note_;
  std::unique_ptr<SampleFile> file_;
  bool has_failed_ = false;  // The failure was logged.
  samples::Second thinned_at_ = 0;
};

SampleFile* MetricStore::Keeper::File() {
  if (options_.path.empty()) return nullptr;
  if (file_) return file_.get();
  auto opened = SampleFile::Open(options_.path);
  if (opened) file_ = *std::move(opened);
  else Fail(opened.error());
  return file_.get();
}

void MetricStore::Keeper::Fail(const Error& error) {
  if (!std::exchange(has_failed_, true)) note_("event=samples_not_kept error=\"" + error.message + "\"");
}

void MetricStore::Keeper::Put(const std::vector<SampleBlock>& blocks, samples::Second now) {
  SampleFile* const file = File();
  if (file == nullptr) return;
  if (const Status put = file->Put(blocks); !put) return Fail(put.error());
  if (std::exchange(has_failed_, false)) note_("event=samples_kept_again");
  const auto keep = [&](const Status& done) {
    if (!done) Fail(done.error());
  };
  if (now - thinned_at_ >= kThinEvery) {
    thinned_at_ = now;
    for (const samples::Level& level : samples::kLevels) keep(file->DropOlder(level.step, now - level.reach));
    const auto jobs = std::chrono::duration_cast<std::chrono::seconds>(options_.keep_jobs).count();
    if (jobs > 0) keep(file->DropOlder(0, now - jobs));
  }
  keep(file->Bound(options_.most));
}

std::optional<samples::Track> MetricStore::Keeper::TrackOf(const samples::Subject& subject) {
  SampleFile* const file = File();
  if (file == nullptr) return std::nullopt;
  const auto rows = file->Read(ToText(subject), 0, 0, kForEver);
  if (!rows || rows->empty()) return std::nullopt;
  auto block = samples::DecodeBlock(rows->front().bytes);
  if (!block) return std::nullopt;
  return samples::Track(*std::move(block));
}

std::string MetricStore::Keeper::KeptOf(std::uint64_t job) {
  SampleFile* const file = File();
  if (file == nullptr) return "";
  const auto rows = file->Read(std::string(kEnded) + std::to_string(job), 0, 0, kForEver);
  return rows && !rows->empty() ? rows->front().bytes : "";
}

void MetricStore::Keeper::AddUses(const Stretch& of, const std::set<std::string>& known, Uses& uses, Kept& kept) {
  SampleFile* const file = File();
  if (file == nullptr) return;
  const Status read = file->ForEach(0, of.since, [&](const SampleBlock& row) {
    if (row.subject.starts_with(kEnded)) {
      if (const auto job = ParseInteger(std::string_view(row.subject).substr(kEnded.size())))
        kept.emplace(static_cast<std::uint64_t>(*job), row.bytes);
      return;
    }
    const auto subject = samples::SubjectFromText(row.subject);
    if (!subject || subject->of != samples::Of::kJob || known.contains(row.subject)) return;
    if (const auto block = samples::DecodeBlock(row.bytes, samples::IsOfUse)) AddUseOf(subject->job, *block, of, uses);
  });
  if (!read) Fail(read.error());
}

void MetricStore::Keeper::AddTracks(std::uint64_t job, const std::set<std::string>& known,
                                    const samples::IsWanted& is_wanted, std::vector<samples::Block>& tracks) {
  SampleFile* const file = File();
  if (file == nullptr) return;
  const auto names = file->Subjects(std::string(samples::Name(samples::Of::kJob)) + "/" + std::to_string(job) + "/");
  if (!names) return Fail(names.error());
  for (const std::string& name : *names) {
    if (known.contains(name)) continue;
    const auto rows = file->Read(name, 0, 0, kForEver);
    if (!rows) return Fail(rows.error());
    for (const SampleBlock& row : *rows) {
      if (auto block = samples::DecodeBlock(row.bytes, is_wanted)) tracks.push_back(*std::move(block));
    }
  }
}

void MetricStore::Keeper::AddReported(std::uint64_t job, Reported& reported) {
  std::vector<samples::Block> tracks;
  AddTracks(
      job, {}, [](samples::Metric, std::string_view own) { return !own.empty(); }, tracks);
  for (const samples::Block& track : tracks) {
    for (const samples::Column& column : track.columns) {
      const auto last = std::ranges::find_if(column.points.rbegin(), column.points.rend(), samples::IsPoint);
      if (last != column.points.rend()) reported[job].emplace(column.name, last->mean);
    }
  }
}

samples::IsWanted MetricStore::Keeper::Filter(const Question& question) const {
  if (question.metrics.empty()) return nullptr;
  return [&question](samples::Metric metric, std::string_view own) {
    const auto is_it = [&](const std::string& wanted) {
      if (own.empty()) return wanted == FactsOf(metric).name;
      // Steps are shown together with the job's own metrics.
      if (own == "step" && wanted.starts_with(samples::kOwnPrefix)) return true;
      return wanted.size() == samples::kOwnPrefix.size() + own.size() && wanted.starts_with(samples::kOwnPrefix) &&
             wanted.ends_with(own);
    };
    return std::ranges::any_of(question.metrics, is_it);
  };
}

// Adds data from the file, also for subjects that memory no longer holds. If both hold a block, memory's is newer.
void MetricStore::Keeper::AddKept(Gathered& gathered) {
  SampleFile* const file = File();
  const Question& question = gathered.question;
  const bool is_job = question.of == samples::Of::kJob;
  if (file == nullptr) return;
  // The ring holds seconds since the daemon's start; kept points cover the time before.
  const bool is_ring = gathered.level == 1 && !is_job;
  const samples::Second level = is_ring ? samples::kLevels.front().step : gathered.level;
  if (is_ring && question.range.since >= gathered.ring_since) return;
  const std::string prefix = question.of == samples::Of::kCluster ? "cluster" : PrefixOf(question);
  auto names = file->Subjects(prefix);
  if (!names) return Fail(names.error());
  for (const std::string& name : *names) {
    const auto subject = samples::SubjectFromText(name);
    if (!subject || !IsAsked(question, *subject)) continue;
    auto part = std::ranges::find(gathered.parts, *subject, &Gathered::Of::subject);
    if (part == gathered.parts.end()) part = gathered.parts.insert(part, {*subject, {}, false});
    if (part->is_whole && !is_ring) continue;
    const auto rows =
        is_job ? file->Read(name, 0, 0, kForEver) : file->Read(name, level, question.range.since, question.range.until);
    if (!rows) return Fail(rows.error());
    if (is_ring) {
      for (const SampleBlock& row : *rows) {
        if (auto block = samples::DecodeBlock(row.bytes, Filter(question))) part->before.push_back(*std::move(block));
      }
      continue;
    }
    const std::vector<samples::Block> newer = std::exchange(part->blocks, {});
    for (const SampleBlock& row : *rows) {
      const auto is_same = [&](const samples::Block& block) { return block.begin == row.begin; };
      if (std::ranges::any_of(newer, is_same)) continue;
      if (auto block = samples::DecodeBlock(row.bytes, Filter(question))) part->blocks.push_back(*std::move(block));
    }
    part->blocks.insert(part->blocks.end(), newer.begin(), newer.end());
  }
}

MetricStore::Answer MetricStore::Keeper::Find(Gathered gathered) {
  AddKept(gathered);
  Question& question = gathered.question;
  samples::Range& range = question.range;
  samples::Second level = gathered.level;
  if (question.of == samples::Of::kJob) {
    level = 1;
    samples::Second first = kForEver;
    samples::Second last = 0;
    for (const Gathered::Of& part : gathered.parts) {
      for (const samples::Block& block : part.blocks) {
        level = std::max(level, block.step);
        first = std::min(first, block.begin);
        last = std::max(last, block.end());
      }
    }
    if (range.since == 0) range.since = first == kForEver ? gathered.now : first;
    if (range.until == 0) range.until = std::max(last, range.since + 1);
  }
  const samples::Second step = StepOf(range, level);
  const samples::IsWanted is_wanted = Filter(question);
  Answer answer;
  std::vector<std::vector<samples::Curve>> of_job;
  for (const Gathered::Of& part : gathered.parts) {
    samples::Chart chart(range, step);
    for (samples::Block block : part.blocks) {
      if (is_wanted)
        std::erase_if(block.columns,
                      [&](const samples::Column& column) { return !is_wanted(column.metric, column.name); });
      chart.Add(block);
    }
    for (const samples::Block& block : part.before) chart.AddWhereEmpty(block);
    answer.begin = chart.begin();
    answer.step = chart.step();
    std::vector<samples::Curve> curves = chart.TakeCurves();
    if (curves.empty()) continue;
    if (question.of == samples::Of::kJob) of_job.push_back(std::move(curves));
    else answer.series.push_back({part.subject, std::move(curves)});
  }
  if (gathered.parts.empty()) {
    const samples::Chart chart(range, step);
    answer.begin = chart.begin();
    answer.step = chart.step();
  }
  if (!of_job.empty()) {
    samples::Subject subject;
    subject.of = samples::Of::kJob;
    subject.job = question.job.value_or(0);
    answer.series.push_back(
        {subject, of_job.size() == 1 ? std::move(of_job.front()) : JoinCurves(of_job, answer.step)});
  }
  std::ranges::sort(answer.series, {}, &Series::subject);
  return answer;
}

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
        // Adds the samples that arrived while the file was read to what the file had.
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
    for (const ReportedMetrics::Second& second : said_.Take(job, at))
      first->second.track.Add(second.at, second.readings);
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

std::optional<double> MetricStore::OwnOf(const samples::Subject& job, const std::string& name,
                                         samples::Second now) const {
  const auto at = jobs_.find(job);
  if (at == jobs_.end() || at->second.seconds.newest() <= FreshSince(now)) return std::nullopt;
  const auto value = at->second.track.own().find(name);
  return value == at->second.track.own().end() ? std::nullopt : std::optional(value->second);
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
