// The hash chain of the audit log: each line ends with a hash of itself and of the line before, so that a line that was
// changed, removed or put elsewhere is found. Whoever can write the file can also make a new chain of it, and lines at
// the end can be removed: keep the newest hash elsewhere to find that as well (`divvy audit verify HASH`).
//
// A line is a JSON object whose last member is "chain". Lines of releases without a chain may come before the first one
// that has it. The chain goes on from the log that was turned over (FILE.1) to the next one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace divvy {

/// `object` (a JSON object with a member) with its hash behind `before`, the hash of the line before it; "" for none.
std::string ChainedLine(std::string_view object, std::string_view before);
/// The hash of a line; nothing where it has none.
std::optional<std::string> ChainOf(std::string_view line);

struct AuditChain {
  std::uint64_t lines = 0;      // With a hash.
  std::uint64_t unchained = 0;  // Before them.
  bool has_older = false;       // The first line goes on from a log that is gone: only what follows it is checked.
  std::string newest;           // Hash.
};
/// Reads the log FILE.1, where there is one, and FILE. kCorruptData names the file and the number of the first line
/// that is not what was written; kNotFound: no line has the hash `known` (unless it is empty). Cost: one pass over the
/// files.
Result<AuditChain> VerifyAuditLog(const std::string& path, std::string_view known);

}  // namespace divvy
