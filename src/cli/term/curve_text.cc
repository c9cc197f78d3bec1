#include "cli/term/curve_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>

#include "cli/term/throttle_text.h"
#include "dialect/options/quantities.h"

namespace divvy::cli {
namespace {

constexpr int kEighths = 8;
constexpr std::array<std::string_view, kEighths + 1> kBlocks = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::string_view kAsciiSteps = " _.:-=+*#";

// The height of a value in eighths of a line, for `rows` lines.
int HeightOf(double value, const CurveFrame& frame) {
  const double span = frame.top - frame.bottom;
  const double part = span > 0 ? (value - frame.bottom) / span : 1;
  const auto most = static_cast<int>(frame.rows) * kEighths;
  return std::clamp(static_cast<int>(std::lround(part * most)), 1, most);
}

std::string Number(const char* format, double value, std::string_view unit) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text + std::string(unit);
}

}  // namespace

std::size_t Neighbours(std::size_t values, std::size_t most) {
  return std::max<std::size_t>((values + most - 1) / most, 1);
}

Values Joined(const Values& values, std::size_t neighbours) {
  Values out;
  for (std::size_t begin = 0; begin < values.size(); begin += neighbours) {
    double sum = 0;
    int count = 0;
    for (std::size_t i = begin; i < std::min(begin + neighbours, values.size()); ++i) {
      sum += values[i].value_or(0);
      count += values[i] ? 1 : 0;
    }
    out.push_back(count > 0 ? std::optional(sum / count) : std::nullopt);
  }
  return out;
}

std::vector<std::string> DrawCurve(const Values& values, const CurveFrame& frame) {
  std::vector<std::string> lines(frame.rows);
  for (const auto& value : values) {
    const int height = value && std::isfinite(*value) ? HeightOf(*value, frame) : 0;
    for (std::size_t row = 0; row < frame.rows; ++row) {
      const int below = static_cast<int>(frame.rows - 1 - row) * kEighths;
      const auto step = static_cast<std::size_t>(std::clamp(height - below, 0, kEighths));
      if (frame.is_ascii) lines[row] += kAsciiSteps[step];
      else lines[row] += kBlocks[step];
    }
  }
  return lines;
}

std::string Sparkline(const Values& values, double bottom, double top, bool is_ascii) {
  return DrawCurve(values, {bottom, top, 1, is_ascii}).front();
}

std::string MetricText(double value, std::string_view unit) {
  if (unit == "ratio") return Number("%.0f", value * 100, "%");
  if (unit == "bytes") return dialect::FormatSize(Bytes(std::llround(value)));
  if (unit == "bytes_per_second") return dialect::FormatSize(Bytes(std::llround(value))) + "/s";
  if (unit == "watts") return Number("%.0f", value, " W");
  if (unit == "celsius") return Number("%.0f", value, " C");
  if (unit == "hertz") return value >= 1e9 ? Number("%.2f", value / 1e9, " GHz") : Number("%.0f", value / 1e6, " MHz");
  if (unit == "cores") return Number("%.2f", value, "");
  if (unit == "bits") return ThrottleText(static_cast<std::uint64_t>(std::max(value, 0.0)));
  // Print whole numbers in full: steps are compared with those in the log.
  const bool is_whole = value == std::floor(value) && std::abs(value) < 1e9;
  return Number(is_whole ? "%.0f" : "%.4g", value, "");
}

}  // namespace divvy::cli
