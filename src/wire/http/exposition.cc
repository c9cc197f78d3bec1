#include "wire/http/exposition.h"

#include <charconv>
#include <cmath>
#include <optional>

#include "base/text.h"

namespace divvy::wire {
namespace {

// The shortest text that reads back the same. Both formats use "NaN", "+Inf" and "-Inf".
std::string NumberText(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  char text[40];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

// `quotes`: escapes double quotes, for label values. Help text does not need that (in Prometheus' format).
std::string Escaped(std::string_view text, bool quotes) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') out += "\\\\";
    else if (c == '\n') out += "\\n";
    else if (c == '"' && quotes) out += "\\\"";
    else out += c;
  }
  return out;
}

std::string_view KindText(Exposition::Kind kind, bool is_open) {
  switch (kind) {
    case Exposition::Kind::kGauge:
      return "gauge";
    case Exposition::Kind::kCounter:
      return "counter";
    case Exposition::Kind::kForeignCounter:
      return is_open ? "unknown" : "counter";
    case Exposition::Kind::kHistogram:
      return "histogram";
  }
  return "gauge";
}

}  // namespace

// Chooses the format with the higher weight in the Accept header (RFC 9110, 12.5.1), and OpenMetrics if both weights
// are equal. A wildcard names neither format, so it gets the default.
Exposed ExposedBy(std::string_view accept) {
  double open = 0;
  std::optional<double> plain;
  double any = 0;
  for (const std::string_view range : Split(accept, ',')) {
    const auto parts = Split(range, ';');
    double weight = 1;
    for (std::size_t i = 1; i < parts.size(); ++i) {
      const std::string_view part = Trim(parts[i]);
      if (part.starts_with("q=") || part.starts_with("Q=")) weight = ParseNumber(Trim(part.substr(2))).value_or(1);
    }
    const std::string type = ToLower(Trim(parts.front()));
    if (type == "application/openmetrics-text") open = std::max(open, weight);
    else if (type == "text/plain") plain = std::max(plain.value_or(0), weight);
    else if (type == "text/*" || type == "*/*") any = std::max(any, weight);
  }
  return open > 0 && open >= plain.value_or(any) ? Exposed::kOpenMetrics : Exposed::kPrometheus;
}

std::string_view ContentTypeOf(Exposed form) {
  return form == Exposed::kOpenMetrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                       : "text/plain; version=0.0.4; charset=utf-8";
}

void Exposition::Begin(std::string_view name, Kind kind, std::string_view unit, std::string_view help) {
  name_ = name;
  kind_ = kind;
  unit_ = unit;
  help_ = help;
  has_head_ = false;
}

void Exposition::WriteHead() {
  if (std::exchange(has_head_, true)) return;
  const bool is_open = form_ == Exposed::kOpenMetrics;
  // In Prometheus' format a counter family has the name of its samples.
  const std::string name = name_ + (kind_ == Kind::kCounter && !is_open ? "_total" : "");
  text_ += "# TYPE " + name + " ";
  text_ += KindText(kind_, is_open);
  text_ += "\n";
  if (is_open && !unit_.empty()) text_ += "# UNIT " + name + " " + unit_ + "\n";
  text_ += "# HELP " + name + " " + Escaped(help_, is_open) + "\n";
}

void Exposition::Write(std::string_view suffix, const Labels& labels, std::string_view bound, double value) {
  text_ += name_;
  text_ += suffix;
  char before = '{';
  const auto add = [&](std::string_view name, std::string_view text) {
    text_ += before;
    text_ += name;
    text_ += "=\"" + Escaped(text, true) + "\"";
    before = ',';
  };
  for (const auto& [name, text] : labels) add(name, text);
  if (!bound.empty()) add("le", bound);
  if (before == ',') text_ += '}';
  text_ += " " + NumberText(value) + "\n";
}

void Exposition::Add(const Labels& labels, double value) {
  WriteHead();
  Write(kind_ == Kind::kCounter ? "_total" : "", labels, "", value);
}

void Exposition::AddHistogram(const Labels& labels, std::span<const double> bounds,
                              std::span<const std::uint64_t> counts, double sum) {
  WriteHead();
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    count += counts[i];
    Write("_bucket", labels, i < bounds.size() ? NumberText(bounds[i]) : "+Inf", static_cast<double>(count));
  }
  Write("_sum", labels, "", sum);
  Write("_count", labels, "", static_cast<double>(count));
}

std::string Exposition::Take() {
  if (form_ == Exposed::kOpenMetrics) text_ += "# EOF\n";
  return std::move(text_);
}

}  // namespace divvy::wire
