// A report as one page that needs nothing else: no script, no font, no picture from anywhere. Light and dark as the
// reader's system has it, readable on a phone, with the numbers of each plot in a table under it.
#pragma once

#include <string>

#include "simulate/report.h"

namespace divvy::simulate {

/// `made_with` stands at the foot: the command that made it.
std::string ReportHtml(const Report& report, const std::string& made_with);

}  // namespace divvy::simulate
