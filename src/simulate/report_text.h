// Formats numbers and texts for reports.
#pragma once

#include <string>
#include <string_view>

namespace divvy::simulate {

/// "12.50"; never "-0.00", "nan" or "inf".
std::string Decimals(double value, int digits);
/// "24,171".
std::string Grouped(double value);
/// "48 s", "12.3 min", "4.6 h", "3.2 d".
std::string ShortSeconds(double seconds);
/// In quotes, escaped. Bytes that are not valid UTF-8 become '?'.
std::string JsonString(std::string_view text);
std::string HtmlText(std::string_view text);
/// In quotes if CSV requires them.
std::string CsvField(std::string_view text);

}  // namespace divvy::simulate
