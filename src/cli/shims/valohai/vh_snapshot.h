// The snapshot for `vh exec run --adhoc`: a copy of the project without the files in .gitignore and .valohaiignore. So
// the user may edit the code while the execution waits.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace divvy::cli {

/// The rules of ignore files, as git reads them. "#" starts a comment, "!" negates, and a trailing "/" matches
/// directories only. A "/" elsewhere anchors the pattern at the file's directory. "*", "?" and "[...]" match within a
/// name; "**" crosses directories. The last matching rule decides.
class IgnoreRules {
 public:
  /// `directory`: the directory of the file, relative to the project's root; "" for the root itself.
  void Add(std::string_view text, std::string_view directory);
  /// True if the rules ignore `path`, which is relative to the project's root. The caller must skip everything below an
  /// ignored directory.
  bool Ignores(std::string_view path, bool is_directory) const;

 private:
  struct Rule {
    std::string pattern, directory;
    bool takes_back = false, only_directories = false, is_anchored = false;
  };
  std::vector<Rule> rules_;
};

/// Matches `*` and similar patterns against a path. Public for the tests.
bool MatchesGlob(std::string_view pattern, std::string_view path);

struct SnapshotLimits {
  std::uint64_t bytes = 100ULL << 20;  // A page cache copies this much in tens of milliseconds.
  std::uint64_t files = 5000;
};
struct Snapshot {
  bool is_copied = false;
  std::string reason;  // Why it was not copied: "the project is larger than 100 MiB".
  std::uint64_t bytes = 0, files = 0;
};
/// Copies `source` to the new directory `destination`; on failure nothing is left there. Copies links as links.
Result<Snapshot> CopyProject(const std::string& source, const std::string& destination,
                             const SnapshotLimits& limits = {});

}  // namespace divvy::cli
