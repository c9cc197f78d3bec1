// What divvy top shows, as lines of text: everything but the terminal. Pure, so that a test can read a screen.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/client/table.h"
#include "cli/term/throttle_text.h"
#include "wire/messages/messages.h"
#include "wire/messages/series_messages.h"

namespace divvy::cli {

/// What was asked of the daemon last.
struct TopFacts {
  wire::StatusView status;
  std::vector<wire::GpuView> gpus;
  std::vector<wire::JobView> jobs;  // Those that are not final; running ones first, then the queue in order.
  std::map<std::string, double> expected_starts;  // By display id, seconds since 1970, as far as they were asked for.
  std::map<std::string, double> wasted;           // GPUs that running jobs waste, by display id.
  Slowdowns slowdowns;                            // What holds the clocks of GPUs back.
  std::string trouble;                            // Why the rest is old; empty: it is not.
  double now = 0;                                 // Seconds since 1970.
};

/// The last looks at each GPU, for its sparklines.
class TopHistory {
 public:
  static constexpr std::size_t kLooks = 20;
  /// Oldest first; percent, -1: not known. At most kLooks of each.
  struct Looks {
    std::deque<int> use;
    std::deque<int> memory;
  };

  void Add(const std::vector<wire::GpuView>& gpus);
  /// What the daemon saw before the first look: gpu_utilization and gpu_memory_used_bytes of `gpus`.
  void Seed(const wire::SeriesAnswer& seen, const std::vector<wire::GpuView>& gpus);
  const Looks& Of(const wire::GpuView& gpu) const;

 private:
  std::map<std::pair<std::string, std::int64_t>, Looks> looks_;
};

enum class TopSort { kQueue, kGpus, kTime, kUser, kName };
inline constexpr std::size_t kTopSorts = 5;
std::string_view Name(TopSort sort);

struct TopChoice {
  std::string filter;  // Of jobs: in name, user, state, pool or id, in any case. Empty: all.
  std::string user;    // Only this user's; empty: everybody's.
  TopSort sort = TopSort::kQueue;
  bool is_tree = false;            // Jobs under their users, with what each has.
  bool hides_gpus = false;         // For more room below.
  std::size_t most_gpu_lines = 0;  // More GPUs are counted in the last of them; 0: all are shown.
  bool is_ascii = false;           // The terminal shows no more.
  bool is_once = false;            // Printed: there are no keys.
};

struct TopLine {
  std::vector<Cell> spans;
  std::string job;  // Its display id; empty: the line is of none.
  std::string gpu;  // "n1:3" or "3"; empty: of none.
  bool is_heading = false;
};

/// The line at the top of the screen.
TopLine TopTitle(const TopFacts& facts, const TopChoice& choice);
/// GPUs, running jobs, the waiting list. No line is wider than `columns`; columns >= 40.
std::vector<TopLine> TopLines(const TopFacts& facts, const TopHistory& history, const TopChoice& choice,
                              std::size_t columns);

/// The line at the bottom: as many of the keys as `columns` have room for, "? help" among them.
TopLine TopKeys(std::size_t columns);

/// "▁▃▇": one character a value of 0..100; a blank where nothing is known. ASCII: " .:-=+*#".
std::string Sparkline(const std::deque<int>& percents, std::size_t width, bool is_ascii);
/// "████░░░░" of a share of 0..1.
std::string Bar(double share, std::size_t width, bool is_ascii);

}  // namespace divvy::cli
