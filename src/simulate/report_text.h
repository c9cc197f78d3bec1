// Formats numbers and texts for reports.
#pragma once

#include <string>
#include <string_view>

namespace divvy::simulate {

/// Formats a number with this many digits after the point: "12.50"; never "-0.00", "nan" or "inf".
std::string Decimals(double value, int digits);
/// Formats a number as an integer with commas: "24,171".
std::string Grouped(double value);
/// Formats a duration in seconds: "48 s", "12.3 min", "4.6 h", "3.2 d".
std::string ShortSeconds(double seconds);
/// Formats a text as a JSON string, in quotes and escaped. Bytes that are not valid UTF-8 become '?'.
std::string JsonString(std::string_view text);
std::string HtmlText(std::string_view text);
/// Formats a text as a CSV field, in quotes if CSV requires them.
std::string CsvField(std::string_view text);

}  // namespace divvy::simulate
