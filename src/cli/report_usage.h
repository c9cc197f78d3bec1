// divvy report usage and fairness.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/table.h"
#include "dialect/options.h"

namespace divvy::cli {

struct ReportFlags {
  ListingOptions listing;
  std::string by;
  std::optional<double> since;  // Seconds since 1970.
  std::optional<double> until;
  bool is_html = false;

  /// One of those that only usage and fairness have was given.
  bool has_stretch() const { return !by.empty() || since || until || is_html; }
};
std::vector<dialect::Option> ReportOptionTable(ReportFlags& flags);

int ReportUsage(const ReportFlags& flags);
int ReportFairness(const ReportFlags& flags);

}  // namespace divvy::cli
