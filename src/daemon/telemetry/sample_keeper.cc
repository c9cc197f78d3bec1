#include "daemon/telemetry/sample_keeper.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/text.h"

namespace divvy {
namespace {

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

}  // namespace

SampleBlock KeptBlock(const samples::Subject& subject, const samples::Block& block, samples::Second step) {
  return {ToText(subject), step, step == 0 ? 0 : block.begin, block.end(), EncodeBlock(block)};
}

SampleBlock KeptRow(std::uint64_t job, samples::Second ended, std::string text) {
  return {std::string(kEnded) + std::to_string(job), 0, 0, ended, std::move(text)};
}

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

void AddUseOf(std::uint64_t job, const samples::Block& track, const MetricStore::Stretch& of, MetricStore::Uses& uses) {
  if (of.pieces == MetricStore::Pieces::kWhole) return samples::AddUse(track, of.since, of.until, uses[of.since][job]);
  samples::AddUseByHour(track, of.since, of.until,
                        [&](samples::Second hour) -> samples::JobUse& { return uses[hour][job]; });
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

}  // namespace divvy
