// The contents of divvy top as lines of text, without the terminal. Pure, so that tests can read a screen.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/term/throttle_text.h"
#include "cli/top/top_filler.h"
#include "wire/messages/messages.h"
#include "wire/messages/series_messages.h"

namespace divvy::cli {

/// The latest answers of the daemon.
struct TopFacts {
  wire::StatusView status;
  std::vector<wire::GpuView> gpus;
  std::vector<wire::JobView> jobs;                // Without ended jobs. Running jobs first, then the queue in order.
  std::map<std::string, double> expected_starts;  // By display id, in seconds since 1970. Only for jobs that were
                                                  // queried.
  std::map<std::string, double> wasted;           // GPUs that running jobs waste, by display id.
  Slowdowns slowdowns;                            // Why GPUs' clocks are reduced.
  std::string trouble;                            // Why the other fields are outdated. Empty if they are current.
  double now = 0;                                 // Seconds since 1970.
};

/// The last samples of each GPU, for its sparklines.
class TopHistory {
 public:
  static constexpr std::size_t kLooks = 20;
  /// Oldest first, in percent; -1: not known. At most kLooks of each.
  struct Looks {
    std::deque<int> use;
    std::deque<int> memory;
  };

  void Add(const std::vector<wire::GpuView>& gpus);
  /// Adds the samples that the daemon took before divvy top started: gpu_utilization and gpu_memory_used_bytes of
  /// `gpus`.
  void Seed(const wire::SeriesAnswer& seen, const std::vector<wire::GpuView>& gpus);
  const Looks& Of(const wire::GpuView& gpu) const;

 private:
  std::map<std::pair<std::string, std::int64_t>, Looks> looks_;
};

enum class TopSort { kQueue, kGpus, kTime, kUser, kName };
inline constexpr std::size_t kTopSorts = 5;
std::string_view Name(TopSort sort);

struct TopChoice {
  std::string filter;  // Shows jobs with this text in name, user, state, pool, id or node; ignores case. Empty: all.
  std::string user;    // Shows only this user's jobs. Empty: everybody's.
  TopSort sort = TopSort::kQueue;
  bool is_tree = false;            // Groups jobs by user, with totals.
  bool hides_gpus = false;         // Leaves more room below.
  std::size_t most_gpu_lines = 0;  // If there are more GPUs, the last line counts the rest. 0: all are shown.
  bool is_ascii = false;           // The terminal cannot show UTF-8.
  bool is_once = false;            // Printed once; there are no keys.
};

/// The line at the top of the screen.
TopLine TopTitle(const TopFacts& facts, const TopChoice& choice);
/// Returns the lines for the GPUs, the running jobs and the waiting list, in this order. No line is wider than
/// `columns`. Requires: columns >= 40.
std::vector<TopLine> TopLines(const TopFacts& facts, const TopHistory& history, const TopChoice& choice,
                              std::size_t columns);

/// Returns the line at the bottom, which lists the available keys: as many as fit into `columns`, always with "? help".
TopLine TopKeys(std::size_t columns);

/// Draws the last `width` values as "▁▃▇": one character for each value from 0 to 100, and a blank for an unknown one.
/// With `is_ascii` the characters are " .:-=+*#".
std::string Sparkline(const std::deque<int>& percents, std::size_t width, bool is_ascii);
/// Draws a bar of `width` characters, "████░░░░". `share` is the filled fraction, from 0 to 1.
std::string Bar(double share, std::size_t width, bool is_ascii);

}  // namespace divvy::cli
