#include "store/store_fake.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <set>

#include "store/row.h"

namespace divvy {
namespace {

constexpr std::size_t kJobsPerFakePrune = 1'000;
constexpr std::size_t kFakeNamedAtMost = 100;

Error NoSuchFakeJob(JobId id) { return NotFound("there is no job " + ToString(id)); }

bool Matches(const HistoryFilter& filter, const JobRecord& record) {
  const auto is = [](const std::string& wanted, const std::string& value) { return wanted.empty() || wanted == value; };
  if (!is(filter.user, record.user.name) || !is(filter.name, record.name)) return false;
  if (!is(filter.project, record.project) || !is(filter.group, record.group)) return false;
  if (!filter.states.empty() && !std::ranges::count(filter.states, record.state)) return false;
  if (filter.array && (!record.array.is_set() || record.array != *filter.array)) return false;
  if (filter.ids && (record.array.is_set() || record.id < filter.ids->first || record.id > filter.ids->second))
    return false;
  return filter.since == kNoTime || (record.ended > kNoTime ? record.ended : record.submitted) >= filter.since;
}

void CopyRun(const JobRecord& run, JobRecord& record) {
  record.attempt = run.attempt;
  record.state = run.state;
  record.waits_since = run.waits_since;
  record.begin = run.begin;
  record.started = run.started;
  record.ended = run.ended;
  record.node = run.node;
  record.gang = run.gang;
  record.gpu_model = run.gpu_model;
  record.gpu_parts = run.gpu_parts;
  record.gpu_slice = run.gpu_slice;
  record.pool_of_run = run.pool_of_run;
  record.gpus = run.gpus;
}

}  // namespace

void MemoryStore::SetAway(bool is_away) {
  const std::lock_guard lock(mutex_);
  is_away_ = is_away;
}

void MemoryStore::FailNextCommit() {
  const std::lock_guard lock(mutex_);
  fails_next_commit_ = true;
}

std::uint64_t MemoryStore::commits() const {
  const std::lock_guard lock(mutex_);
  return commits_;
}

Status MemoryStore::Commit(const std::vector<Batch>& batches) {
  if (std::ranges::all_of(batches, &Batch::empty)) return {};
  const std::lock_guard lock(mutex_);
  if (std::exchange(fails_next_commit_, false)) {
    return LimitExceeded(
        "cannot write the memory store, the disk is full: nothing was saved; free space and try again");
  }
  DIVVY_CHECK(Check(batches));
  for (const Batch& batch : batches) Apply(batch);
  ++commits_;
  return {};
}

// Checks everything before changing anything, so that a failing commit leaves no trace.
Status MemoryStore::Check(const std::vector<Batch>& batches) const {
  std::set<JobId> added;
  const auto is_known = [&](JobId id) { return jobs_.contains(id) || added.contains(id); };
  for (const Batch& batch : batches) {
    for (const Batch::NewJob& job : batch.inserts) {
      if (is_known(job.record.id)) return Internal("job " + ToString(job.record.id) + " is already in the store");
      if (job.spec == nullptr && job.record.spec_of == job.record.id) {
        return Internal("job " + ToString(job.record.id) + " has no specification");
      }
      added.insert(job.record.id);
    }
    for (const JobRecord& record : batch.updates) {
      if (!is_known(record.id)) return Internal("job " + ToString(record.id) + " is not in the store");
    }
  }
  return {};
}

void MemoryStore::Apply(const Batch& batch) {
  for (const Batch::NewJob& job : batch.inserts) {
    jobs_[job.record.id] = job.record;
    if (job.spec != nullptr) specs_[job.record.id] = job.spec;
    jobs_total_ += static_cast<std::uint64_t>(JobsIn(job.record));
  }
  for (const JobRecord& record : batch.updates) jobs_[record.id] = record;
  for (const auto& [job, spec] : batch.spec_updates) specs_[job] = spec;
  history_.insert(history_.end(), batch.history.begin(), batch.history.end());
  past_runs_.insert(past_runs_.end(), batch.past_runs.begin(), batch.past_runs.end());
  for (const auto& [key, value] : batch.settings) {
    if (value.empty()) {
      settings_.erase(key);
    } else {
      settings_[key] = value;
    }
  }
  if (batch.next_id) next_id_ = *batch.next_id;
}

Result<Store::Loaded> MemoryStore::Load() {
  const std::lock_guard lock(mutex_);
  Loaded loaded;
  for (const auto& [id, record] : jobs_) {
    if (!IsFinal(record.state)) loaded.live.emplace_hint(loaded.live.end(), id, record);
  }
  loaded.settings.assign(settings_.begin(), settings_.end());
  loaded.next_id = next_id_;
  if (!jobs_.empty()) {
    const JobRecord& last = jobs_.rbegin()->second;
    loaded.next_id = std::max(next_id_, last.id.value() + last.array_count + 1);
  }
  loaded.jobs_total = jobs_total_;
  return loaded;
}

Result<bool> MemoryStore::PruneStep(Time finished_before) {
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<Time, JobId>> old;
  for (const auto& [id, record] : jobs_) {
    const bool is_old = IsFinal(record.state) && record.ended > kNoTime && record.ended < finished_before;
    if (is_old && (record.array_count == 0 || !HasElements(id))) old.emplace_back(record.ended, id);
  }
  std::ranges::sort(old);
  old.resize(std::min(old.size(), kJobsPerFakePrune));
  for (const auto& [ended, id] : old) {
    jobs_.erase(id);
    specs_.erase(id);
  }
  const auto is_forgotten = [&](const Batch::HistoryLine& line) {
    return line.job.is_set() ? !jobs_.contains(line.job) : line.at < finished_before;
  };
  std::erase_if(history_, is_forgotten);
  std::erase_if(past_runs_, [&](const JobRecord& run) { return !jobs_.contains(run.id); });
  return !old.empty();
}

Result<JobRecord> MemoryStore::Find(JobId id) {
  const std::lock_guard lock(mutex_);
  if (is_away_) return Unreachable("the database is away");
  const auto record = jobs_.find(id);
  if (record == jobs_.end()) return NoSuchFakeJob(id);
  return record->second;
}

Result<JobSpec> MemoryStore::Spec(JobId id) {
  const std::lock_guard lock(mutex_);
  if (is_away_) return Unreachable("the database is away");
  const auto record = jobs_.find(id);
  if (record == jobs_.end()) return NoSuchFakeJob(id);
  const auto spec = specs_.find(record->second.spec_of);
  if (spec == specs_.end()) return NoSuchFakeJob(id);
  return *spec->second;
}

Result<std::vector<JobRecord>> MemoryStore::History(const HistoryFilter& filter) {
  const std::lock_guard lock(mutex_);
  std::vector<JobRecord> records;
  for (auto entry = jobs_.rbegin(); entry != jobs_.rend(); ++entry) {
    if (filter.limit > 0 && records.size() == filter.limit) break;
    if (Matches(filter, entry->second)) records.push_back(entry->second);
  }
  return records;
}

Result<std::vector<Batch::HistoryLine>> MemoryStore::HistoryOf(JobId id) {
  const std::lock_guard lock(mutex_);
  std::vector<Batch::HistoryLine> lines;
  std::ranges::copy_if(history_, std::back_inserter(lines), [&](const auto& line) { return line.job == id; });
  return lines;
}

Result<std::vector<JobRecord>> MemoryStore::PastRuns(Time since, std::uint64_t limit) {
  const std::lock_guard lock(mutex_);
  std::vector<JobRecord> runs;
  for (const JobRecord& run : past_runs_) {
    const auto job = jobs_.find(run.id);
    if (run.ended < since || job == jobs_.end()) continue;
    // Fields that may differ between runs come from the run, the others from the job.
    JobRecord& record = runs.emplace_back(job->second);
    CopyRun(run, record);
  }
  std::ranges::stable_sort(runs, std::greater(), &JobRecord::ended);
  if (runs.size() > limit) runs.resize(static_cast<std::size_t>(limit));
  return runs;
}

Result<std::vector<Batch::HistoryLine>> MemoryStore::LatestHistory(std::uint64_t limit) {
  const std::lock_guard lock(mutex_);
  const auto count = static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(limit, history_.size()));
  return std::vector<Batch::HistoryLine>(history_.rbegin(), history_.rbegin() + count);
}

