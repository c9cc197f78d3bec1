#include "daemon/waste/waste_tracker.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "daemon/waste/run_hours.h"
#include "dialect/options/quantities.h"
#include "model/gpus/gpu_count_text.h"
#include "wire/messages/codec.h"
#include "wire/messages/waste_messages_describe.h"

namespace divvy {
bool IsSeenAsOne(const JobRecord& record) { return record.request.is_portioned() || record.gpu_slice.any(); }

namespace {

using samples::Metric;
using samples::Of;

/// In seconds. Jobs that are first seen within this time after the daemon's start may have run before it.
constexpr samples::Second kMeetsOldJobs = 120;

samples::WasteShape ShapeOf(const JobRecord& record, const Controller& controller) {
  samples::WasteShape shape;
  shape.gpus = GpuCountOf(record);
  if (shape.gpus == 0) return shape;
  shape.part = std::max(GpusWorthOf(record) / shape.gpus, 1e-4);
  const Request& request = record.request;
  shape.is_on_one = !request.is_gang();
  shape.may_share = shape.is_on_one && !request.is_elastic() && !record.gpu_slice.any();
  shape.is_by_memory = request.portion.is_by_memory();
  if (!request.spreads_tasks && !request.is_heterogeneous()) shape.cpus = request.cpus;
  // Uses the smallest of its GPUs' memories and of its nodes' core counts.
  for (const NodeAllocation& allocation : AllocationsOf(record)) {
    const auto index = controller.IndexOf(allocation.node);
    if (!index) continue;
    const NodeCapacity& capacity = controller.scheduler().nodes()[*index].capacity;
    if (capacity.cpus > 0) {
      shape.cpus_most = shape.cpus_most == 0 ? capacity.cpus : std::min(shape.cpus_most, capacity.cpus);
      const double fair = capacity.cpus * shape.part * allocation.gpus.size() /
                          std::max<double>(1, static_cast<double>(capacity.gpus.size()));
      shape.cpus_fair = shape.cpus_fair <= 0 ? fair : std::min(shape.cpus_fair, fair);
    }
    for (const int gpu : allocation.gpus.ToVector()) {
      if (static_cast<std::size_t>(gpu) >= capacity.gpus.size()) continue;
      const GpuFacts& facts = capacity.gpus[static_cast<std::size_t>(gpu)];
      if (shape.gpu_memory == Bytes() || facts.memory_total < shape.gpu_memory) shape.gpu_memory = facts.memory_total;
      shape.may_slice = !facts.slices.empty();
    }
  }
  return shape;
}

}  // namespace

std::string RemedyOf(const samples::Waste& waste, const JobRecord& record) {
  const bool has_ended = IsFinal(record.state);
  if (waste.ends) return has_ended ? "submit it with --gpus 0 if it needs no GPU" : "divvy cancel " + DisplayId(record);
  if (!waste.flags.empty()) {
    const bool can_now = !has_ended && record.request.is_portioned() && waste.flags.starts_with("--gpu");
    return can_now ? "divvy resize " + DisplayId(record) + " " + waste.flags : "submit it with " + waste.flags;
  }
  switch (waste.kind) {
    case samples::WasteKind::kCpuBound:
      return "its node has no more cores: prepare its input beforehand, or on the GPU";
    case samples::WasteKind::kSomeIdle:
      return "submit it with fewer GPUs, or make it use them all";
    case samples::WasteKind::kIdle:
      return "make it exit when its work is done";
    default:
      return "give it more work at once (larger batches, more data loaders), or a smaller GPU";
  }
}

std::optional<double> CostOf(double gpu_hours, const JobRecord& record, const Controller& controller) {
  if (controller.teams().prices().empty()) return std::nullopt;
  return gpu_hours * static_cast<double>(controller.teams().PriceOf(record.gpu_model)) / 1000;
}

bool WasteTracker::IsExempt(const JobRecord& record) const {
  const auto has = [](const std::vector<std::string>& names, const std::string& name) {
    return std::ranges::find(names, name) != names.end();
  };
  if (has(rules_.exempt_users, record.user.name) || (!record.team.empty() && has(rules_.exempt_teams, record.team)))
    return true;
  return std::ranges::any_of(rules_.exempt_names, [&](const std::string& name) {
    return name.ends_with('*') ? record.name.starts_with(std::string_view(name).substr(0, name.size() - 1))
                               : record.name == name;
  });
}

samples::WasteWatch::Look WasteTracker::LookAt(const JobRecord& record, const MetricStore& samples,
                                               samples::Second now) const {
  samples::WasteWatch::Look look;
  look.at = now;
  const std::vector<NodeAllocation> allocations = AllocationsOf(record);
  std::optional<double> cores = 0;
  std::optional<double> busy = 1;
  for (const NodeAllocation& allocation : allocations) {
    const std::string node = NodeIn(allocation);
    // The mean since the last look, so that work between two looks counts.
    const auto mean_of = [&](const samples::Subject& subject, Metric metric) {
      return samples.MeanOf(subject, metric, kEvery, now);
    };
    const samples::Subject job{Of::kJob, node, -1, -1, record.id.value()};
    const auto used = mean_of(job, Metric::kCpuCores);
    cores = cores && used ? std::optional(*cores + *used) : std::nullopt;
    const auto busy_here = mean_of({Of::kNode, node, -1, -1, 0}, Metric::kCpuUtilization);
    busy = busy && busy_here ? std::optional(std::min(*busy, *busy_here)) : std::nullopt;
    if (IsSeenAsOne(record)) {
      auto memory = mean_of(job, Metric::kGpuMemoryUsed);
      if (memory) *memory /= std::max(1, allocation.gpus.size());
      look.gpus.push_back({mean_of(job, Metric::kGpuUtilization), memory});
      continue;
    }
    for (const int index : allocation.gpus.ToVector()) {
      const samples::Subject gpu{Of::kGpu, node, index, -1, 0};
      look.gpus.push_back({mean_of(gpu, Metric::kGpuUtilization), mean_of(gpu, Metric::kGpuMemoryUsed)});
    }
  }
  look.machine_cpus = busy;
  if (cores) look.cpus = *cores / static_cast<double>(std::max<std::size_t>(1, allocations.size()));
  return look;
}

WasteAction WasteTracker::ActionFor(const JobRecord& record, std::int64_t requeues) const {
  const WasteAction own = wish_ ? wish_(record) : WasteAction::kNone;
  const WasteAction action = std::max(IsExempt(record) ? WasteAction::kNone : rules_.action, own);
  // Whole GPUs cannot be parked, and a job on a caller's terminal cannot be queued again.
  const bool has_parts = record.request.is_portioned();
  if (action == WasteAction::kPark && !has_parts) return WasteAction::kNone;
  const bool queues = action == WasteAction::kRequeue || (action == WasteAction::kPause && !has_parts);
  if (queues && (record.is_foreground || record.is_run_once)) return WasteAction::kNone;
  return action == WasteAction::kRequeue && requeues >= kMostRequeues ? WasteAction::kPause : action;
}

// The first finding with an action counts for warnings. In addition, each finding is reported once.
void WasteTracker::Tell(const JobRecord& record, Watched& watched, samples::Second now, std::vector<News>& news) const {
  const std::vector<samples::Waste> findings = watched.watch.Findings(rules_);
  const WasteAction action = ActionFor(record, watched.requeues);
  const auto acted_on = std::ranges::find_if(findings, [&](const samples::Waste& waste) {
    return std::ranges::find(rules_.action_on, samples::Name(waste.kind)) != rules_.action_on.end();
  });
  const bool is_found = acted_on != findings.end();
  // After a restart of the daemon, a missing finding may only mean that the job was not sampled for long enough.
  watched.is_resumed = watched.is_resumed && !is_found && !watched.watch.KnowsEnough(rules_, ActsOnIdleAlone());
  const auto due =
      watched.is_resumed ? samples::WasteSteps::Due::kNothing : watched.steps.Look(is_found, action, rules_, now);
  const auto wastes = [](const samples::Waste& waste) { return CountedGpus(waste.gpus) + ": it " + waste.text; };
  for (const samples::Waste& waste : findings) {
    const std::uint32_t bit = std::uint32_t{1} << static_cast<unsigned>(waste.kind);
    const bool is_warned_of = due != samples::WasteSteps::Due::kNothing && waste.kind == acted_on->kind;
    if ((watched.told & bit) != 0) continue;
    watched.told |= bit;
    if (!is_warned_of)
      news.push_back({record.id, record.attempt, "wastes " + wastes(waste) + "; " + RemedyOf(waste, record)});
  }
  if (due == samples::WasteSteps::Due::kWarning) {
    const Duration left = std::chrono::seconds(*watched.steps.ActionAt(rules_) - now);
    news.push_back({record.id, record.attempt,
                    "is warned (" + std::to_string(watched.steps.warnings()) + " of " +
                        std::to_string(rules_.warnings) + ") that it wastes " + wastes(*acted_on) + "; it is " +
                        DoneText(action, record) + " in " + dialect::FormatDuration(left) + " unless it uses them; " +
                        RemedyOf(*acted_on, record)});
  } else if (due == samples::WasteSteps::Due::kAction) {
    news.push_back({record.id, record.attempt,
                    "is " + DoneText(action, record) + ", because it wastes " + wastes(*acted_on) + ", and was warned",
                    action});
  }
}

void WasteTracker::OnAction(const News& news, bool is_done, samples::Second now) {
  const auto found = jobs_.find(news.job);
  if (found == jobs_.end()) return;
  found->second.steps.OnAction(is_done, rules_, now);
  if (is_done && news.action == WasteAction::kRequeue) ++found->second.requeues;
}

std::string DoneText(WasteAction action, const JobRecord& record) {
  switch (action) {
    case WasteAction::kPark:
      return "parked";
    case WasteAction::kPause:
      return record.request.is_portioned() ? "paused" : "queued again and held";
    case WasteAction::kRequeue:
      return "queued again";
    case WasteAction::kStop:
      return "stopped";
    case WasteAction::kNone:
      break;
  }
  return "left alone";
}

bool WasteTracker::ActsOnIdleAlone() const {
  return std::ranges::all_of(rules_.action_on, [](const std::string& kind) {
    return kind == samples::Name(samples::WasteKind::kIdle) || kind == samples::Name(samples::WasteKind::kSomeIdle);
  });
}

WasteTracker::Watched WasteTracker::Begin(const JobRecord& record, const samples::WasteShape& shape) const {
  const auto started = static_cast<samples::Second>(ToSeconds(record.started));
  Watched watched{record.attempt, samples::WasteWatch(shape, started), 0, {}};
  // Jobs that are met later and started before were paused, or are no longer exempt; their earlier use does not matter.
  if (expects_past_ && started < begun_at_ && looked_at_ - begun_at_ < kMeetsOldJobs)
    watched.past = Watched::Past::kUnknown;
  const auto kept = kept_.find(record.id);
  if (kept == kept_.end()) return watched;
  watched.requeues = kept->second.requeues;
  if (kept->second.attempt != record.attempt) return watched;
  watched.told = static_cast<std::uint32_t>(kept->second.told);
  watched.steps.Resume({static_cast<int>(kept->second.warnings), kept->second.next_at, kept->second.is_done});
  watched.is_resumed = true;
  return watched;
}

bool WasteTracker::LoadSetting(std::string_view key, std::string_view text) {
  if (!key.starts_with(kRow)) return false;
  const auto id = ParseInteger(key.substr(kRow.size()));
  const auto kept = wire::Decode<wire::KeptWaste>(text);
  if (id && *id > 0 && kept) kept_[JobId(static_cast<std::uint64_t>(*id))] = *kept;
  return true;
}

std::vector<WasteTracker::Setting> WasteTracker::TakeSettings(const Controller& controller) {
  std::vector<Setting> rows;
  const auto key = [](JobId id) { return std::string(kRow) + ToString(id); };
  std::map<JobId, wire::KeptWaste> now;
  for (const auto& [id, watched] : jobs_) {
    const auto steps = watched.steps.state();
    if (watched.told == 0 && steps == samples::WasteSteps::State() && watched.requeues == 0) continue;
    const wire::KeptWaste kept{watched.attempt, watched.told,  steps.warnings,
                               steps.next_at,   steps.is_done, watched.requeues};
    const auto before = kept_.find(id);
    if (before == kept_.end() || before->second != kept) rows.emplace_back(key(id), wire::Encode(kept));
    now.emplace(id, kept);
  }
  for (const auto& [id, kept] : kept_) {
    if (now.contains(id)) continue;
    // A job that is not examined yet, or not now, keeps its record of reports and requeues.
    const JobRecord* const record = controller.Find(id);
    const bool is_same_run = record != nullptr && IsActive(record->state) && record->attempt == kept.attempt;
    if ((is_same_run || (record != nullptr && kept.requeues > 0)) && !jobs_.contains(id)) now.emplace(id, kept);
    else rows.emplace_back(key(id), "");
  }
  kept_ = std::move(now);
  return rows;
}

std::vector<WasteTracker::News> WasteTracker::Look(const Controller& controller, const MetricStore& samples,
                                                   samples::Second now) {
  std::vector<News> news;
  if (now - looked_at_ < kEvery) return news;
  looked_at_ = now;
  if (begun_at_ == 0) begun_at_ = now;
  std::map<JobId, Watched> jobs;
  for (const auto& [id, running] : controller.scheduler().running_jobs()) {
    const JobRecord* const record = controller.Find(id);
    if (record == nullptr || record->state != JobState::kRunning || GpuCountOf(*record) == 0) continue;
    if (IsExempt(*record) && ActionFor(*record, 0) == WasteAction::kNone) continue;
    const auto shape = ShapeOf(*record, controller);
    auto known = jobs_.extract(id);
    if (known && known.mapped().attempt == record->attempt) {
      known.mapped().watch.Reshape(shape);
      jobs.insert(std::move(known));
    } else {
      jobs.emplace(id, Begin(*record, shape));
    }
    Watched& watched = jobs.at(id);
    if (watched.past != Watched::Past::kKnown) continue;
    watched.watch.Add(LookAt(*record, samples, now), rules_);
    const std::size_t first = news.size();
    Tell(*record, watched, now, news);
    for (std::size_t i = first; i < news.size(); ++i) {
      news[i].lost_gpu_hours = watched.watch.lost_gpu_hours();
      news[i].lost_cost = CostOf(news[i].lost_gpu_hours, *record, controller);
    }
  }
  jobs_ = std::move(jobs);
  return news;
}

std::vector<JobRecord> WasteTracker::TakeUnknown(const Controller& controller) {
  std::vector<JobRecord> unknown;
  for (auto& [id, watched] : jobs_) {
    if (watched.past != Watched::Past::kUnknown) continue;
    watched.past = Watched::Past::kAsked;
    if (const JobRecord* const record = controller.Find(id)) unknown.push_back(*record);
  }
  return unknown;
}

samples::Second WasteTracker::LooksBack() const {
  const auto longest = std::max(rules_.window, rules_.idle_after);
  return std::chrono::duration_cast<std::chrono::seconds>(longest).count() + 10 * kEvery;
}

void WasteTracker::Resume(const JobRecord& record, const samples::JobUse& use,
                          const std::vector<samples::WasteWatch::Look>& looks,
                          const std::vector<samples::Second>& idle_since) {
  const auto found = jobs_.find(record.id);
  if (found == jobs_.end() || found->second.attempt != record.attempt) return;
  Watched& watched = found->second;
  if (std::exchange(watched.past, Watched::Past::kKnown) == Watched::Past::kKnown) return;
  for (const samples::WasteWatch::Look& look : looks) watched.watch.Add(look, rules_);
  std::vector<ReportedRun> runs;
  AddRunOf(record, ReportBy::kUser, own_node_, runs);
  const RunHours hours = HoursOf(runs.front(), use);
  watched.watch.Resume({hours.known, hours.lost(), hours.idle, samples::MemoryPeakOf(use, GpuCountOf(record)),
                        static_cast<samples::Second>(use.idle_tail), idle_since});
}

wire::WasteAnswer WasteTracker::View(const Controller& controller, samples::Second now) const {
  wire::WasteAnswer answer;
  answer.time = static_cast<double>(now);
  for (const auto& [id, watched] : jobs_) {
    const JobRecord* const record = controller.Find(id);
    if (record == nullptr || record->attempt != watched.attempt || record->state != JobState::kRunning) continue;
    const std::vector<samples::Waste> findings = watched.watch.Findings(rules_);
    if (findings.empty()) continue;
    wire::WastefulJob& job = answer.jobs.emplace_back();
    job.id = id;
    job.display_id = DisplayId(*record);
    job.name = record->name;
    job.user = record->user.name;
    job.team = record->team;
    job.gpu_model = record->gpu_model;
    job.gpus = GpusWorthOf(*record);
    job.start_time = ToSeconds(record->started);
    job.gpu_hours = watched.watch.gpu_hours();
    job.lost_gpu_hours = watched.watch.lost_gpu_hours();
    job.idle_gpu_hours = watched.watch.idle_gpu_hours();
    job.lost_cost = CostOf(job.lost_gpu_hours, *record, controller);
    for (const samples::Waste& waste : findings) {
      job.findings.push_back({std::string(samples::Name(waste.kind)), static_cast<double>(waste.since), waste.gpus,
                              waste.text, RemedyOf(waste, *record)});
      job.wasted_gpus = std::max(job.wasted_gpus, waste.gpus);
    }
    answer.wasted_gpus += job.wasted_gpus;
    if (const auto at = watched.steps.ActionAt(rules_)) {
      const WasteAction action = ActionFor(*record, watched.requeues);
      job.action = Name(action);
      job.action_text = DoneText(action, *record);
      job.action_time = static_cast<double>(*at);
      job.warnings = watched.steps.warnings();
      job.max_warnings = rules_.warnings;
    }
  }
  std::ranges::stable_sort(answer.jobs, std::greater(), &wire::WastefulJob::wasted_gpus);
  return answer;
}

samples::Second WasteTracker::CountsFrom(const JobRecord& record) const {
  return static_cast<samples::Second>(ToSeconds(record.started + rules_.grace));
}

bool WasteTracker::JudgesEnded(const JobRecord& record) const {
  const bool has_run = IsFinal(record.state) && record.started != kNoTime && record.array_count == 0;
  if (!has_run || record.ended - record.started < rules_.grace + rules_.idle_after) return false;
  return GpuCountOf(record) > 0 && !IsExempt(record);
}

std::vector<wire::WasteFinding> WasteTracker::OfEnded(const JobRecord& record, const samples::JobUse& use,
                                                      const samples::RunDetail& detail,
                                                      const Controller& controller) const {
  std::vector<wire::WasteFinding> findings;
  const auto since = static_cast<double>(CountsFrom(record));
  for (const samples::Waste& waste : samples::WasteOfRun(ShapeOf(record, controller), use, rules_, detail))
    findings.push_back(
        {std::string(samples::Name(waste.kind)), since, waste.gpus, waste.text, RemedyOf(waste, record)});
  return findings;
}

}  // namespace divvy
