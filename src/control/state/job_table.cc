#include "control/state/job_table.h"

#include <algorithm>

#include "control/books/record_parts.h"

namespace divvy {
namespace {

/// Larger ids in records are ignored: no installation submits so many jobs.
constexpr std::uint64_t kLargestId = std::uint64_t{1} << 48;

}  // namespace

const JobRecord* JobTable::Find(JobId id) const {
  const auto at = live_.find(id);
  return at == live_.end() ? nullptr : &at->second;
}

const JobRecord* JobTable::ArrayOf(JobId id) const {
  auto at = live_.upper_bound(id);
  // Elements with records of their own may lie between the array and the id, so step back over them.
  while (at != live_.begin()) {
    --at;
    const JobRecord& record = at->second;
    if (record.array_count > 0) {
      const bool is_inside = id > record.id && id.value() <= record.id.value() + record.array_count;
      return is_inside && record.array_waiting.Contains(static_cast<std::uint32_t>(id.value() - record.id.value() - 1))
                 ? &record
                 : nullptr;
    }
    if (!record.array.is_set()) return nullptr;
  }
  return nullptr;
}

JobRecord JobTable::NewElement(const JobRecord& array, std::uint32_t ordinal) const {
  JobRecord element = ElementOf(array, ordinal);
  if (name_of_ && array.name.find('{') != std::string::npos) element.name = name_of_(element);
  return element;
}

std::vector<JobId> JobTable::ElementsOf(const JobRecord& array) const {
  std::vector<JobId> elements;
  const std::uint64_t last = array.id.value() + array.array_count;
  for (auto at = live_.upper_bound(array.id); at != live_.end() && at->first.value() <= last; ++at)
    elements.push_back(at->first);
  return elements;
}

JobId JobTable::TakeIds(std::uint64_t elements) {
  const JobId id(ids_.next);
  ids_.next += 1 + elements;
  ids_.jobs_total += std::max<std::uint64_t>(elements, 1);
  return id;
}

bool JobTable::ReserveIds(std::uint64_t next_id) {
  if (next_id <= ids_.next || next_id > kLargestId) return false;
  ids_.next = next_id;
  return true;
}

}  // namespace divvy
