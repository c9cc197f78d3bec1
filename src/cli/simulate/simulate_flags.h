// The options of divvy simulate, shared by its parts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "cli/client/table.h"
#include "simulate/engine_decider.h"
#include "simulate/fill.h"
#include "simulate/growth_decider.h"
#include "simulate/time_sharing_decider.h"

namespace divvy::cli {

struct SimulateFlags {
  std::string nodes;  // A file of nodes, or "96x8": 96 nodes with 8 GPUs each.
  std::vector<std::string> jobs;
  std::vector<std::string> policies;
  std::vector<std::uint64_t> seeds;
  simulate::FillOptions fill;
  bool is_replayed = false;  // openb: jobs arrive and end as in the trace, instead of filling the cluster.
  // Only for replays.
  simulate::EngineRule engine;
  simulate::TimeSharingRule time_sharing;
  std::optional<Time> from;
  std::optional<Time> to;
  double load = 1;
  std::vector<std::string> what_if;
  std::string history;  // "30d"; empty: all of it.
  std::string by;       // "size", "team", "hour".
  std::vector<Provider> providers;
  std::vector<simulate::GrowthPolicy> growth;  // Empty: all.
  // Output.
  ListingOptions listing;
  std::string csv_folder;
  std::string html_file;
};

std::vector<dialect::Option> SimulateOptionTable(SimulateFlags& flags);

/// A progress bar on standard error. It is shown on a terminal only, and is cleared by the destructor. `what` is its
/// label.
class ProgressBar {
 public:
  explicit ProgressBar(std::string what) : what_(std::move(what)) { Show(0); }
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  /// Sets the finished fraction, 0..1. Draws the bar again only if it looks different.
  void Show(double share);

 private:
  std::string what_;
  int shown_ = -1;  // Thousandths.
};

}  // namespace divvy::cli
