#include "research/peer_cases_main.h"

#include <cstdio>

#include "dialect/options/options.h"
#include "research/peer_cases.h"

namespace divvy::research {

using cli::Fail;

int PeerCasesMain(const cli::Words& words) {
  bool is_json = false;
  std::vector<dialect::Option> table;
  table.push_back({"json",
                   0,
                   dialect::Takes::kNothing,
                   "",
                   "Print the result as JSON",
                   [&](std::string_view) -> Status {
                     is_json = true;
                     return {};
                   },
                   {},
                   false});
  const auto parsed = dialect::ParseOptions(table, words);
  if (!parsed) return Fail(parsed.error());
  if (parsed->positional.empty())
    return Fail(
        InvalidArgument("divvy-research peer-cases needs files of cases; docs/peer-cases.md says what they are"));
  const auto report = RunPeerFiles({parsed->positional.begin(), parsed->positional.end()});
  if (!report) return Fail(report.error());
  std::fputs((is_json ? PeerReportJson(*report) : PeerReportText(*report)).c_str(), stdout);
  return report->failed.empty() ? 0 : 1;
}

}  // namespace divvy::research
