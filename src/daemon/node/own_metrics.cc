#include "daemon/node/own_metrics.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include "base/text.h"
#include "wire/http/own_numbers.h"

namespace divvy {
std::vector<samples::Reading> OwnReadings(const wire::OwnNumbers& numbers) {
  std::vector<samples::Reading> readings;
  for (const auto& [name, value] : numbers) readings.push_back({samples::Metric::kGpuUtilization, value, name});
  return readings;
}

void OwnMetrics::Look(const std::vector<Source>& sources, const std::string& node, samples::Snapshot& out) {
  SetSources(sources);
  const auto take = [&](Reader& reader, const LogPiece& piece) {
    std::vector<samples::Reading> readings = Readings(reader, piece);
    if (readings.empty()) return;
    const samples::Subject subject{samples::Of::kJob, node, -1, -1, reader.source.job};
    auto sample = std::ranges::find(out.samples, subject, &samples::Sample::subject);
    if (sample == out.samples.end()) sample = out.samples.insert(sample, {subject, {}});
    std::ranges::move(readings, std::back_inserter(sample->readings));
  };
  std::vector<Reader*> begun;
  for (auto& [job, reader] : readers_) {
    if (reader.read) {
      const std::optional<LogPiece> late = reader.read->Take();
      if (!late) continue;
      take(reader, *late);
      reader.read.reset();
      if (reader.reads_the_end) continue;
    }
    if (reader.is_current && reader.rests-- > 0) continue;
    if (const std::optional<LogPiece> piece = Begin(reader)) take(reader, *piece);
    else if (!reader.is_slow) begun.push_back(&reader);
  }
  const auto until = std::chrono::steady_clock::now() + kLongestWait;
  for (Reader* reader : begun) {
    const std::optional<LogPiece> piece = reader->read->Take(until);
    reader->is_slow = !piece;
    if (!piece) continue;
    take(*reader, *piece);
    reader->read.reset();
  }
  for (auto reader = readers_.begin(); reader != readers_.end();) {
    auto& [job, its] = *reader;
    if (its.is_current || its.read || !its.reads_the_end) {
      ++reader;
      continue;
    }
    left_[job] = {its.source.log.path, its.next};
    reader = readers_.erase(reader);
  }
  while (left_.size() > kMostLeft) left_.erase(left_.begin());
}

void OwnMetrics::SetSources(const std::vector<Source>& sources) {
  for (auto& [job, reader] : readers_) reader.is_current = false;
  for (const Source& source : sources) {
    const auto [at, is_new] = readers_.try_emplace(source.job);
    Reader& reader = at->second;
    const bool is_later = is_new ? source.is_older || source.attempt > 1 : reader.source.attempt != source.attempt;
    const auto left = left_.find(source.job);
    std::optional<Left> before;
    if (is_later && left != left_.end()) before = std::move(left->second);
    else if (is_later && !is_new) before = Left{reader.source.log.path, reader.next};
    if (left != left_.end()) left_.erase(left);
    reader.source = source;
    reader.is_current = true;
    if (!is_later) continue;
    reader.next = before && before->path == source.log.path ? before->next : -1;
    reader.begun.clear();
    reader.read.reset();
  }
}

std::optional<LogPiece> OwnMetrics::Begin(Reader& reader) {
  const JobLog& log = reader.source.log;
  reader.reads_the_end = !reader.is_current;
  const LogRange range = {.at = reader.next, .last = 0, .most = kMostBytes, .newest = true};
  if (!log.is_read_by_launcher()) {
    // Opening a pipe would affect its other users.
    struct stat status {};
    if (::stat(log.path.c_str(), &status) != 0) return LogPiece{.error = errno};
    return S_ISREG(status.st_mode) ? ReadJobLog(log, range, groups_) : LogPiece{.error = EINVAL};
  }
  auto read = log.errands->StartReadLog({log.user.uid, log.user.gid, log.right}, log.path, range);
  if (!read) return LogPiece{.error = EACCES};
  reader.read.emplace(*std::move(read));
  return std::nullopt;
}

std::vector<samples::Reading> OwnMetrics::Readings(Reader& reader, const LogPiece& piece) {
  const bool has_ended = reader.reads_the_end;
  const bool is_new = piece.error == 0 && !piece.text.empty();
  reader.period = is_new || !reader.source.log.is_read_by_launcher() ? 1 : std::min(2 * reader.period, kLongestPeriod);
  reader.rests = reader.period - 1;
  if (piece.error != 0) {
    if (piece.error == ENOENT && reader.next < 0) reader.next = 0;  // All that comes is new.
    return {};
  }
  if (reader.next < 0) {  // Its text may begin inside a line.
    reader.next = piece.next;
    return {};
  }
  std::string_view added = piece.text;
  std::int64_t passed_over = 0;  // In bytes.
  const auto begin = piece.next - static_cast<std::int64_t>(added.size());
  if (begin != reader.next) reader.begun.clear();  // The log was truncated, or a part of it is skipped.
  if (!is_new && !(has_ended && !reader.begun.empty())) {
    reader.next = piece.next;
    return {};
  }
  if (begin > reader.next) {
    // The job writes faster than it is read: continue near the end of the file, at the next complete line.
    added.remove_prefix(std::min(added.find('\n'), added.size() - 1) + 1);
    passed_over = piece.next - static_cast<std::int64_t>(added.size()) - reader.next;
  }
  reader.next = piece.next;
  reader.begun += added;
  if (has_ended && !reader.begun.empty()) reader.begun += '\n';
  std::string_view text = reader.begun;
  const auto end = text.rfind('\n');
  std::vector<std::string_view> lines;
  if (end != std::string_view::npos) {
    for (const std::string_view line : Split(text.substr(0, end), '\n')) {
      if (Trim(line).starts_with('{')) lines.push_back(line);
    }
  }
  wire::OwnNumbers numbers;
  const std::size_t skipped = lines.size() - std::min(lines.size(), wire::kMostOwnLines);
  for (std::size_t i = skipped; i < lines.size(); ++i) {
    for (const auto& [name, value] : wire::NumbersOfLine(lines[i], true)) {
      // NaN is kept for sweeps only. It must not replace a number that was reported in the same second.
      const bool is_known = std::ranges::find(numbers, name, &wire::OwnNumbers::value_type::first) != numbers.end();
      if (!std::isnan(value) || !is_known) wire::KeepNewest(numbers, name, value);
    }
  }
  std::vector<samples::Reading> readings;
  // The number of skipped lines is estimated from the lines that were read behind the skipped bytes.
  const double unread = text.empty() ? 0 : static_cast<double>(passed_over) / static_cast<double>(text.size());
  const double left_out = static_cast<double>(skipped) + std::round(unread * static_cast<double>(lines.size()));
  if (left_out > 0) readings.push_back({samples::Metric::kOwnLinesLeftOut, left_out});
  std::ranges::move(OwnReadings(numbers), std::back_inserter(readings));
  reader.begun.erase(0, end == std::string::npos ? 0 : end + 1);
  if (reader.begun.size() > wire::kMostOwnLine) reader.begun.clear();
  return readings;
}

}  // namespace divvy
