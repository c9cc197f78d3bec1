// Metrics that a job reports in a line of its output: {"step": 10, "loss": 0.3}. The daemon and the command that
// forwards the output both parse it with this code.
#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace divvy::wire {

inline constexpr std::size_t kMostOwnLine = std::size_t{16} << 10;  // In bytes. A longer line is ignored.
inline constexpr std::size_t kMostOwnName = 64;                     // In bytes.
inline constexpr std::size_t kMostOwnNames = 64;                    // Per line.
inline constexpr std::size_t kMostOwnLines = 50;                    // Per job and second; the last ones count.

/// The greatest value of a job's own metric: values are stored as 32-bit floats.
inline constexpr double kGreatestOwnNumber = std::numeric_limits<float>::max();

/// Pairs of name and value; the newest value of each name.
using OwnNumbers = std::vector<std::pair<std::string, double>>;

/// Whether `name` is a valid metric name: not empty, not too long, no control characters.
bool IsOwnName(std::string_view name);
/// Whether `value` is neither NaN nor beyond kGreatestOwnNumber.
bool IsOwnNumber(double value);
/// Sets the value of `name` in `numbers`: adds the pair, or replaces the previous value.
void KeepNewest(OwnNumbers& numbers, std::string_view name, double value);
/// Returns the metrics in one line of a job's output. Empty if the line is not a JSON object. NaN, Infinity and
/// -Infinity (which Python writes), numbers beyond kGreatestOwnNumber and null count as missing; the rest of the line
/// is used. With `keeps_missing`, such values are returned as NaN.
OwnNumbers NumbersOfLine(std::string_view line, bool keeps_missing = false);

}  // namespace divvy::wire
