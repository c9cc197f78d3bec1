// The SQL for a HistoryFilter, for every database.
#pragma once

#include <string>
#include <vector>

#include "store/store.h"

namespace divvy {

/// A query for the columns of RowColumns() (store/row.h). Texts from users are parameters; numbers are written into the
/// SQL.
struct HistoryQuery {
  std::string sql;
  std::vector<std::string> texts;  // The values of ?1, ?2, ...
};

HistoryQuery QueryFor(const HistoryFilter& filter);

}  // namespace divvy
