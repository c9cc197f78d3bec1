#include "research/rounds.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "base/text.h"
#include "cli/client/table.h"
#include "cli/reports/report_show.h"
#include "dialect/options/options.h"
#include "research/gavel.h"
#include "research/shockwave.h"

namespace divvy::research {
namespace {

using namespace cli;

using dialect::Option;
using dialect::Takes;

struct RoundsFlags {
  std::string throughputs;
  std::string jobs;
  std::vector<std::string> policies;
  std::vector<std::uint32_t> seeds;
  double jobs_per_hour = 5.6;
  ListingOptions listing;
};

/// The results of one experiment: numbers with their JSON names.
struct Figures {
  std::string policy;
  std::vector<std::pair<std::string_view, double>> values;
};

std::vector<Option> Table(RoundsFlags& flags) {
  std::vector<Option> table;
  const auto add = [&](std::string_view name, std::string_view value, std::string_view help, dialect::Apply apply) {
    table.push_back({name, 0, Takes::kValue, value, help, std::move(apply), {}, false});
  };
  add("throughputs", "FILE", "Measured steps per second of each kind of job (JSON, .gz as it is)",
      [&flags](std::string_view value) -> Status {
        flags.throughputs = value;
        return {};
      });
  add("jobs", "FILE", "The trace of jobs (shockwave-rounds)", [&flags](std::string_view value) -> Status {
    flags.jobs = value;
    return {};
  });
  add("policy", "NAMES", "One or several, joined by commas", [&flags](std::string_view value) -> Status {
    for (const std::string_view part : Split(value, ',')) flags.policies.emplace_back(Trim(part));
    return {};
  });
  add("seeds", "LIST", "Random draws, such as 0 or 0,1,2; the mean of all is shown (gavel-rounds)",
      [&flags](std::string_view value) -> Status {
        for (const std::string_view part : Split(value, ',')) {
          const auto seed = ParseInteger(part);
          if (!seed || *seed < 0 || *seed > 1'000'000) return InvalidArgument("'" + std::string(part) + "' is no seed");
          flags.seeds.push_back(static_cast<std::uint32_t>(*seed));
        }
        return {};
      });
  add("jobs-per-hour", "N", "How many come in an hour (gavel-rounds; 5.6 unless given)",
      [&flags](std::string_view value) -> Status {
        char* end = nullptr;
        const std::string text(value);
        flags.jobs_per_hour = std::strtod(text.c_str(), &end);
        if (end == text.c_str() || *end != 0 || !(flags.jobs_per_hour > 0) || flags.jobs_per_hour > 1000)
          return InvalidArgument("'" + text + "' is no number of jobs an hour");
        return {};
      });
  for (Option& option : ListingOptionTable(flags.listing)) {
    if (option.name != "watch" && option.name != "interval") table.push_back(std::move(option));
  }
  return table;
}

template <typename Policy>
Result<Policy> PolicyNamed(const std::string& name, std::optional<Policy> (*parse)(std::string_view),
                           std::string_view names) {
  const auto policy = parse(name);
  if (!policy) return InvalidArgument("there is no policy '" + name + "' (policies: " + std::string(names) + ")");
  return *policy;
}

Result<std::vector<Figures>> Gavel(RoundsFlags& flags) {
  if (flags.throughputs.empty())
    return InvalidArgument("divvy-research gavel-rounds needs --throughputs simulation_throughputs.json[.gz]");
  if (flags.policies.empty()) flags.policies = {"progress"};
  if (flags.seeds.empty()) flags.seeds = {0};
  std::vector<Figures> all;
  for (const std::string& name : flags.policies) {
    GavelOptions options;
    options.throughputs = flags.throughputs;
    options.jobs_per_hour = flags.jobs_per_hour;
    DIVVY_TRY(options.policy, PolicyNamed(name, ParseGavelPolicy, "agnostic, max-min, progress, progress-packed"));
    double mean = 0, p99 = 0, worst = 0, busy = 0, moves = 0;
    const auto runs = static_cast<double>(flags.seeds.size());
    for (const std::uint32_t seed : flags.seeds) {
      options.seed = seed;
      DIVVY_TRY(const GavelResult result, RunGavel(options));
      mean += result.mean_jct_h / runs;
      p99 += result.p99_jct_h / runs;
      worst += result.worst_jct_h / runs;
      busy += result.busy / runs;
      moves += result.moves_per_round / runs;
    }
    all.push_back({name,
                   {{"mean_jct_hours", mean},
                    {"p99_jct_hours", p99},
                    {"worst_jct_hours", worst},
                    {"busy", busy},
                    {"moves_per_round", moves}}});
  }
  return all;
}

Result<std::vector<Figures>> Shockwave(RoundsFlags& flags) {
  if (flags.throughputs.empty() || flags.jobs.empty()) {
    return InvalidArgument(
        "divvy-research shockwave-rounds needs --jobs TRACE.tsv and --throughputs tacc_throughputs.json[.gz]");
  }
  if (flags.policies.empty()) flags.policies = {"slack"};
  std::vector<Figures> all;
  for (const std::string& name : flags.policies) {
    ShockwaveOptions options;
    options.trace = flags.jobs;
    options.throughputs = flags.throughputs;
    DIVVY_TRY(options.policy, PolicyNamed(name, ParseShockwavePolicy, "max-min, slack, slack-profiled"));
    DIVVY_TRY(const ShockwaveResult result, RunShockwave(options));
    all.push_back({name,
                   {{"makespan_s", result.makespan_s},
                    {"mean_jct_s", result.mean_jct_s},
                    {"worst_rho", result.worst_rho},
                    {"unfair", result.unfair},
                    {"busy", result.busy},
                    {"restarts", static_cast<double>(result.restarts)}}});
  }
  return all;
}

/// "mean_jct_hours" -> "MEAN JCT HOURS".
std::string Title(std::string_view name) {
  std::string title;
  for (const char c : name) title += c == '_' ? ' ' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return title;
}

std::string Json(const std::vector<Figures>& all) {
  std::string out;
  for (const Figures& one : all) {
    out += (out.empty() ? "[" : ",\n ") + std::string("{\"policy\": \"") + one.policy + "\"";
    for (const auto& [name, value] : one.values) out += ", \"" + std::string(name) + "\": " + Fixed(value, 4);
    out += "}";
  }
  return out + "]\n";
}

}  // namespace

bool IsRoundsExperiment(std::string_view word) { return word == "gavel-rounds" || word == "shockwave-rounds"; }

int RoundsMain(const cli::Words& words) {
  RoundsFlags flags;
  const auto parsed = dialect::ParseOptions(Table(flags), words);
  if (!parsed) return Fail(parsed.error());
  if (parsed->positional.size() > 1)
    return Fail(InvalidArgument("divvy-research: '" + parsed->positional[1] + "' is one word too many"));
  const auto all = parsed->positional.front() == "gavel-rounds" ? Gavel(flags) : Shockwave(flags);
  if (!all) return Fail(all.error());
  if (flags.listing.json) {
    std::fputs(Json(*all).c_str(), stdout);
    return 0;
  }
  std::vector<std::string> titles;
  for (const auto& [name, value] : all->front().values) titles.push_back(Title(name));
  std::vector<Column> columns = {{"POLICY"}};
  for (const std::string& title : titles) columns.push_back({title, true});
  std::vector<std::vector<Cell>> rows;
  for (const Figures& one : *all) {
    std::vector<Cell> row = {{one.policy, Colour::kBold}};
    for (const auto& [name, value] : one.values) {
      row.push_back({Fixed(value, std::abs(value) >= 1000 ? 0 : std::abs(value) >= 10 ? 2 : 3)});
    }
    rows.push_back(std::move(row));
  }
  const auto table = RenderTable(columns, rows, flags.listing);
  if (!table) return Fail(table.error());
  std::fputs(table->c_str(), stdout);
  return 0;
}

}  // namespace divvy::research
