// divvy-research: the experiments of published papers and another scheduler's test cases, decided by divvy's code.
// Their results are in docs/heterogeneous-design.md, docs/results-replays.md and docs/peer-cases.md.
#include <cstdio>
#include <string_view>
#include <vector>

#include "research/peer_cases_main.h"
#include "research/rounds.h"

int main(int argc, char** argv) {
  const std::vector<std::string_view> words(argv + (argc > 0 ? 1 : 0), argv + argc);
  if (!words.empty() && words.front() == "peer-cases") {
    return divvy::research::PeerCasesMain({words.begin() + 1, words.end()});
  }
  if (!words.empty() && divvy::research::IsRoundsExperiment(words.front())) {
    return divvy::research::RoundsMain({words.begin(), words.end()});
  }
  std::fputs(
      "usage: divvy-research gavel-rounds --throughputs FILE [--policy NAMES] [--seeds LIST] [--jobs-per-hour N]\n"
      "       divvy-research shockwave-rounds --jobs FILE --throughputs FILE [--policy NAMES]\n"
      "       divvy-research peer-cases FILE... [--json]\n",
      stderr);
  return 2;
}