Result<std::optional<JobId>> MemoryStore::LastOf(std::int64_t uid, std::uint64_t back) {
  const std::lock_guard lock(mutex_);
  for (auto entry = jobs_.rbegin(); entry != jobs_.rend(); ++entry) {
    const JobRecord& record = entry->second;
    if (record.user.uid == uid && !record.array.is_set() && back-- == 0) return record.id;
  }
  return std::nullopt;
}

Result<std::vector<JobId>> MemoryStore::Named(const std::string& name, const std::string& user) {
  const std::lock_guard lock(mutex_);
  std::vector<JobId> ids;
  for (auto entry = jobs_.rbegin(); entry != jobs_.rend() && ids.size() < kFakeNamedAtMost; ++entry) {
    const JobRecord& record = entry->second;
    const bool is_meant = record.name == name && (user.empty() || record.user.name == user);
    if (is_meant && HasOwnName(record)) ids.push_back(record.id);
  }
  return ids;
}

bool MemoryStore::HasOwnName(const JobRecord& record) const {
  if (!record.array.is_set()) return true;
  const auto array = jobs_.find(record.array);
  return array == jobs_.end() || array->second.name != record.name;
}

// The ids after an array's own id belong to its elements.
bool MemoryStore::HasElements(JobId array) const {
  const auto next = jobs_.upper_bound(array);
  return next != jobs_.end() && next->second.array == array;
}

std::unique_ptr<MemoryStore> MakeMemoryStore() { return std::make_unique<MemoryStore>(); }

}  // namespace divvy
