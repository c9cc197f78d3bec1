// The parts of vh that need neither a daemon nor a file: table formats, verbs, ranges of executions, metadata in a log.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace divvy::cli {

enum class VhFormat { kHuman, kCsv, kTsv, kScsv, kPsv, kJson };
Result<VhFormat> ParseVhFormat(std::string_view text);

/// `rows[0]` are the titles. JSON is a list of objects with the titles as keys; a cell that is a whole number stays
/// one.
std::string RenderVhTable(const std::vector<std::vector<std::string>>& rows, VhFormat format);

/// The verb with this name, or the only one that begins with it, or the only one that holds it.
Result<std::string> ResolveVerb(std::string_view text, std::span<const std::string_view> verbs, std::string_view group);

/// divvy's job states in Valohai's words: queued, started, complete, error, ...
std::string_view VhStatusOf(std::string_view state);

/// "12", "#12", "1-5", "!3", "latest": the executions meant, ascending, of those that there are. A single number that
/// does not exist is refused; a range takes what exists.
Result<std::vector<std::uint64_t>> ParseCounters(std::span<const std::string> words,
                                                 std::span<const std::uint64_t> existing);

/// The last value of every key over the lines that are JSON objects. Strings come without quotes, the rest as written.
std::map<std::string, std::string> LastMetadata(std::string_view log);
/// The members of one JSON object; nothing when the text is none. Values as in LastMetadata.
std::vector<std::pair<std::string, std::string>> FlatObject(std::string_view text);

}  // namespace divvy::cli
