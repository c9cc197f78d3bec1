#include "daemon/views/label_cache.h"

#include <algorithm>

#include "base/text.h"
#include "engine/pool_row.h"

namespace divvy {
namespace {

// About 100 bytes each.
constexpr std::size_t kMostRemembered = 200'000;

bool IsOneOf(const std::vector<std::string>& wanted, const std::string& value) {
  return wanted.empty() || std::ranges::find(wanted, value) != wanted.end();
}

/// Returns true if any of the job's pools is wanted, including those of its components. A job that waits for several
/// pools is in each of them.
bool IsInOneOf(const std::vector<std::string>& wanted, const JobRecord& record, const SpecLabels& labels) {
  if (wanted.empty()) return true;
  const auto is_wanted = [&](const std::string& pools) {
    if (pools.find(',') == std::string::npos) return IsOneOf(wanted, pools);
    return std::ranges::any_of(PoolsIn(pools), [&](const std::string& pool) { return IsOneOf(wanted, pool); });
  };
  return is_wanted(PoolOf(record, labels)) || std::ranges::any_of(record.request.others, [&](const Component& one) {
           return !one.pool.empty() && is_wanted(one.pool);
         });
}

}  // namespace

LabelCache::Shared LabelCache::Share(const SpecLabels& labels) {
  if (last_ == nullptr || *last_ != labels) last_ = std::make_shared<const SpecLabels>(labels);
  return last_;
}

void LabelCache::Learn(JobId id, const SpecLabels& labels) {
  const std::lock_guard lock(mutex_);
  if (!all_known_from_) all_known_from_ = id;
  if (labels == SpecLabels()) return;
  learned_.insert_or_assign(id, Share(labels));
  if (learned_.size() <= kMostRemembered) return;
  const auto middle = std::next(learned_.begin(), static_cast<std::ptrdiff_t>(kMostRemembered / 2));
  learned_.erase(learned_.begin(), middle);
  all_known_from_ = learned_.begin()->first;
}

void LabelCache::Replace(JobId id, const SpecLabels& labels) {
  const std::lock_guard lock(mutex_);
  const bool is_known_without = all_known_from_ && id >= *all_known_from_;
  if (is_known_without && labels == SpecLabels()) {
    learned_.erase(id);
  } else {
    (is_known_without ? learned_ : read_).insert_or_assign(id, Share(labels));
  }
}

void LabelCache::Inherit(const LabelCache& before) {
  const std::scoped_lock lock(mutex_, before.mutex_);
  read_.insert(before.read_.begin(), before.read_.end());
}

std::optional<SpecLabels> LabelCache::Known(JobId spec_of) const {
  const std::lock_guard lock(mutex_);
  if (all_known_from_ && spec_of >= *all_known_from_) {
    const auto known = learned_.find(spec_of);
    return known == learned_.end() ? SpecLabels() : *known->second;
  }
  const auto known = read_.find(spec_of);
  return known == read_.end() ? std::nullopt : std::optional(*known->second);
}

SpecLabels LabelCache::Remember(JobId spec_of, const SpecLabels& labels) {
  const std::lock_guard lock(mutex_);
  if (read_.size() >= kMostRemembered) read_.clear();
  // An existing entry wins: it may be a change that came after the store was read.
  return *read_.emplace(spec_of, Share(labels)).first->second;
}

SpecLabels LabelCache::Of(const JobRecord& record) {
  if (const auto known = Known(record.spec_of)) return *known;
  const auto spec = driver_.SpecOf(record);
  return spec ? Remember(record.spec_of, LabelsOf(**spec)) : SpecLabels();
}

SpecLabels LabelCache::OfStored(const JobRecord& record, Store& store) {
  if (const auto known = Known(record.spec_of)) return *known;
  const auto spec = store.Spec(record.spec_of);
  return spec ? Remember(record.spec_of, LabelsOf(*spec)) : SpecLabels();
}

std::vector<JobId> LabelCache::UnknownAmong(const std::map<JobId, JobRecord>& jobs) const {
  std::vector<JobId> unknown;
  for (const auto& [id, record] : jobs) {
    // An array's elements follow it and share its specification.
    if (!Known(record.spec_of) && (unknown.empty() || unknown.back() != record.spec_of))
      unknown.push_back(record.spec_of);
  }
  return unknown;
}

void LabelCache::Read(const std::vector<JobId>& specs, Store& store) {
  for (const JobId id : specs) {
    if (Known(id)) continue;
    if (const auto spec = store.Spec(id)) Remember(id, LabelsOf(*spec));
  }
}

bool LabelCache::Passes(const JobRecord& record, const wire::JobSelector& select) {
  if (select.pools.empty() && select.accounts.empty() && select.qos.empty()) return true;
  return Passes(record, Of(record), select);
}

bool LabelCache::Passes(const JobRecord& record, const SpecLabels& labels, const wire::JobSelector& select) {
  // Slurm's commands change accounts to lower case when a job is submitted, but not when jobs are listed.
  const bool is_account = select.accounts.empty() || std::ranges::any_of(select.accounts, [&](const std::string& one) {
                            return EqualsIgnoringCase(one, labels.account);
                          });
  return IsInOneOf(select.pools, record, labels) && is_account && IsOneOf(select.qos, labels.qos);
}

}  // namespace divvy
