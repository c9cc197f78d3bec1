// The parts of vh that need neither a daemon nor files: table formats, verbs, execution ranges, and metadata in logs.
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

/// `rows[0]` has the titles. JSON is a list of objects with the titles as keys; whole numbers stay numbers.
std::string RenderVhTable(const std::vector<std::vector<std::string>>& rows, VhFormat format);

/// Finds the verb with this name, or the only one that begins with it, or the only one that contains it.
Result<std::string> ResolveVerb(std::string_view text, std::span<const std::string_view> verbs, std::string_view group);

/// Maps divvy's job states to Valohai's: queued, started, complete, error, ...
std::string_view VhStatusOf(std::string_view state);

/// Resolves "12", "#12", "1-5", "!3", "latest" to existing executions, in ascending order. Refuses a single number that
/// does not exist; a range selects what exists.
Result<std::vector<std::uint64_t>> ParseCounters(std::span<const std::string> words,
                                                 std::span<const std::uint64_t> existing);

/// The last value of every key in the lines that are JSON objects. Strings have no quotes; other values are as written.
std::map<std::string, std::string> LastMetadata(std::string_view log);
/// The members of one JSON object; empty if the text is not one. Values as in LastMetadata.
std::vector<std::pair<std::string, std::string>> FlatObject(std::string_view text);

}  // namespace divvy::cli
