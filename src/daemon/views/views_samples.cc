#include "daemon/views/views_samples.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <iterator>

namespace divvy {
namespace {

using samples::Of;

std::map<std::string, double> ValuesOf(const std::vector<samples::Reading>& readings) {
  std::map<std::string, double> values;
  for (const samples::Reading& reading : readings)
    values.emplace(FactsOf(reading.metric).name, Rounded(reading.metric, reading.value));
  return values;
}

std::optional<double> ValueOf(const samples::Curve& curve, float value) {
  if (std::isnan(value)) return std::nullopt;
  if (!curve.name.empty()) return ShortestDecimal(value);
  // A float has seven digits; stored values are no finer than a quantum.
  const double quantum = FactsOf(curve.metric).quantum;
  const auto exact = static_cast<double>(value);
  return quantum > 1 ? std::round(exact / quantum) * quantum : Rounded(curve.metric, exact);
}

// Merges the samples of a job from all its nodes. `nodes` counts, by metric, the nodes of the last job in `answer`.
void AddJob(const samples::Subject& subject, const MetricStore::Newest& newest, bool is_shown,
            wire::LatestAnswer& answer, std::map<std::string, int>& nodes) {
  const JobId id(subject.job);
  const bool is_new = answer.jobs.empty() || answer.jobs.back().id != id;
  if (is_new) answer.jobs.push_back({id, 0, {}, {}});
  wire::LatestJob& job = answer.jobs.back();
  job.time = std::max(job.time, static_cast<double>(newest.at));
  if (newest.own != nullptr && is_shown) {
    // Leaves out metrics of the job that are not finite, which an agent of another version may send.
    std::ranges::copy_if(*newest.own, std::inserter(job.own, job.own.end()),
                         [](const auto& own) { return std::isfinite(own.second); });
  }
  if (is_new) {
    job.values = ValuesOf(newest.readings);
    nodes.clear();
    for (const auto& [name, value] : job.values) nodes[name] = 1;
    return;
  }
  for (const samples::Reading& reading : newest.readings) {
    const samples::MetricFacts& facts = FactsOf(reading.metric);
    const auto [at, is_first] = job.values.emplace(facts.name, reading.value);
    const double before = nodes[at->first]++;
    if (is_first) continue;
    if (facts.join == samples::Join::kSum) at->second += reading.value;
    else if (facts.join == samples::Join::kMost) at->second = std::max(at->second, reading.value);
    else at->second = (at->second * before + reading.value) / (before + 1);
  }
}

std::vector<wire::LatestProcess> ProcessesOf(const std::vector<samples::ProcessUse>& all, int gpu) {
  std::vector<wire::LatestProcess> processes;
  for (const samples::ProcessUse& use : all) {
    if (use.gpu != gpu) continue;
    wire::LatestProcess& process = processes.emplace_back();
    process.pid = use.pid;
    if (use.job != 0) process.id = JobId(use.job);
    process.memory_bytes = use.memory_bytes;
    const auto tell = [](std::optional<double>& told, samples::Metric metric, double value) {
      if (value >= 0 && std::isfinite(value)) told = Rounded(metric, value);
    };
    tell(process.utilization, samples::Metric::kGpuUtilization, use.utilization);
    tell(process.cpu_cores, samples::Metric::kCpuCores, use.cpu_cores);
    tell(process.host_memory_bytes, samples::Metric::kMemoryUsed, use.host_memory_bytes);
    tell(process.read_bytes_per_second, samples::Metric::kIoRead, use.read_bytes_per_second);
    tell(process.written_bytes_per_second, samples::Metric::kIoWritten, use.written_bytes_per_second);
  }
  return processes;
}

}  // namespace

double ShortestDecimal(float value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text - 1, value).ptr;
  *end = '\0';
  return std::strtod(text, nullptr);
}

double Rounded(samples::Metric metric, double value) {
  const double quantum = FactsOf(metric).quantum;
  if (quantum >= 1) return std::round(value);
  // Ratios with four digits, since the mean of many seconds is finer than each stored value.
  return std::round(value * 1e4) / 1e4;
}

