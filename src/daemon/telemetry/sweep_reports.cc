#include "daemon/telemetry/sweep_reports.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "wire/http/own_numbers.h"

namespace divvy {
namespace {

/// How much of the end of a log is read again.
constexpr std::int64_t kMostAgain = std::int64_t{256} << 10;

std::vector<Sweeps::Numbers> NumbersAtEndOf(const JobLog& log) {
  const LogPiece piece = ReadJobLog(log, {.at = 0, .most = static_cast<std::size_t>(kMostAgain), .newest = true});
  std::vector<Sweeps::Numbers> found;
  if (piece.error != 0) return found;
  std::string_view text = piece.text;
  if (piece.next > static_cast<std::int64_t>(text.size())) text.remove_prefix(std::min(text.find('\n'), text.size()));
  for (const std::string_view line : Split(text, '\n')) {
    if (!Trim(line).starts_with('{')) continue;
    if (auto numbers = wire::NumbersOfLine(line, true); !numbers.empty()) found.push_back(std::move(numbers));
  }
  return found;
}

}  // namespace

void SweepReports::Look(const samples::Snapshot& seen) {
  Controller& controller = driver_.controller();
  if (controller.sweeps().all().empty()) return;
  bool has_reports = false;
  for (const samples::Sample& sample : seen.samples) {
    const JobId job(sample.subject.job);
    if (sample.subject.of != samples::Of::kJob || controller.sweeps().Of(job) == nullptr) continue;
    Sweeps::Numbers numbers;
    for (const samples::Reading& reading : sample.readings) {
      if (!reading.name.empty()) numbers.emplace_back(reading.name, reading.value);
    }
    if (numbers.empty()) continue;
    controller.OnMetrics(job, numbers, driver_.Now());
    has_reports = true;
  }
  if (has_reports) driver_.Touch();
}

void SweepReports::CatchUp(const Ports& ports) {
  for (const JobId job : driver_.controller().sweeps().restored()) CatchUp(job, ports);
}

void SweepReports::CatchUp(JobId job, const Ports& ports) {
  const auto record = driver_.FindJob(job);
  // Only logs on this node are read again: agents read the logs on their nodes while they are disconnected.
  if (!record || !record->node.empty()) return;
  const auto spec = driver_.SpecOf(*record);
  if (!spec) return;
  ports.read(record->user.uid, [this, job, log = ports.log_of(*record, **spec)]() -> std::function<void()> {
    return [this, job, found = NumbersAtEndOf(log)] {
      for (const Sweeps::Numbers& numbers : found) driver_.controller().OnMetrics(job, numbers, driver_.Now());
      if (!found.empty()) driver_.Touch();
    };
  });
}

}  // namespace divvy
