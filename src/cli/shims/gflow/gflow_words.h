// Shared parts of gflow's programs: option tables, id lists, and calling divvy's own commands.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "dialect/options/options.h"

namespace divvy::cli {

using dialect::Keeps;
using dialect::Sets;

/// --config FILE, -v, -q: accepted by every gflow program, without effect here.
void AddGlobalOptions(std::vector<dialect::Option>& options);

/// The usage text, and one line per option that is not hidden.
std::string UsageText(std::string_view usage, const std::vector<dialect::Option>& options);

/// Splits "1-3,7" into "1-3" and "7", as a JobSelector expects ids. Refuses an empty list and empty parts.
Result<std::vector<std::string>> ParseIdList(std::string_view text);

/// Replaces this process with `divvy WORDS...`. Returns, with an exit code, only if that fails.
int BecomeDivvy(const std::vector<std::string>& words);
/// Runs `divvy WORDS...` and returns its exit code.
int RunDivvy(const std::vector<std::string>& words);

/// "HH:MM:SS", preceded by days if there are any, as gflow and vh print it.
std::string LongClock(double seconds);
/// Aligned columns with two blanks between them and none after the last.
std::string AlignRows(const std::vector<std::vector<std::string>>& rows);
std::string CsvRow(const std::vector<std::string>& cells, char separator = ',');

}  // namespace divvy::cli
