#include "daemon/views/job_selector.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "base/text.h"

namespace divvy {
namespace {

// A range such as 1-999999 selects the jobs that exist; a longer one is a typing error.
constexpr std::int64_t kRangeMost = 1'000'000;

Result<JobId> Latest(ControllerDriver& driver, std::uint64_t back, const Caller& caller) {
  // The last jobs may not be in the store yet. Ids grow, so live jobs are searched first.
  std::uint64_t skipped = 0;
  const auto& live = driver.controller().live();
  std::set<JobId> mine;
  for (auto at = live.rbegin(); at != live.rend() && mine.size() <= back; ++at) {
    if (at->second.user.uid == caller.user.uid && !at->second.array.is_set()) mine.insert(at->first);
  }
  for (std::uint64_t i = 0; i <= back + mine.size(); ++i) {
    const auto stored = driver.store().LastOf(caller.user.uid, i);
    if (!stored || !*stored) break;
    mine.insert(**stored);
  }
  for (auto at = mine.rbegin(); at != mine.rend(); ++at) {
    if (skipped++ == back) return *at;
  }
  return NotFound(back == 0 ? "'@' is your last job, but you have no jobs"
                            : "'@~" + std::to_string(back) + "': you have no more than " +
                                  Plural(static_cast<std::int64_t>(mine.size()), "job"));
}

Result<JobId> ElementOf(const JobRecord& record, std::int64_t index, const std::string& word) {
  const JobId array = record.id;
  if (record.array_count == 0) return NotFound("'" + word + "': job " + ToString(array) + " is not an array");
  if (record.array_indices.empty()) {
    if (index >= 0 && index < record.array_count) return ElementId(array, static_cast<std::uint32_t>(index));
  } else if (index >= 0 && index <= record.array_indices.back()) {
    std::uint32_t before = 0;
    for (const auto& range : record.array_indices.ranges()) {
      if (index < range.first) break;
      if (index <= range.last) return ElementId(array, before + static_cast<std::uint32_t>(index) - range.first);
      before += range.last - range.first + 1;
    }
  }
  return NotFound("'" + word + "': the array " + ToString(array) + " has no element " + std::to_string(index));
}

bool IsNumber(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
}

std::optional<JobId> ToId(std::string_view text) {
  if (!IsNumber(text)) return std::nullopt;
  const auto number = ParseInteger(text);
  if (!number || *number <= 0) return std::nullopt;
  return JobId(static_cast<std::uint64_t>(*number));
}

bool IsRange(std::string_view word) {
  const auto dash = word.find('-');
  return dash != std::string_view::npos && IsNumber(word.substr(0, dash)) && IsNumber(word.substr(dash + 1));
}

std::optional<std::pair<JobId, JobId>> RangeOf(std::string_view word) {
  if (!IsRange(word)) return std::nullopt;
  const auto dash = word.find('-');
  const auto first = ParseInteger(word.substr(0, dash)), last = ParseInteger(word.substr(dash + 1));
  if (!first || !last || *last < *first || *last - *first > kRangeMost) return std::nullopt;
  return std::pair(JobId(static_cast<std::uint64_t>(*first)), JobId(static_cast<std::uint64_t>(*last)));
}

/// "17+1" selects the whole job, if it has such a component.
Result<JobId> JobOfComponent(ControllerDriver& driver, const std::string& word) {
  const auto plus = word.find('+');
  const auto id = ToId(std::string_view(word).substr(0, plus));
  const auto number = ParseInteger(std::string_view(word).substr(plus + 1));
  if (!id || !number || *number < 0) return InvalidArgument("'" + word + "': write a component as 17+1");
  DIVVY_TRY(const JobRecord record, driver.FindJob(*id));
  const bool has_it =
      record.request.is_heterogeneous() && static_cast<std::size_t>(*number) < record.request.components();
  if (!has_it) return NotFound("'" + word + "': job " + ToString(*id) + " has no component " + std::to_string(*number));
  return *id;
}

/// Each further component of a live job has an id of its own, behind the job's: returns the job of such an id, and any
/// other id as it is. An ended job may have an id there: older releases gave such ids to other jobs.
JobId JobOfOwnId(ControllerDriver& driver, JobId id) {
  const auto& live = driver.controller().live();
  auto at = live.upper_bound(id);
  if (at == live.begin()) return id;
  const auto& [before, record] = *--at;
  if (id == before || id.value() - before.value() >= record.request.components()) return id;
  const auto other = driver.FindJob(id);
  return !other && other.error().code == ErrorCode::kNotFound ? before : id;
}

Status AddElements(ControllerDriver& driver, std::string_view word, std::set<JobId>& ids) {
  const auto underscore = word.find('_');
  const auto array = ToId(word.substr(0, underscore));
  std::string_view inside = word.substr(underscore + 1);
  if (!array) return InvalidArgument("'" + std::string(word) + "': write an element as 17_3, or several as 17_[1-3,7]");
  if (inside.starts_with("[") && inside.ends_with("]")) inside = inside.substr(1, inside.size() - 2);
  DIVVY_TRY(const IndexRanges indices, IndexRanges::Parse(inside, "the elements of"));
  DIVVY_TRY(const JobRecord record, driver.FindJob(*array));
  for (const auto& range : indices.ranges()) {
    for (std::uint32_t index = range.first; index <= range.last; ++index) {
      DIVVY_TRY(const JobId id, ElementOf(record, index, std::string(word)));
      ids.insert(id);
    }
  }
  return {};
}

Status AddWord(ControllerDriver& driver, const std::string& word, const Caller& caller, std::set<JobId>& ids) {
  if (const auto underscore = word.find('_'); underscore != std::string::npos && IsNumber(word.substr(0, underscore)))
    return AddElements(driver, word, ids);
  if (IsRange(word)) {
    const auto range = RangeOf(word);
    if (!range) return InvalidArgument("'" + word + "' is not a range of ids; write 17-20");
    const auto& live = driver.controller().live();
    for (auto at = live.lower_bound(range->first); at != live.end() && at->first <= range->second; ++at) {
      if (!at->second.array.is_set()) ids.insert(at->first);
    }
    return {};
  }
  DIVVY_TRY(const JobId id, SelectOne(driver, word, caller));
  ids.insert(id);
  return {};
}

}  // namespace

std::vector<std::pair<JobId, JobId>> RangesOf(const std::vector<std::string>& words) {
  std::vector<std::pair<JobId, JobId>> ranges;
  for (const std::string& word : words) {
    if (const auto range = RangeOf(word)) ranges.push_back(*range);
  }
  return ranges;
}

Result<JobId> SelectOne(ControllerDriver& driver, const std::string& word, const Caller& caller) {
  if (const auto id = ToId(word)) return JobOfOwnId(driver, *id);
  if (const auto plus = word.find('+'); plus != std::string::npos && IsNumber(word.substr(0, plus)))
    return JobOfComponent(driver, word);
  if (word == "@") return Latest(driver, 0, caller);
  if (word.starts_with("@~")) {
    const auto back = ParseInteger(std::string_view(word).substr(2));
    if (!back || *back < 0 || *back > kRangeMost)
      return InvalidArgument("'" + word + "': write @~1 for the job before your last");
    return Latest(driver, static_cast<std::uint64_t>(*back), caller);
  }
  if (word.find('_') != std::string::npos && IsNumber(word.substr(0, word.find('_')))) {
    std::set<JobId> ids;
    DIVVY_CHECK(AddElements(driver, word, ids));
    if (ids.size() == 1) return *ids.begin();
    return InvalidArgument("'" + word + "' names " + Plural(static_cast<std::int64_t>(ids.size()), "job") +
                           "; name one");
  }
  const auto& live = driver.controller().live();
  for (auto at = live.rbegin(); at != live.rend(); ++at) {
    if (at->second.name == word && at->second.user.uid == caller.user.uid && !at->second.array.is_set())
      return at->first;
  }
  if (const auto named = driver.store().Named(word, caller.user.name); named && !named->empty()) return named->front();
  return NotFound(
      "there is no job '" + word +
      "' (give an id, an element 17_3, a component 17+1, @ for your last job, or the name of a job of yours)");
}

bool Passes(const JobRecord& record, const wire::JobSelector& select, const Caller& caller) {
  const std::string& user = select.user;
  // Words may name jobs of any user; whether the caller may act on them is checked later.
  const bool is_mine = user == "@me" || (user.empty() && select.ids.empty());
  if (is_mine) {
    if (record.user.uid != caller.user.uid) return false;
  } else if (!user.empty() && user != "all" && record.user.name != user) {
    return false;
  }
  if (select.array && (!record.array.is_set() || record.array != *select.array)) return false;
  if (!select.name.empty() && record.name != select.name) return false;
  if (!select.project.empty() && record.project != select.project) return false;
  if (!select.group.empty() && record.group != select.group) return false;
  return select.states.empty() || std::ranges::find(select.states, Name(record.state)) != select.states.end();
}

bool HasFilter(const wire::JobSelector& select) {
  return !select.name.empty() || !select.project.empty() || !select.group.empty() || !select.states.empty() ||
         !select.user.empty() || !select.pools.empty() || !select.accounts.empty() || !select.qos.empty() ||
         select.array.has_value();
}

Result<std::vector<JobId>> SelectIds(ControllerDriver& driver, LabelCache& labels, const wire::JobSelector& select,
                                     const Caller& caller) {
  std::set<JobId> ids;
  for (const std::string& word : select.ids) DIVVY_CHECK(AddWord(driver, word, caller, ids));
  if (!select.ids.empty() && HasFilter(select)) {
    std::erase_if(ids, [&](JobId id) {
      const auto record = driver.FindJob(id);  // A job that does not exist is reported by the action on it.
      return record && !(Passes(*record, select, caller) && labels.Passes(*record, select));
    });
  }
  if (select.ids.empty() && (select.is_all || HasFilter(select))) {
    for (const auto& [id, record] : driver.controller().live()) {
      const bool is_with_its_array = record.array.is_set() && select.states.empty();
      if (!is_with_its_array && Passes(record, select, caller) && labels.Passes(record, select)) ids.insert(id);
    }
  }
  return std::vector<JobId>(ids.begin(), ids.end());
}

}  // namespace divvy
