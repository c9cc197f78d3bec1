#include "model/lease_note.h"

#include <cstdint>

#include "base/text.h"

namespace divvy {
namespace {

// Larger than any time since boot, and small enough that the sum of two such values does not overflow.
constexpr std::int64_t kMost = std::int64_t{1} << 61;
constexpr std::size_t kWords = 6;

// FNV-1a: detects a line that was partly overwritten.
std::string CheckOf(std::string_view text) {
  std::uint32_t hash = 2166136261U;
  for (const char byte : text) hash = (hash ^ static_cast<unsigned char>(byte)) * 16777619U;
  return std::to_string(hash);
}

std::optional<Duration> ParseDuration(std::string_view word, std::int64_t least) {
  const auto count = ParseInteger(word);
  if (!count || *count < least || *count > kMost) return std::nullopt;
  return Duration(*count);
}

}  // namespace

std::string LeaseNoteText(const LeaseNote& note) {
  std::string text = note.boot_id + " " + std::to_string(note.renewed.count()) + " " +
                     std::to_string(note.terms.lease.count()) + " " + std::to_string(note.terms.heartbeat.count()) +
                     (note.terms.stops_jobs ? " stops" : " stays");
  text += " " + CheckOf(text);
  return text + "\n";
}

std::optional<LeaseNote> ParseLeaseNote(std::string_view text) {
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view line = text.substr(0, end);
  const auto words = SplitWords(line);
  if (words.size() != kWords || (words[4] != "stops" && words[4] != "stays")) return std::nullopt;
  if (words[5] != CheckOf(line.substr(0, line.rfind(' ')))) return std::nullopt;
  const auto renewed = ParseDuration(words[1], 0), lease = ParseDuration(words[2], 1),
             heartbeat = ParseDuration(words[3], 1);
  if (!renewed || !lease || !heartbeat) return std::nullopt;
  return LeaseNote{std::string(words[0]), *renewed, {*heartbeat, *lease, words[4] == "stops"}};
}

}  // namespace divvy
