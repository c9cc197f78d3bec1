// A report as a self-contained page without external scripts, fonts or pictures. It follows the system's light or dark
// mode, is readable on a phone, and has a table with the numbers below each plot.
#pragma once

#include <string>

#include "simulate/report.h"

namespace divvy::simulate {

/// Returns the report as an HTML page. `made_with`: the command that created the report, shown at the bottom.
std::string ReportHtml(const Report& report, const std::string& made_with);

}  // namespace divvy::simulate
