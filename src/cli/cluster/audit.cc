// divvy audit: checks that the audit log of this machine's daemon was not modified.
#include <cstdio>

#include "cli/client/command.h"
#include "cli/client/commands.h"
#include "platform/net/audit_chain.h"
#include "platform/os/runtime_paths.h"

namespace divvy::cli {

int AuditMain(const Words& words) {
  if (words.empty() || words.front() != "verify" || words.size() > 2)
    return Fail(InvalidArgument("usage: divvy audit verify [HASH]"));
  if (words.size() > 1 &&
      (words[1].size() != 64 || words[1].find_first_not_of("0123456789abcdef") != std::string::npos))
    return Fail(InvalidArgument("'" + words[1] + "' is not a hash of the audit log: expected 64 digits 0-9 and a-f"));
  const std::string path = FindPlaces().state + "/audit.log";
  DIVVY_TRY_OR_FAIL(const auto chain, VerifyAuditLog(path, words.size() > 1 ? words[1] : ""));
  std::printf("%s is unchanged: %llu lines\n", path.c_str(), static_cast<unsigned long long>(chain.lines));
  if (chain.unchained > 0) {
    std::printf("%llu lines before them were written by an older release and have no hashes\n",
                static_cast<unsigned long long>(chain.unchained));
  }
  if (chain.has_older && chain.is_full) {
    std::printf("the first line follows a rotated log that no longer exists\n");
  } else if (chain.has_older) {
    Note("the beginning is missing, and " + path + "." + std::to_string(kOldAuditLogs) +
         " does not exist, so it was not removed by rotation; check who moved or removed old files or lines");
  }
  if (!chain.newest.empty()) {
    std::printf("newest hash: %s\n", chain.newest.c_str());
    std::printf("Store it elsewhere: divvy audit verify HASH then detects lines removed at the end.\n");
  }
  return 0;
}

}  // namespace divvy::cli
