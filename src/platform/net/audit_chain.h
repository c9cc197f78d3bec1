// The hash chain of the audit log. Each line ends with a hash over itself and the previous line, so that changed,
// removed or moved lines are detected. Anyone who can write the file can also compute a new chain, or remove lines at
// the end. To detect that too, keep the newest hash elsewhere (`divvy audit verify HASH`).
//
// A line is a JSON object whose last member is "chain". Lines from releases without a chain may precede the first line
// that has one. The chain continues from the rotated logs (FILE.8, the oldest, to FILE.1) to the current one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace divvy {

/// Rotated logs that are kept.
inline constexpr int kOldAuditLogs = 8;

/// Returns `object` (a JSON object with at least one member) with its hash added. `before`: the hash of the previous
/// line; "" if there is none.
std::string ChainedLine(std::string_view object, std::string_view before);
/// Returns the hash of a line, or nullopt if it has none.
std::optional<std::string> ChainOf(std::string_view line);

struct AuditChain {
  std::uint64_t lines = 0;      // Number of lines with a hash.
  std::uint64_t unchained = 0;  // Number of lines before them without one.
  bool has_older = false;       // The first line continues a log that is gone; checks begin after it.
  std::string newest;           // Hash of the last line.
};
/// Reads the rotated logs that exist, and FILE. Errors: kCorruptData names the file and the number of the first line
/// that differs from what was written. kNotFound: there is no log, or no line has the hash `known` (ignored if empty).
/// Cost: one pass over the files.
Result<AuditChain> VerifyAuditLog(const std::string& path, std::string_view known);

}  // namespace divvy
