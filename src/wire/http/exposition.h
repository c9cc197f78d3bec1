// Metrics as text for scrapers: Prometheus' own format (0.0.4) or OpenMetrics 1.0, as the scraper requests.
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

/// The format that a scraper's Accept header requests. Prometheus' own format if the header names neither format.
Exposed ExposedBy(std::string_view accept);
/// The Content-Type header of an answer in this format.
std::string_view ContentTypeOf(Exposed form);

class Exposition {
 public:
  using Labels = std::vector<std::pair<std::string_view, std::string>>;
  /// kForeignCounter: a counter whose name another system defined, without "_total". OpenMetrics does not allow that,
  /// so there it has the type "unknown".
  enum class Kind { kGauge, kCounter, kForeignCounter, kHistogram };

  explicit Exposition(Exposed form) : form_(form) {}

  /// Begins a metric family; its samples follow. `name`: for a counter without "_total". `unit`: "seconds", which the
  /// name must end with; empty: none. A family without samples is not written.
  void Begin(std::string_view name, Kind kind, std::string_view unit, std::string_view help);
  void Add(const Labels& labels, double value);
  /// Adds a sample to a family of kind kHistogram. `bounds`: upper bounds of the buckets. `counts`: the number of
  /// values in each bucket; one more than `bounds`, because the last bucket has no upper bound.
  void AddHistogram(const Labels& labels, std::span<const double> bounds, std::span<const std::uint64_t> counts,
                    double sum);
  /// Ends the text and returns it.
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
