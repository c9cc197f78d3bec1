#include "samples/sample.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/text.h"

namespace divvy::samples {
namespace {

constexpr std::array<std::string_view, 6> kNames = {"gpu", "slice", "node", "job", "cluster", "team"};

// Removes a number and the slash after it from the front.
std::optional<std::int64_t> TakeNumber(std::string_view& text) {
  const auto slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const auto number = ParseInteger(text.substr(0, slash));
  text.remove_prefix(slash + 1);
  return number;
}

bool FitsInt(std::int64_t number) { return number >= 0 && number <= std::numeric_limits<int>::max(); }

float Bits(float a, float b) {
  return static_cast<float>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}

}  // namespace

std::string_view Name(Of of) { return kNames[static_cast<std::size_t>(of)]; }

std::optional<Of> OfByName(std::string_view name) {
  const auto at = std::ranges::find(kNames, name);
  if (at == kNames.end()) return std::nullopt;
  return static_cast<Of>(at - kNames.begin());
}

std::string ToText(const Subject& subject) {
  std::string text(Name(subject.of));
  if (subject.of == Of::kCluster) return text;
  if (subject.of == Of::kGpu || subject.of == Of::kSlice) text += "/" + std::to_string(subject.gpu);
  if (subject.of == Of::kSlice) text += "/" + std::to_string(subject.instance);
  if (subject.of == Of::kJob) text += "/" + std::to_string(subject.job);
  return text + "/" + subject.node;
}

std::optional<Subject> SubjectFromText(std::string_view text) {
  const auto slash = text.find('/');
  const auto of = OfByName(text.substr(0, slash));
  if (!of) return std::nullopt;
  Subject subject;
  subject.of = *of;
  if ((slash == std::string_view::npos) != (*of == Of::kCluster)) return std::nullopt;
  if (*of == Of::kCluster) return subject;
  text.remove_prefix(slash + 1);
  if (*of == Of::kGpu || *of == Of::kSlice) {
    const auto gpu = TakeNumber(text);
    if (!gpu || !FitsInt(*gpu)) return std::nullopt;
    subject.gpu = static_cast<int>(*gpu);
  }
  if (*of == Of::kSlice) {
    const auto instance = TakeNumber(text);
    if (!instance || !FitsInt(*instance)) return std::nullopt;
    subject.instance = static_cast<int>(*instance);
  }
  if (*of == Of::kJob) {
    const auto job = TakeNumber(text);
    if (!job || *job <= 0) return std::nullopt;
    subject.job = static_cast<std::uint64_t>(*job);
  }
  subject.node = std::string(text);
  return subject;
}

Point NoPoint() {
  constexpr float kNothing = std::numeric_limits<float>::quiet_NaN();
  return {kNothing, kNothing, kNothing};
}

bool IsPoint(const Point& point) { return !std::isnan(point.mean); }

Point FoldPoints(Fold fold, const Point& a, double a_weight, const Point& b, double b_weight) {
  if (!IsPoint(a)) return b;
  if (!IsPoint(b)) return a;
  if (fold == Fold::kBits) {
    const float bits = Bits(a.greatest, b.greatest);
    return {bits, bits, bits};
  }
  if (fold == Fold::kLast) return b;
  const double mean =
      (static_cast<double>(a.mean) * a_weight + static_cast<double>(b.mean) * b_weight) / (a_weight + b_weight);
  return {static_cast<float>(mean), std::min(a.least, b.least), std::max(a.greatest, b.greatest)};
}

}  // namespace divvy::samples
