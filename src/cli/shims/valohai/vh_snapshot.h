// What `vh exec run --adhoc` packs: a copy of the project as it is now, without what .gitignore and .valohaiignore
// name, so that the code may be edited while the execution waits.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace divvy::cli {

/// The rules of ignore files, as git reads them: "#" comments, "!" takes back, a trailing "/" means directories only, a
/// "/" elsewhere anchors at the file's own directory, "*" "?" "[...]" stay within a name, "**" crosses them. The last
/// rule that matches decides.
class IgnoreRules {
 public:
  /// `directory`: where the file lies, relative to the project's root; "" for the root itself.
  void Add(std::string_view text, std::string_view directory);
  /// `path` is relative to the root. What lies below an ignored directory is ignored too, which is the caller's walk to
  /// see to.
  bool Ignores(std::string_view path, bool is_directory) const;

 private:
  struct Rule {
    std::string pattern, directory;
    bool takes_back = false, only_directories = false, is_anchored = false;
  };
  std::vector<Rule> rules_;
};

/// `*` and the like as in a path; exposed for the tests.
bool MatchesGlob(std::string_view pattern, std::string_view path);

struct SnapshotLimits {
  std::uint64_t bytes = 100ULL << 20;  // As much as a page cache copies in tens of milliseconds.
  std::uint64_t files = 5000;
};
struct Snapshot {
  bool is_copied = false;
  std::string reason;  // Why not: "the project is larger than 100 MiB".
  std::uint64_t bytes = 0, files = 0;
};
/// Copies `source` to the new directory `destination`, or leaves nothing behind. Links are copied as links.
Result<Snapshot> CopyProject(const std::string& source, const std::string& destination,
                             const SnapshotLimits& limits = {});

}  // namespace divvy::cli
