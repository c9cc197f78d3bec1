#include "platform/net/audit_chain.h"

#include <fstream>

#include "platform/net/tls.h"

namespace divvy {
namespace {

constexpr std::string_view kMember = ",\"chain\":\"";
constexpr std::size_t kHashLength = 64;
constexpr std::size_t kTail = kMember.size() + kHashLength + 2;  // Includes the closing `"}`.

/// Returns the object without its hash.
std::string ObjectOf(std::string_view line) { return std::string(line.substr(0, line.size() - kTail)) + "}"; }

}  // namespace

std::string ChainedLine(std::string_view object, std::string_view before) {
  return std::string(object.substr(0, object.size() - 1)) + std::string(kMember) +
         Sha256Hex(std::string(before) + std::string(object)) + "\"}";
}

std::optional<std::string> ChainOf(std::string_view line) {
  const bool has_room = line.size() > kTail && line.ends_with("\"}");
  if (!has_room || line.substr(line.size() - kTail, kMember.size()) != kMember) return std::nullopt;
  return std::string(line.substr(line.size() - kHashLength - 2, kHashLength));
}

Result<AuditChain> VerifyAuditLog(const std::string& path, std::string_view known) {
  AuditChain chain;
  bool is_known = known.empty();
  for (int age = kOldAuditLogs; age >= 0; --age) {
    const std::string file = age == 0 ? path : path + "." + std::to_string(age);
    std::ifstream lines(file);
    if (!lines && file == path) return NotFound("there is no readable audit log " + path);
    if (age == kOldAuditLogs) chain.is_full = lines.is_open();
    std::uint64_t number = 0;
    for (std::string line; std::getline(lines, line);) {
      ++number;
      const auto hash = ChainOf(line);
      if (!hash && chain.lines == 0) {
        ++chain.unchained;
        continue;
      }
      // After two rotations the hash of the first line was computed with a line that no longer exists.
      const bool is_first = chain.lines == 0 && chain.unchained == 0;
      const bool is_good = hash && ChainedLine(ObjectOf(line), chain.newest) == line;
      if (!is_good && !(is_first && hash)) {
        return CorruptData(
            file + ", line " + std::to_string(number) +
            ": the line is not the original one; it was changed or moved, or an earlier line was removed");
      }
      chain.has_older |= !is_good;
      chain.newest = *hash;
      ++chain.lines;
      is_known |= chain.newest == known;
    }
  }
  if (!is_known) return NotFound("no line of " + path + " has the hash " + std::string(known) + "; lines were removed");
  return chain;
}

}  // namespace divvy
