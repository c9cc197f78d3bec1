// What a job says of itself in a line of its output: {"step": 10, "loss": 0.3}. Whoever reads the output, the daemon or
// the command that carries it, reads it so.
#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace divvy::wire {

inline constexpr std::size_t kMostOwnLine = std::size_t{16} << 10;  // Bytes; a longer line is none.
inline constexpr std::size_t kMostOwnName = 64;                     // Bytes of a name.
inline constexpr std::size_t kMostOwnNames = 64;                    // In one line.
inline constexpr std::size_t kMostOwnLines = 50;                    // Of a job in a second; the last ones count.

/// They are kept as 32-bit floats.
inline constexpr double kGreatestOwnNumber = std::numeric_limits<float>::max();

/// Name and value; the newest of each name.
using OwnNumbers = std::vector<std::pair<std::string, double>>;

/// Whether a metric may be called so: not empty, not too long, no control characters.
bool IsOwnName(std::string_view name);
/// Neither NaN nor beyond kGreatestOwnNumber.
bool IsOwnNumber(double value);
/// Puts it there, or in the place of what was there under its name.
void KeepNewest(OwnNumbers& numbers, std::string_view name, double value);
/// The numbers of one line; none where it is no JSON object. NaN, Infinity and -Infinity, as Python writes what is no
/// number, and numbers beyond kGreatestOwnNumber are missing values: the rest of the line counts.
OwnNumbers NumbersOfLine(std::string_view line);

}  // namespace divvy::wire
