#include "cli/shims/slurm_look/slurm_fetch.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "base/index_ranges.h"
#include "cli/shims/slurm_look/slurm_view.h"

namespace divvy::cli::slurm {
namespace {

Result<std::vector<wire::JobView>> ElementsOf(Api& api, const wire::JobView& array, const wire::JobSelector& select) {
  wire::JobSelector elements;
  elements.user = "all";
  elements.array = array.id;
  elements.includes_final = true;
  elements.pools = select.pools;
  elements.accounts = select.accounts;
  elements.qos = select.qos;
  return api.Jobs(elements);
}

/// A cancelled array as a line for the elements that never began; nullopt if all have begun.
std::optional<wire::JobView> NeverBegun(Api& api, wire::JobView array) {
  const auto detail = api.Job(ToString(array.id));
  if (!detail) return std::nullopt;
  const std::string written = LabelOf(*detail, "array", "");
  auto indices = IndexRanges::Parse(std::string_view(written).substr(0, written.find('%')), "--array");
  // Not a Slurm array, so show it under its own id.
  if (!indices) return array;
  const auto elements = ElementsOf(api, array, {});
  if (!elements) return array;
  std::set<std::uint32_t> begun;
  for (const wire::JobView& element : *elements) {
    if (element.array_index) begun.insert(static_cast<std::uint32_t>(*element.array_index));
  }
  IndexRanges rest;
  for (const auto& range : indices->ranges()) {
    for (std::uint32_t index = range.first; index <= range.last; ++index) {
      if (!begun.contains(index)) rest.Insert(index);
    }
  }
  if (rest.empty()) return std::nullopt;
  array.array_indices = rest.ToString();
  array.display_id = ToString(array.id) + "_[" + array.array_indices + "]";
  array.start_time.reset();
  array.exit_code.reset();
  array.signal.reset();
  return array;
}

/// Removes arrays whose elements have all begun.
std::vector<wire::JobView> WithoutEmptyArrays(Api& api, std::vector<wire::JobView> jobs) {
  std::vector<wire::JobView> kept;
  for (wire::JobView& job : jobs) {
    const bool has_waiting = !job.array_indices.empty();
    if (!IsWholeArray(job) || has_waiting) {
      kept.push_back(std::move(job));
    } else if (job.state == "cancelled") {
      if (auto rest = NeverBegun(api, std::move(job))) kept.push_back(*std::move(rest));
    }
  }
  return kept;
}

}  // namespace

bool IsWholeArray(const wire::JobView& job) {
  return !job.array_index && (job.count != 1 || !job.array_indices.empty());
}

Result<std::vector<wire::JobView>> FetchJobs(Api& api, const wire::JobSelector& select) {
  if (select.ids.empty()) {
    DIVVY_TRY(std::vector<wire::JobView> jobs, api.Jobs(select));
    return WithoutEmptyArrays(api, std::move(jobs));
  }
  std::vector<wire::JobView> found;
  for (const std::string& id : select.ids) {
    wire::JobSelector one = select;
    one.ids = {id};
    one.states.clear();
    one.includes_final = true;
    auto some = api.Jobs(one);
    if (!some && (some.error().code != ErrorCode::kNotFound || select.ids.size() == 1)) return some;
    if (!some) continue;
    for (const wire::JobView& job : *some) {
      if (!IsWholeArray(job)) continue;
      DIVVY_TRY(std::vector<wire::JobView> elements, ElementsOf(api, job, select));
      std::ranges::move(elements, std::back_inserter(found));
    }
    std::ranges::move(*some, std::back_inserter(found));
  }
  std::ranges::stable_sort(found, {}, &wire::JobView::id);
  const auto twice = std::ranges::unique(found, {}, &wire::JobView::id);
  found.erase(twice.begin(), twice.end());
  return WithoutEmptyArrays(api, std::move(found));
}

}  // namespace divvy::cli::slurm
