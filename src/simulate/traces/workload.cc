#include "simulate/traces/workload.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace divvy::simulate {
namespace {

constexpr std::int64_t kMostNodes = 1'000'000;
constexpr std::int64_t kMostGpusOfNode = 1024;

std::string LessPadding(std::string_view digits) {
  const std::size_t first = digits.find_first_not_of('0');
  return std::string(first == std::string_view::npos ? "" : digits.substr(first));
}

/// Numeric ids sort before others, by value, however long they are.
bool IsBefore(const std::string& a, const std::string& b) {
  const auto is_number = [](const std::string& id) {
    return !id.empty() && std::ranges::all_of(id, [](char c) { return c >= '0' && c <= '9'; });
  };
  const bool a_is_number = is_number(a), b_is_number = is_number(b);
  if (a_is_number != b_is_number) return a_is_number;
  if (!a_is_number) return a < b;
  const std::string a_digits = LessPadding(a), b_digits = LessPadding(b);
  return a_digits.size() != b_digits.size() ? a_digits.size() < b_digits.size() : a_digits < b_digits;
}

}  // namespace

std::int64_t TraceCluster::nodes() const {
  std::int64_t sum = 0;
  for (const NodeGroup& group : groups) sum += group.count;
  return sum;
}

std::int64_t TraceCluster::gpus() const {
  std::int64_t sum = 0;
  for (const NodeGroup& group : groups) sum += std::int64_t{group.count} * group.gpus;
  return sum;
}

void Arrange(Workload& workload) {
  std::ranges::stable_sort(workload.jobs, [](const TraceJob& a, const TraceJob& b) {
    return a.submit != b.submit ? a.submit < b.submit : IsBefore(a.id, b.id);
  });
}

Result<TraceCluster> ParseCluster(std::string_view text) {
  TraceCluster cluster;
  for (const std::string_view part : Split(text, ',')) {
    const std::string_view group = Trim(part);
    const std::size_t times = group.find('x');
    const std::size_t colon = std::min(group.find(':'), group.size());
    const auto count = times < colon ? ParseInteger(group.substr(0, times)) : std::nullopt;
    const auto gpus = times < colon ? ParseInteger(group.substr(times + 1, colon - times - 1)) : std::nullopt;
    if (!count || !gpus || *count < 1 || *count > kMostNodes || *gpus < 1 || *gpus > kMostGpusOfNode ||
        colon + 1 == group.size())
      return InvalidArgument("'" + std::string(text) +
                             "' is not a cluster; expected NODESxGPUS or NODESxGPUS:MODEL, joined by commas: "
                             "96x8, 36x1:v100,36x1:p100");
    NodeGroup parsed;
    parsed.count = static_cast<int>(*count);
    parsed.gpus = static_cast<int>(*gpus);
    if (colon < group.size()) parsed.model = group.substr(colon + 1);
    cluster.groups.push_back(std::move(parsed));
  }
  return cluster;
}

void CutTo(Workload& workload, Time from, Time to) {
  std::erase_if(workload.jobs, [&](const TraceJob& job) { return job.submit < from || job.submit >= to; });
}

void ScaleLoad(Workload& workload, double factor) {
  if (workload.jobs.empty()) return;
  const Time first = workload.jobs.front().submit;
  for (TraceJob& job : workload.jobs)
    job.submit = first + Duration(std::llround(static_cast<double>((job.submit - first).count()) / factor));
  Arrange(workload);
}

}  // namespace divvy::simulate
