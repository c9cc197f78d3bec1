#include "cli/simulate/simulate_report.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>

#include "cli/reports/report_show.h"

namespace divvy::cli {
namespace {

using simulate::FillResult;
using simulate::FillRun;

std::string Shown(std::optional<double> value) { return value ? Fixed(*value, 2) : "-"; }
std::string Json(std::optional<double> value) { return value ? Fixed(*value, 4) : "null"; }

double PerRun(const FillResult& result, std::int64_t FillRun::*count) {
  double sum = 0;
  for (const FillRun& run : result.runs) sum += static_cast<double>(run.*count);
  return sum / static_cast<double>(result.runs.size());
}

double DecisionsPerSecond(const FillResult& result) {
  double seconds = 0;
  for (const FillRun& run : result.runs) seconds += run.cpu_seconds;
  return seconds > 0 ? PerRun(result, &FillRun::arrived) * static_cast<double>(result.runs.size()) / seconds : 0;
}

std::optional<double> IdleGpusAt(const FillResult& result, int load) {
  const auto mean = result.MeanAt(load);
  if (!mean) return std::nullopt;
  return (100 - *mean) / 100 * static_cast<double>(result.gpus);
}

std::string JsonObject(const FillResult& result) {
  std::string out = "{\"policy\": \"" + result.policy + "\"";
  const auto add = [&out](std::string_view name, const std::string& value) {
    out += ", \"" + std::string(name) + "\": " + value;
  };
  add("allocation_percent_at_100", Json(result.MeanAt(100)));
  add("allocation_percent_at_130", Json(result.MeanAt(130)));
  add("sd", Json(result.DeviationAt(100)));
  add("sd_at_130", Json(result.DeviationAt(130)));
  add("gpus", std::to_string(result.gpus));
  add("idle_gpus_at_100", Json(IdleGpusAt(result, 100)));
  add("jobs_arrived", Json(PerRun(result, &FillRun::arrived)));
  add("jobs_refused", Json(PerRun(result, &FillRun::refused)));
  add("moves", Json(PerRun(result, &FillRun::moves)));
  add("jobs_started_by_moves", Json(PerRun(result, &FillRun::saved)));
  add("decisions_per_cpu_second", Fixed(DecisionsPerSecond(result), 0));
  std::string runs, loads;
  for (const FillRun& run : result.runs) {
    const auto at = [&run](std::size_t load) -> std::optional<double> {
      if (load >= run.allocation_percent.size()) return std::nullopt;
      return run.allocation_percent[load];
    };
    runs += std::string(runs.empty() ? "" : ", ") + "{\"seed\": " + std::to_string(run.seed) +
            ", \"allocation_percent_at_100\": " + Json(at(100)) + ", \"allocation_percent_at_130\": " + Json(at(130)) +
            "}";
  }
  for (int load = 0; result.MeanAt(load); ++load) loads += (load == 0 ? "" : ", ") + Json(result.MeanAt(load));
  add("runs", "[" + runs + "]");
  add("allocation_percent", "[" + loads + "]");
  return out + "}";
}

}  // namespace

Result<std::string> FillTable(const std::vector<FillResult>& results, const ListingOptions& options) {
  const std::vector<Column> columns = {
      {"POLICY"},        {"AT 100 %", true},     {"SD", true},   {"AT 130 %", true},  {"IDLE GPUS", true},
      {"REFUSED", true}, {"MOVES", true, false}, {"RUNS", true}, {"PER SECOND", true}};
  std::vector<std::vector<Cell>> rows;
  for (const FillResult& result : results) {
    rows.push_back({{result.policy, Colour::kBold},
                    {Shown(result.MeanAt(100))},
                    {Shown(result.DeviationAt(100))},
                    {Shown(result.MeanAt(130))},
                    {Shown(IdleGpusAt(result, 100))},
                    {Fixed(PerRun(result, &FillRun::refused), 0)},
                    {Fixed(PerRun(result, &FillRun::moves), 0)},
                    {std::to_string(result.runs.size())},
                    {Fixed(DecisionsPerSecond(result), 0)}});
  }
  return RenderTable(columns, rows, options);
}

std::string FillJson(const std::vector<FillResult>& results) {
  if (results.size() == 1) return JsonObject(results.front()) + "\n";
  std::string out;
  for (const FillResult& result : results) out += (out.empty() ? "[" : ",\n ") + JsonObject(result);
  return out + "]\n";
}

}  // namespace divvy::cli
