#include "store/history_query.h"

#include <algorithm>

#include "store/row.h"

namespace divvy {
namespace {

std::string NumberText(JobId id) { return std::to_string(static_cast<std::int64_t>(id.value())); }

void AddEquals(HistoryQuery& query, const char* column, const std::string& value) {
  if (value.empty()) return;
  query.texts.push_back(value);
  query.sql += std::string(" AND ") + column + " = ?" + std::to_string(query.texts.size());
}

void AddStates(HistoryQuery& query, const std::vector<JobState>& states) {
  std::string list;
  for (const JobState state : states) list += (list.empty() ? "" : ", ") + std::to_string(static_cast<int>(state));
  query.sql += " AND state IN (" + list + ")";
  // SQLite uses a partial index only if the query repeats its condition literally.
  if (std::ranges::none_of(states, IsFinal)) query.sql += " AND state < 6";
}

void AddSince(HistoryQuery& query, Time since) {
  const std::string at = std::to_string(since.time_since_epoch().count());
  query.sql += " AND ((state >= 6 AND ended >= " + at + ") OR (state >= 6 AND ended = 0 AND submitted >= " + at +
               ") OR (state < 6 AND CASE WHEN ended > 0 THEN ended ELSE submitted END >= " + at + "))";
}

}  // namespace

HistoryQuery QueryFor(const HistoryFilter& filter) {
  HistoryQuery query{"SELECT " + RowColumns() + " FROM jobs WHERE TRUE", {}};
  AddEquals(query, "\"user\"", filter.user);
  AddEquals(query, "name", filter.name);
  AddEquals(query, "project", filter.project);
  AddEquals(query, "job_group", filter.group);
  if (!filter.states.empty()) AddStates(query, filter.states);
  if (filter.array) query.sql += " AND array_id > 0 AND array_id = " + NumberText(*filter.array);
  if (filter.ids) {
    query.sql += " AND id BETWEEN " + NumberText(filter.ids->first) + " AND " + NumberText(filter.ids->second) +
                 " AND array_id = 0";
  }
  if (filter.since != kNoTime) AddSince(query, filter.since);
  query.sql += " ORDER BY id DESC";
  if (filter.limit > 0) query.sql += " LIMIT " + std::to_string(std::min<std::uint64_t>(filter.limit, INT64_MAX));
  return query;
}

}  // namespace divvy
