// GET /metrics: the present values of all metrics. Names and labels follow the Prometheus conventions (docs/samples.md
// lists them). Only running jobs have metrics of their own, so the size does not grow with the number of ended jobs.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "daemon/runtime/counters.h"
#include "daemon/telemetry/metric_store.h"
#include "daemon/waste/waste_tracker.h"
#include "driver/controller_driver.h"
#include "driver/lease_keeper.h"
#include "wire/http/exposition.h"
#include "wire/messages/provider_messages.h"

namespace divvy {

struct MetricsAbout {
  ControllerDriver& driver;
  const MetricStore* samples = nullptr;  // Null: no samples are taken.
  const Counters* counters = nullptr;
  std::map<std::string, int> nodes;         // By state, as `divvy nodes` prints it.
  bool has_dcgm_names = false;              // Also exports the GPUs under the names of NVIDIA's DCGM exporter.
  const WasteTracker* waste = nullptr;      // Null: waste is not watched.
  bool hides_job_names = false;             // [privacy] jobs = "own".
  const LeaseKeeper* leadership = nullptr;  // Null: the store has no lease.
  /// Optional. Adds families of parts that this page does not know.
  std::function<void(wire::Exposition&)> add_others = {};
  std::vector<wire::ProviderView> providers = {};
  struct TeamNodes {
    double per_hour = 0;
    double this_month = 0;
  };
  std::map<std::string, TeamNodes> team_nodes = {};  // The cost of providers' nodes by team.
};

std::string MetricsText(const MetricsAbout& about, wire::Exposed form);

}  // namespace divvy
