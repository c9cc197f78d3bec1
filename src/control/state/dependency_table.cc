#include "control/state/dependency_table.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/text.h"
#include "control/books/record_parts.h"
#include "model/same_element.h"

namespace divvy {
namespace {

/// At least the components of the largest job (dialect/options/components.h).
constexpr std::uint64_t kMostComponents = 64;

std::string SingletonKey(const JobRecord& record) { return std::to_string(record.user.uid) + " " + record.name; }

bool HasSingleton(const JobRecord& record) {
  return std::ranges::any_of(record.dependencies,
                             [](const Dependency& d) { return d.kind == DependencyKind::kSingleton; });
}

std::string DescribeTarget(const Dependency& dependency) {
  return "job " + ToString(dependency.job) + (dependency.element ? "_" + std::to_string(*dependency.element) : "");
}

std::string Describe(const Dependency& dependency) {
  const std::string job = DescribeTarget(dependency);
  switch (dependency.kind) {
    case DependencyKind::kAfter:
      return job + " to start";
    case DependencyKind::kAfterOk:
      return job + " to succeed";
    case DependencyKind::kAfterNotOk:
      return job + " to fail";
    case DependencyKind::kAfterAny:
      return job + " to end";
    case DependencyKind::kSingleton:
      return "your earlier jobs of the same name to end";
  }
  return job;
}

/// Explains why a dependency on a target without a record is impossible.
std::string DescribeImpossible(const Dependency& dependency) {
  const std::string job = DescribeTarget(dependency);
  switch (dependency.kind) {
    case DependencyKind::kAfter:
      return job + " never started";
    case DependencyKind::kAfterOk:
      return job + " did not succeed";
    case DependencyKind::kAfterNotOk:
      return job + " succeeded";
    case DependencyKind::kAfterAny:
    case DependencyKind::kSingleton:
      break;
  }
  return job + " never ended";
}

std::string DescribeEnd(const JobRecord& record) {
  std::string text = "job " + DisplayId(record) + " " + std::string(Name(record.state));
  if (record.state == JobState::kFailed && record.exit && record.exit->is_known)
    text += " with exit code " + std::to_string(record.exit->code);
  return text;
}

}  // namespace

Status DependencyTable::LearnOutcomes(const std::vector<Dependency>& dependencies, const FindOutcome& outcome) {
  for (const Dependency& dependency : dependencies) {
    if (dependency.kind == DependencyKind::kSingleton || dependency.status == DependencyStatus::kSatisfied) continue;
    const JobRecord* target = jobs_.Find(dependency.job);
    if (const JobRecord* array = target == nullptr ? jobs_.ArrayOf(dependency.job) : nullptr; array != nullptr) {
      if (!dependency.element || dependency.element == kSameElement) continue;  // An element named by its own id.
      return NotFound("dependency on " + ToString(dependency.job) + "_" + std::to_string(*dependency.element) +
                      ": job " + ToString(dependency.job) + " is an element of array " + ToString(array->id) +
                      " and has no elements itself");
    }
    if (target == nullptr) {
      const auto known = outcomes_.find(dependency.job);
      if (known != outcomes_.end()) {
        target = &known->second;
      } else if (auto ended = outcome(dependency.job)) {
        target = &outcomes_.emplace(dependency.job, *std::move(ended)).first->second;
      }
    }
    if (target == nullptr && dependency.status == DependencyStatus::kImpossible) continue;
    if (target == nullptr) return NotFound("dependency on job " + ToString(dependency.job) + ": there is no such job");
    if (!dependency.element || dependency.element == kSameElement) continue;
    const auto ordinal = ElementOrdinal(*target, *dependency.element);
    if (!ordinal) {
      return NotFound("dependency on " + ToString(dependency.job) + "_" + std::to_string(*dependency.element) +
                      ": the array has no such element");
    }
    const JobId element = ElementId(dependency.job, *ordinal);
    if (jobs_.Find(element) != nullptr || outcomes_.contains(element)) continue;
    // An array element without a record of its own has not ended yet, so nothing is stored for it.
    if (auto ended = outcome(element); ended && IsFinal(ended->state)) outcomes_.emplace(element, *std::move(ended));
  }
  return {};
}

std::optional<JobId> DependencyTable::LeaderOf(JobId id, const OthersOf& others_of) const {
  if (id.value() >= jobs_.ids().next) return std::nullopt;
  for (std::uint64_t before = 0; before < kMostComponents && before < id.value(); ++before) {
    const JobId candidate(id.value() - before);
    const std::optional<std::size_t> others = others_of(candidate);
    if (others) return *others >= before ? std::optional(candidate) : std::nullopt;
  }
  return std::nullopt;
}

void DependencyTable::NameElements(std::vector<Dependency>& dependencies, const FindOutcome& outcome) const {
  std::map<JobId, std::optional<std::size_t>> known;  // Each id is looked up once.
  const auto others_of = [&](JobId id) -> std::optional<std::size_t> {
    if (const JobRecord* live = jobs_.Find(id)) return live->request.others.size();
    const auto [at, is_new] = known.try_emplace(id);
    if (!is_new) return at->second;
    if (const auto ended = outcome(id)) at->second = ended->request.others.size();
    return at->second;
  };
  for (Dependency& dependency : dependencies) {
    if (dependency.kind != DependencyKind::kSingleton && jobs_.Find(dependency.job) == nullptr &&
        jobs_.ArrayOf(dependency.job) == nullptr && !outcomes_.contains(dependency.job)) {
      const std::optional<JobId> leader = LeaderOf(dependency.job, others_of);
      if (!leader) return;
      dependency.job = *leader;
    }
    if (dependency.kind == DependencyKind::kSingleton || dependency.element.value_or(kSameElement) != kSameElement)
      continue;
    const JobRecord* array = jobs_.Find(dependency.job) == nullptr ? jobs_.ArrayOf(dependency.job) : nullptr;
    if (array == nullptr) continue;
    const auto ordinal = static_cast<std::uint32_t>(dependency.job.value() - array->id.value() - 1);
    dependency.element = ElementOf(*array, ordinal).array_index;
    dependency.job = array->id;
  }
}

void DependencyTable::NameCounterparts(const JobRecord& waiting, std::vector<Dependency>& dependencies) const {
  for (Dependency& dependency : dependencies) {
    if (dependency.element != kSameElement) continue;
    dependency.element.reset();
    const JobRecord* array = waiting.array.is_set() ? Target(dependency) : nullptr;
    if (array != nullptr && array->array_count > 0 && ElementOrdinal(*array, waiting.array_index))
      dependency.element = waiting.array_index;
  }
}

void DependencyTable::Add(const JobRecord& record) {
  for (const Dependency& dependency : record.dependencies) {
    if (dependency.kind != DependencyKind::kSingleton) dependents_[dependency.job].insert(record.id);
  }
  if (HasSingleton(record)) singletons_[SingletonKey(record)].insert(record.id);
}

void DependencyTable::Remove(const JobRecord& record) {
  Unlink(record);
  ForgetOutcomes(record.dependencies);
}

void DependencyTable::Replace(const JobRecord& before, const JobRecord& after) {
  Unlink(before);
  Add(after);
  ForgetOutcomes(before.dependencies);
}

void DependencyTable::Unlink(const JobRecord& record) {
  for (const Dependency& dependency : record.dependencies) {
    const auto at = dependents_.find(dependency.job);
    if (dependency.kind == DependencyKind::kSingleton || at == dependents_.end()) continue;
    at->second.erase(record.id);
    if (at->second.empty()) dependents_.erase(at);
  }
  const auto at = HasSingleton(record) ? singletons_.find(SingletonKey(record)) : singletons_.end();
  if (at == singletons_.end()) return;
  at->second.erase(record.id);
  if (at->second.empty()) singletons_.erase(at);
}

const JobRecord* DependencyTable::Target(const Dependency& dependency) const {
  const auto find = [this](JobId id) -> const JobRecord* {
    if (const JobRecord* live = jobs_.Find(id)) return live;
    const auto ended = outcomes_.find(id);
    return ended == outcomes_.end() ? nullptr : &ended->second;
  };
  const JobRecord* target = find(dependency.job);
  if (target == nullptr || !dependency.element) return target;
  const auto ordinal = ElementOrdinal(*target, *dependency.element);
  return ordinal ? find(ElementId(dependency.job, *ordinal)) : nullptr;
}

// An impossible dependency may become possible again: the target may be requeued after its end.
DependencyStatus DependencyTable::StatusOf(const JobRecord& record, const Dependency& dependency) const {
  if (dependency.status == DependencyStatus::kSatisfied) return dependency.status;
  if (dependency.kind == DependencyKind::kSingleton) {
    const bool has_earlier =
        std::ranges::any_of(jobs_.live(), [&](const auto& entry) { return IsEarlierNamesake(entry.second, record); });
    return has_earlier ? DependencyStatus::kPending : DependencyStatus::kSatisfied;
  }
  const JobRecord* target = Target(dependency);
  if (target == nullptr) {
    if (dependency.status == DependencyStatus::kImpossible || !WasCancelledWaiting(dependency))
      return dependency.status;
    const bool asks_for_end_only =
        dependency.kind == DependencyKind::kAfterAny || dependency.kind == DependencyKind::kAfterNotOk;
    return asks_for_end_only ? DependencyStatus::kSatisfied : DependencyStatus::kImpossible;
  }
  switch (dependency.kind) {
    case DependencyKind::kAfter: {
      // An array counts as started when no element waits any more; `started` is that of its first element.
      const bool is_whole = target->array_waiting.empty() || IsFinal(target->state);
      if (target->started != kNoTime && is_whole) return DependencyStatus::kSatisfied;
      return IsFinal(target->state) ? DependencyStatus::kImpossible : DependencyStatus::kPending;
    }
    case DependencyKind::kAfterOk:
      if (!IsFinal(target->state)) return DependencyStatus::kPending;
      return target->state == JobState::kSucceeded ? DependencyStatus::kSatisfied : DependencyStatus::kImpossible;
    case DependencyKind::kAfterNotOk:
      if (!IsFinal(target->state)) return DependencyStatus::kPending;
      return target->state == JobState::kSucceeded ? DependencyStatus::kImpossible : DependencyStatus::kSatisfied;
    case DependencyKind::kAfterAny:
    case DependencyKind::kSingleton:
      break;
  }
  return IsFinal(target->state) ? DependencyStatus::kSatisfied : DependencyStatus::kPending;
}

bool DependencyTable::SettleDependencies(JobRecord& record) const {
  bool has_changed = false;
  for (Dependency& dependency : record.dependencies) {
    if (dependency.kind == DependencyKind::kSingleton) continue;
    const DependencyStatus status = StatusOf(record, dependency);
    has_changed |= status != std::exchange(dependency.status, status);
  }
  return has_changed;
}

std::vector<std::string> DependencyTable::UnmetDependencies(const JobRecord& record) const {
  std::vector<std::string> unmet;
  for (const Dependency& dependency : record.dependencies) {
    const DependencyStatus status = StatusOf(record, dependency);
    if (status == DependencyStatus::kSatisfied && record.needs_any_dependency) return {};
    if (status == DependencyStatus::kPending) {
      const std::string forgotten = ", which is no longer in the history (divvy update " + DisplayId(record) +
                                    " --dependency \"\" removes its dependencies)";
      unmet.push_back(Describe(dependency) + (IsForgotten(dependency) ? forgotten : ""));
    }
    if (status == DependencyStatus::kImpossible) {
      unmet.push_back(Describe(dependency) + " (never: " + WhyImpossible(dependency) + ")");
    }
  }
  return unmet;
}

std::vector<JobId> DependencyTable::EndsWaitedFor(const JobRecord& record) const {
  std::vector<JobId> jobs;
  if (record.needs_any_dependency) return jobs;
  for (const Dependency& dependency : record.dependencies) {
    if (StatusOf(record, dependency) == DependencyStatus::kSatisfied) continue;
    const bool is_start = dependency.kind == DependencyKind::kAfter;
    const JobRecord* target = dependency.kind == DependencyKind::kSingleton ? nullptr : Target(dependency);
    if (is_start || target == nullptr || target->array_count > 0 || IsFinal(target->state)) return {};
    jobs.push_back(target->id);
  }
  return jobs;
}

DependencyOutlook DependencyTable::DependencyOutlookOf(const JobRecord& record) const {
  DependencyOutlook outlook;
  std::size_t never = 0;
  for (const Dependency& dependency : record.dependencies) {
    if (StatusOf(record, dependency) != DependencyStatus::kImpossible) continue;
    ++never;
    outlook.why = WhyImpossible(dependency);
  }
  outlook.is_lost = never > 0 && (!record.needs_any_dependency || never == record.dependencies.size());
  return outlook;
}

std::string DependencyTable::WhyImpossible(const Dependency& dependency) const {
  const JobRecord* target = Target(dependency);
  return target != nullptr ? DescribeEnd(*target) : DescribeImpossible(dependency);
}

// Returns true if nothing is known of the job that the dependency names, as for an array element that was cancelled
// together with its array.
bool DependencyTable::IsForgotten(const Dependency& dependency) const {
  if (dependency.kind == DependencyKind::kSingleton) return false;
  return jobs_.Find(dependency.job) == nullptr && jobs_.ArrayOf(dependency.job) == nullptr &&
         !outcomes_.contains(dependency.job);
}

bool DependencyTable::WasCancelledWaiting(const Dependency& dependency) const {
  if (!dependency.element) return false;
  const JobRecord* array = jobs_.Find(dependency.job);
  if (array == nullptr) {
    const auto ended = outcomes_.find(dependency.job);
    if (ended == outcomes_.end()) return false;
    array = &ended->second;
  }
  const auto ordinal = ElementOrdinal(*array, *dependency.element);
  return ordinal && !array->array_waiting.Contains(*ordinal);
}

bool DependencyTable::IsAskedFor(const JobRecord& record) const {
  if (dependents_.contains(record.id)) return true;
  const auto of_array = record.array.is_set() ? dependents_.find(record.array) : dependents_.end();
  if (of_array == dependents_.end()) return false;
  // Jobs that wait for the whole array do not need its elements, of which there may be a million.
  return std::ranges::any_of(of_array->second, [&](JobId id) {
    const JobRecord* waiting = jobs_.Find(id);
    return waiting != nullptr && std::ranges::any_of(waiting->dependencies, [&](const Dependency& dependency) {
             return dependency.job == record.array && dependency.element == record.array_index;
           });
  });
}

void DependencyTable::ForgetOutcomes(const std::vector<Dependency>& dependencies) {
  for (const Dependency& dependency : dependencies) {
    if (dependency.kind == DependencyKind::kSingleton || dependents_.contains(dependency.job)) continue;
    const auto known = outcomes_.find(dependency.job);
    if (known != outcomes_.end() && !IsAskedFor(known->second)) outcomes_.erase(known);
    // Elements have the ids after their array's id.
    for (auto at = outcomes_.upper_bound(dependency.job);
         at != outcomes_.end() && at->second.array == dependency.job;) {
      at = IsAskedFor(at->second) ? std::next(at) : outcomes_.erase(at);
    }
  }
}

void DependencyTable::KeepOutcome(const JobRecord& ended) {
  if (IsAskedFor(ended)) outcomes_.insert_or_assign(ended.id, ended);
}

std::set<JobId> DependencyTable::AffectedBy(const JobRecord& changed) const {
  std::set<JobId> waiting;
  const auto collect = [&](const std::set<JobId>& ids) { waiting.insert(ids.begin(), ids.end()); };
  if (const auto at = dependents_.find(changed.id); at != dependents_.end()) collect(at->second);
  if (const auto at = changed.array.is_set() ? dependents_.find(changed.array) : dependents_.end();
      at != dependents_.end()) {
    // An array may have thousands of dependents by element; only those of this element are affected.
    const auto is_meant = [&](const Dependency& dependency) {
      return dependency.job == changed.array && dependency.element.value_or(changed.array_index) == changed.array_index;
    };
    std::ranges::copy_if(at->second, std::inserter(waiting, waiting.end()), [&](JobId id) {
      const JobRecord* record = jobs_.Find(id);
      return record == nullptr || std::ranges::any_of(record->dependencies, is_meant);
    });
  }
  if (!singletons_.empty()) {
    if (const auto at = singletons_.find(SingletonKey(changed)); at != singletons_.end()) collect(at->second);
  }
  // A job that was just submitted may itself have an impossible dependency.
  if (!changed.dependencies.empty()) waiting.insert(changed.id);
  return waiting;
}

Time DependencyTable::BeginAfter(const JobRecord& record, const JobRecord& changed) const {
  Time begin = record.begin;
  for (const Dependency& dependency : record.dependencies) {
    if (dependency.delay == Duration(0) || StatusOf(record, dependency) != DependencyStatus::kSatisfied) continue;
    const JobRecord* target = Target(dependency);
    if (target == nullptr) continue;
    Time started = target->started;
    if (changed.array == target->id) {
      started = std::max(started, changed.started);
    } else if (target->array_count > 0) {
      // The start times of elements that have ended are no longer known here.
      const auto last = jobs_.live().upper_bound(ElementId(target->id, target->array_count - 1));
      for (auto element = jobs_.live().upper_bound(target->id); element != last; ++element)
        started = std::max(started, element->second.started);
    }
    begin = std::max(begin, AddSaturating(started, dependency.delay));
  }
  return begin;
}

}  // namespace divvy
