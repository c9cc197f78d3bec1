// What gflow's programs have in common: option tables of their own, id lists, the way to divvy's own commands.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "dialect/options/options.h"

namespace divvy::cli {

/// Sets a flag, or keeps the value.
dialect::Apply Sets(bool& flag);
dialect::Apply Keeps(std::string& value);

/// --config FILE, -v, -q, which every gflow program takes and which change nothing here.
void AddGlobalOptions(std::vector<dialect::Option>& options);

/// Usage and one line for each option that is not hidden.
std::string UsageText(std::string_view usage, const std::vector<dialect::Option>& options);

/// "1-3,7" -> "1-3", "7": what a JobSelector takes. Refuses an empty list and empty parts.
Result<std::vector<std::string>> ParseIdList(std::string_view text);

/// Replaces this process by `divvy WORDS...`; comes back only to say why it could not.
int BecomeDivvy(const std::vector<std::string>& words);
/// Runs `divvy WORDS...` and gives its exit code.
int RunDivvy(const std::vector<std::string>& words);

/// "HH:MM:SS", with days in front when there are any: gflow's and vh's clock.
std::string LongClock(double seconds);
/// Columns aligned with two blanks between them, nothing after the last.
std::string AlignRows(const std::vector<std::vector<std::string>>& rows);
std::string CsvRow(const std::vector<std::string>& cells, char separator = ',');

}  // namespace divvy::cli
