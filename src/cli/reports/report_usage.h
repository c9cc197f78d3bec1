// divvy report usage, fairness, waste, efficiency, shares and predictions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/client/table.h"
#include "dialect/options/options.h"

namespace divvy::cli {

struct ReportFlags {
  ListingOptions listing;
  std::string by;
  std::optional<double> since;  // Seconds since 1970.
  std::optional<double> until;
  bool is_html = false;

  /// True if an option was given that only reports over a period of time have.
  bool has_stretch() const { return !by.empty() || since || until || is_html; }
};
std::vector<dialect::Option> ReportOptionTable(ReportFlags& flags);

int ReportUsage(const ReportFlags& flags);
int ReportFairness(const ReportFlags& flags);
// cli/reports/report_predictions.cc
int ReportPredictions(const ReportFlags& flags);
// cli/reports/report_waste.cc
int ReportWaste(const ReportFlags& flags);
int ReportEfficiency(const ReportFlags& flags);
// cli/reports/report_shares.cc
int ReportShares(const ReportFlags& flags);

}  // namespace divvy::cli