LatestSamples KnownNow(const MetricStore& store, samples::Second now,
                       const std::function<bool(const std::string& node)>& is_there) {
  LatestSamples latest = store.Latest(now);
  std::map<std::string, samples::Second> seen;
  for (const auto& [subject, newest] : latest) {
    samples::Second& at = seen[subject.node];
    at = std::max(at, newest.at);
  }
  std::map<std::string, bool> known;
  for (const auto& [node, at] : seen) known[node] = is_there(node);
  std::erase_if(latest, [&](const auto& one) {
    const auto& [subject, newest] = one;
    if (subject.of == Of::kTeam || subject.of == Of::kCluster) return false;  // These belong to no node.
    return !known[subject.node] || newest.at < seen[subject.node];
  });
  return latest;
}

wire::LatestAnswer LatestViewOf(const MetricStore& store, Time now, bool has_many,
                                const std::function<JobShown(JobId)>& shown,
                                const std::function<bool(const std::string& node)>& is_there) {
  wire::LatestAnswer answer;
  answer.time = ToSeconds(now);
  const samples::Second second = static_cast<samples::Second>(answer.time);
  std::map<std::string, std::vector<samples::ProcessUse>> processes;
  // Ordered by kind, node, GPU and job; sorting by job brings all entries of a job together.
  std::map<std::pair<std::uint64_t, std::string>, std::pair<samples::Subject, MetricStore::Newest>> jobs;
  for (const auto& [subject, newest] : KnownNow(store, second, is_there)) {
    const std::string node = has_many ? subject.node : "";
    const auto at = static_cast<double>(newest.at);
    switch (subject.of) {
      case Of::kGpu: {
        const auto [on, is_new] = processes.try_emplace(subject.node);
        if (is_new) on->second = store.ProcessesOn(subject.node, second);
        answer.gpus.push_back({node, subject.gpu, at, ValuesOf(newest.readings), ProcessesOf(on->second, subject.gpu)});
        break;
      }
      case Of::kSlice:
        answer.slices.push_back({node, subject.gpu, subject.instance, at, ValuesOf(newest.readings)});
        break;
      case Of::kNode:
        answer.nodes.push_back({node, at, ValuesOf(newest.readings)});
        break;
      case Of::kJob:
        jobs.emplace(std::pair(subject.job, subject.node), std::pair(subject, newest));
        break;
      case Of::kCluster:
        answer.cluster = ValuesOf(newest.readings);
        break;
      case Of::kTeam:  // Only for the report of shares.
        break;
    }
  }
  std::map<std::string, int> nodes;
  for (const auto& [key, job] : jobs) {
    const JobShown how = shown(JobId(key.first));
    if (how != JobShown::kNothing) AddJob(job.first, job.second, how == JobShown::kAll, answer, nodes);
  }
  return answer;
}

wire::SeriesAnswer SeriesViewOf(const MetricStore::Answer& answer, bool has_many, bool has_own) {
  wire::SeriesAnswer out;
  out.step_s = static_cast<double>(answer.step);
  out.begin = static_cast<double>(answer.begin);
  for (const MetricStore::Series& series : answer.series) {
    const samples::Curve* steps = nullptr;
    for (const samples::Curve& curve : series.curves) {
      if (curve.name == "step") steps = &curve;
    }
    for (const samples::Curve& curve : series.curves) {
      if (!curve.name.empty() && !has_own) continue;
      wire::SeriesView& view = out.series.emplace_back();
      view.of = samples::Name(series.subject.of);
      if (has_many) view.node = series.subject.node;
      if (series.subject.gpu >= 0) view.gpu = series.subject.gpu;
      if (series.subject.instance >= 0) view.instance = series.subject.instance;
      if (series.subject.job != 0) view.id = JobId(series.subject.job);
      const bool is_own = !curve.name.empty();
      view.metric = is_own ? std::string(samples::kOwnPrefix) + curve.name : std::string(FactsOf(curve.metric).name);
      if (!is_own) view.unit = FactsOf(curve.metric).unit;
      view.mean.reserve(curve.points.size());
      view.min.reserve(curve.points.size());
      view.max.reserve(curve.points.size());
      for (std::size_t i = 0; i < curve.points.size(); ++i) {
        view.mean.push_back(ValueOf(curve, curve.points[i].mean));
        view.min.push_back(ValueOf(curve, curve.points[i].least));
        view.max.push_back(ValueOf(curve, curve.points[i].greatest));
        if (is_own && steps != nullptr) view.step.push_back(ValueOf(*steps, steps->points[i].mean));
      }
    }
  }
  return out;
}

}  // namespace divvy
