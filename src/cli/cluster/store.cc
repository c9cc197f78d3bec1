// divvy store: copies and checks stores while no daemon has them open.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "cli/client/command.h"
#include "cli/client/commands.h"
#include "dialect/config/config.h"
#include "platform/os/runtime_paths.h"
#include "store/copy/store_copy.h"
#include "store/postgres/postgres_url.h"

namespace divvy::cli {
namespace {

struct StoreFlags {
  std::string from;
  std::string to;
};

// Refuses a URL with a password on the command line, because other users can see the arguments of a process.
Status RefusePassword(std::string_view url) {
  if (!HasPassword(url)) return {};
  return InvalidArgument(WithoutPassword(url) +
                         ": other users can see this password; write it into a passfile (?passfile=/path)");
}

std::vector<dialect::Option> StoreTable(StoreFlags& flags) {
  const auto where = [](std::string& into) {
    return [&into](std::string_view value) -> Status {
      DIVVY_CHECK(RefusePassword(value));
      into = value;
      return {};
    };
  };
  return {
      dialect::Option::Value("from", "URL", "Copy: the store to read", where(flags.from)),
      dialect::Option::Value("to", "URL", "Copy: the store to fill, a new file or an empty database", where(flags.to))};
}

/// One line on a terminal, at most five times a second.
class CopyLine {
 public:
  ~CopyLine() { End(); }
  void Show(const CopyProgress& progress) {
    const auto now = std::chrono::steady_clock::now();
    if (::isatty(STDERR_FILENO) == 0 || now < next_) return;
    next_ = now + std::chrono::milliseconds(200);
    std::fprintf(stderr, "\r\033[K%s %s: %lld of %lld rows", progress.is_verifying ? "verifying" : "copying",
                 progress.table.c_str(), static_cast<long long>(progress.rows), static_cast<long long>(progress.of));
    is_shown_ = true;
  }
  void End() {
    if (std::exchange(is_shown_, false)) std::fputs("\r\033[K", stderr);
  }

 private:
  std::chrono::steady_clock::time_point next_;
  bool is_shown_ = false;
};

void PrintCounts(const std::vector<TableCount>& counts) {
  for (const TableCount& count : counts)
    std::printf("%-10s %10lld rows\n", count.table.c_str(), static_cast<long long>(count.rows));
}

int Copy(const StoreFlags& flags) {
  if (flags.from.empty() || flags.to.empty())
    return Fail(InvalidArgument("divvy store copy needs --from and --to, each a path or a postgresql:// URL"));
  CopyLine line;
  const auto counts = CopyStore(flags.from, flags.to, [&](const CopyProgress& progress) { line.Show(progress); });
  line.End();
  if (!counts) return Fail(counts.error());
  PrintCounts(*counts);
  std::printf("copied; the rows of both are the same\n");
  return 0;
}

/// The store of this machine's daemon.
Result<std::string> OwnStore() {
  const RuntimePaths places = FindPlaces();
  std::ifstream file(places.config, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file && ::access(places.config.c_str(), F_OK) == 0)
    return PermissionDenied("cannot read " + places.config + ": run this as the user of the daemon");
  DIVVY_TRY(const dialect::Config config, dialect::ParseConfig(text, places.config));
  return config.store_url.empty() ? places.state + "/divvy.db" : config.store_url;
}

int Check(const std::string& given) {
  std::string where = given;
  if (const Status allowed = RefusePassword(where); !allowed) return Fail(allowed.error());
  if (where.empty()) {
    const auto own = OwnStore();
    if (!own) return Fail(own.error());
    where = *own;
  }
  DIVVY_TRY_OR_FAIL(const auto checked, CheckStore(where));
  std::printf("%s, schema version %lld\n", WithoutPassword(where).c_str(),
              static_cast<long long>(checked.schema_version));
  PrintCounts(checked.tables);
  for (const std::string& problem : checked.problems) std::printf("problem: %s\n", problem.c_str());
  if (!checked.problems.empty()) return 1;
  std::printf("everything fits together\n");
  return 0;
}

}  // namespace

std::vector<dialect::Option> StoreOptions() {
  static StoreFlags scratch;
  return StoreTable(scratch);
}

int StoreMain(const Words& words) {
  StoreFlags flags;
  DIVVY_TRY_OR_FAIL(const auto parsed, dialect::ParseOptions(StoreTable(flags), words));
  const Words& rest = parsed.positional;
  if (rest.size() == 1 && rest[0] == "copy") return Copy(flags);
  const bool has_copy_options = !flags.from.empty() || !flags.to.empty();
  if (!rest.empty() && rest.size() <= 2 && rest[0] == "check" && !has_copy_options)
    return Check(rest.size() == 2 ? rest[1] : "");
  return Fail(InvalidArgument("usage: divvy store copy --from URL --to URL, or divvy store check [URL]"));
}

}  // namespace divvy::cli
