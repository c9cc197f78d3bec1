// divvy report usage, fairness, waste, efficiency, shares and predictions.
#pragma once

#include "cli/reports/report_show.h"

namespace divvy::cli {

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
