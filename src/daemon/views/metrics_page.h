// GET /metrics: everything that a scraper may want to know, as it is now. Names and labels as Prometheus' conventions
// have them (docs/samples.md lists them). Nothing of jobs that have ended, so what there is is bounded by what runs.
#pragma once

#include <map>
#include <string>

#include "daemon/driver/core.h"
#include "daemon/runtime/counters.h"
#include "daemon/telemetry/sample_book.h"
#include "daemon/waste/waste_book.h"
#include "wire/http/exposition.h"

namespace divvy {

struct MetricsAbout {
  Core& core;
  const SampleBook* samples = nullptr;  // Null: none are taken.
  const Counters* counters = nullptr;
  std::map<std::string, int> nodes;  // By state, as divvy nodes has it.
  bool has_dcgm_names = false;       // The GPUs under the names of NVIDIA's exporter as well.
  const WasteBook* waste = nullptr;  // Null: nobody looks.
  bool hides_job_names = false;      // [privacy] jobs = "own".
};

std::string MetricsText(const MetricsAbout& about, wire::Exposed form);

}  // namespace divvy
