#include "daemon/node/own_metrics.h"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include "base/text.h"
#include "wire/http/own_numbers.h"

namespace divvy {
namespace {

// Returns nullopt for anything but a regular file, because opening a pipe would affect its other users.
std::optional<std::int64_t> SizeOf(const JobLog& log) {
  struct stat status {};
  if (log.path.empty() || ::stat(log.path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return status.st_size;
}

}  // namespace

std::vector<samples::Reading> OwnReadings(const wire::OwnNumbers& numbers) {
  std::vector<samples::Reading> readings;
  for (const auto& [name, value] : numbers) readings.push_back({samples::Metric::kGpuUtilization, value, name});
  return readings;
}

void OwnMetrics::Look(const std::vector<Source>& sources, const std::string& node, samples::Snapshot& out) {
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
    const std::int64_t size = SizeOf(source.log).value_or(0);
    const bool goes_on = before && before->path == source.log.path;
    // A log that was truncated is shorter than what was read of it; all of it belongs to this attempt.
    reader.next = !goes_on ? size : size < before->next ? 0 : before->next;
    reader.begun.clear();
  }
  for (auto& [job, reader] : readers_) {
    std::vector<samples::Reading> readings = Read(reader);
    if (readings.empty()) continue;
    const samples::Subject subject{samples::Of::kJob, node, -1, -1, job};
    auto sample = std::ranges::find(out.samples, subject, &samples::Sample::subject);
    if (sample == out.samples.end()) sample = out.samples.insert(sample, {subject, {}});
    std::ranges::move(readings, std::back_inserter(sample->readings));
  }
  for (const auto& [job, reader] : readers_) {
    if (!reader.is_current) left_[job] = {reader.source.log.path, reader.next};
  }
  while (left_.size() > kMostLeft) left_.erase(left_.begin());
  std::erase_if(readers_, [](const auto& reader) { return !reader.second.is_current; });
}

std::vector<samples::Reading> OwnMetrics::Read(Reader& reader) {
  const auto size = SizeOf(reader.source.log);
  // An ended job writes nothing more, so the last line of its log counts even without a line break.
  const bool has_last_words = !reader.is_current && !reader.begun.empty();
  if (!size || (*size == std::exchange(reader.size, *size) && !has_last_words)) return {};
  LogPiece piece = Piece(reader.source.log, reader.next, -1, kMostBytes);
  if (piece.error != 0) return {};
  std::int64_t passed_over = 0;  // In bytes.
  if (piece.size > piece.next) {
    // The job writes faster than it is read: continue near the end of the file, at the next complete line.
    piece = Piece(reader.source.log, std::max<std::int64_t>(piece.size - static_cast<std::int64_t>(kMostBytes), 0), -1,
                  kMostBytes);
    if (piece.error != 0) return {};
    reader.begun.clear();
    piece.text.erase(0, piece.text.find('\n') + 1);
    passed_over = std::max<std::int64_t>(piece.next - reader.next - static_cast<std::int64_t>(piece.text.size()), 0);
  }
  // A log that was truncated is shorter than what was read of it.
  reader.next = piece.size < reader.next ? 0 : piece.next;
  reader.begun += piece.text;
  if (!reader.is_current && !reader.begun.empty()) reader.begun += '\n';
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
