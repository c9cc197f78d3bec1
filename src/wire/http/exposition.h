// Metrics as text for scrapers: Prometheus' own format (0.0.4) or OpenMetrics 1.0, as they ask.
// Source: prometheus.io/docs/instrumenting/exposition_formats and the OpenMetrics specification 1.0.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace divvy::wire {

enum class Exposed { kPrometheus, kOpenMetrics };

/// What a scraper's Accept header asks for; Prometheus' format where it says neither.
Exposed ExposedBy(std::string_view accept);
/// The Content-Type of the answer.
std::string_view ContentTypeOf(Exposed form);

class Exposition {
 public:
  using Labels = std::vector<std::pair<std::string_view, std::string>>;
  /// kForeignCounter: its name is somebody else's, without "_total"; of unknown kind in OpenMetrics, which has none
  /// such.
  enum class Kind { kGauge, kCounter, kForeignCounter, kHistogram };

  explicit Exposition(Exposed form) : form_(form) {}

  /// Begins a family; samples of it follow. `name`: of a counter without "_total". `unit`: "seconds", with which the
  /// name then ends; empty: none. A family without samples is not written.
  void Begin(std::string_view name, Kind kind, std::string_view unit, std::string_view help);
  void Add(const Labels& labels, double value);
  /// Of kHistogram. `counts`: how many were in each bucket, one more than there are bounds: the last is above all.
  void AddHistogram(const Labels& labels, std::span<const double> bounds, std::span<const std::uint64_t> counts,
                    double sum);
  /// Ends the text.
  std::string Take();

 private:
  void WriteHead();
  void Write(std::string_view suffix, const Labels& labels, std::string_view bound, double value);

  Exposed form_;
  std::string text_;
  std::string name_;
  Kind kind_ = Kind::kGauge;
  std::string unit_;
  std::string help_;
  bool has_head_ = true;
};

}  // namespace divvy::wire
