// divvy metrics: usage of a job, a GPU, a node or the cluster, as curves in the terminal.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "base/index_ranges.h"
#include "base/text.h"
#include "cli/client/actions.h"
#include "cli/client/api.h"
#include "cli/client/commands.h"
#include "cli/client/job_text.h"
#include "cli/client/metrics_text.h"
#include "cli/client/places.h"
#include "cli/client/process_text.h"
#include "cli/client/shown_answer.h"
#include "cli/client/table.h"
#include "cli/jobs/carried_metrics.h"
#include "cli/term/curve_text.h"
#include "cli/term/throttle_text.h"
#include "dialect/options/quantities.h"
#include "wire/http/http.h"
#include "wire/messages/codec.h"
#include "wire/messages/series_messages.h"

namespace divvy::cli {
namespace {

using dialect::Option;

constexpr std::size_t kRows = 4;
constexpr std::size_t kLabel = 12;        // Columns of the label next to a curve, with the rule behind it.
constexpr std::size_t kWidthOfNone = 80;  // Used without a terminal.
constexpr std::size_t kMostColumns = 200;

struct MetricsFlags {
  bool json = false;
  bool csv = false;
  bool is_watched = false;
  bool is_for_scrapers = false;
  bool are_processes = false;
  std::string gpu;
  std::string slice;  // MIG instance of that GPU: the driver's number, or "all".
  std::string node;
  bool is_cluster = false;
  std::vector<std::string> metrics;
  double since = 0;  // Negative: relative to now.
  double until = 0;
  std::int64_t points = 0;
  wire::OwnMetricsRequest added;
};

/// "loss=0.3"; the last '=' separates.
Status AddNumber(std::string_view text, wire::OwnMetricsRequest& added) {
  const auto equals = text.rfind('=');
  const auto value = equals == std::string_view::npos ? std::nullopt : ParseNumber(text.substr(equals + 1));
  if (!value || equals == 0)
    return InvalidArgument("'" + std::string(text) + "' is not a metric; write NAME=NUMBER, such as loss=0.3");
  added.values[std::string(text.substr(0, equals))] = *value;
  return {};
}

dialect::Apply IntoMoment(double& target) {
  return [&target](std::string_view value) -> Status {
    // Keep it relative, so that --watch moves it each second.
    const auto ago = dialect::ParseDuration(value, std::chrono::hours(1));
    if (ago && value.find(':') == std::string_view::npos) {
      target = -ToSeconds(*ago);
      return {};
    }
    DIVVY_TRY(target, AgoOrMoment(value));
    return {};
  };
}

Status TakeSlice(std::string_view text, MetricsFlags& flags) {
  const auto number = ParseInteger(text);
  if (text != "all" && (!number || *number < 0)) {
    return InvalidArgument(
        "'" + std::string(text) +
        "' is not the number of a MIG instance; write --gpu 0 --slice 1, or --slice all to see all of them");
  }
  flags.slice = number ? std::to_string(*number) : "all";
  return {};
}

std::vector<Option> Table(MetricsFlags& flags) {
  return {
      Option::Value(
          "gpu", "N", "Metrics of this GPU instead of a job, with --node on that node; 0:1 is its MIG instance 1",
          [&flags](std::string_view value) -> Status {
            const auto colon = value.find(':');
            const auto gpu = ParseInteger(value.substr(0, colon));
            if (!gpu || *gpu < 0)
              return InvalidArgument("'" + std::string(value) +
                                     "' is not a GPU index; write a number such as 0 (divvy gpus lists them)");
            flags.gpu = std::to_string(*gpu);
            return colon == std::string_view::npos ? Status() : TakeSlice(value.substr(colon + 1), flags);
          }),
      Option::Value("slice", "N",
                    "With --gpu: metrics of its MIG instance with the driver's number N, or all of them (all)",
                    [&flags](std::string_view value) { return TakeSlice(value, flags); }),
      Option::Value("node", "NAME", "Metrics of this node instead of a job", dialect::Keeps(flags.node)),
      Option::Flag("cluster", "Metrics of the whole cluster: total, allocated and used GPUs; jobs",
                   dialect::Sets(flags.is_cluster)),
      Option::Value("metric", 'm', "A,B", "Only these metrics: gpu_utilization, own.loss, ...",
                    [&flags](std::string_view value) -> Status {
                      const std::size_t before = flags.metrics.size();
                      for (const std::string_view part : Split(value, ',')) {
                        if (!Trim(part).empty()) flags.metrics.emplace_back(Trim(part));
                      }
                      if (flags.metrics.size() > before) return {};
                      return InvalidArgument(
                          "'" + std::string(value) +
                          "' names no metric; write one, such as gpu_utilization, or omit the option to see all");
                    },
                    {"metrics"}),
      Option::Value(
          "add", "NAME=NUMBER",
          "Record a metric of the job, from inside it or for it (ID); more may follow: --add loss=0.3 step=10",
          [&flags](std::string_view value) { return AddNumber(value, flags.added); }),
      Option::Flag("processes", "Show the job's GPU processes now: GPU memory and time, CPU and host memory of each",
                   dialect::Sets(flags.are_processes)),
      Option::Value("since", "TIME",
                    "Start time: 2h ago, 16:00, 2026-03-01; a bare number means hours ago (default: the job's start, "
                    "else ten minutes ago)",
                    IntoMoment(flags.since)),
      Option::Value("until", "TIME", "End time (default: now)", IntoMoment(flags.until)),
      Option::Value("points", "N", "Number of points (default: as many as fit; 400 with --json and --csv)",
                    [&flags](std::string_view value) -> Status {
                      const auto points = ParseInteger(value);
                      if (!points || *points < 1)
                        return InvalidArgument("'" + std::string(value) +
                                               "' is not a number of points; write 1 or more");
                      flags.points = *points;
                      return {};
                    }),
      Option::Flag("json", "Print the API's JSON", dialect::Sets(flags.json)),
      Option::Flag("csv", "Print CSV with one line for each point of each metric", dialect::Sets(flags.csv)),
      Option::Flag("prometheus", "Print the current metrics in Prometheus text format, like GET /metrics",
                   dialect::Sets(flags.is_for_scrapers)),
      Option::Flag("watch", 'w', "Refresh every second until Ctrl-C", dialect::Sets(flags.is_watched)),
  };
}

std::size_t ColumnsOf() {
  const int width = TerminalWidth();
  return std::clamp<std::size_t>(width > 0 ? static_cast<std::size_t>(width) : kWidthOfNone, kLabel + 20,
                                 kMostColumns) -
         kLabel;
}

Status CheckSubject(const MetricsFlags& flags, const Words& jobs) {
  if (!flags.slice.empty() && flags.gpu.empty())
    return InvalidArgument("--slice " + flags.slice + " needs a GPU: divvy metrics --gpu 0 --slice " + flags.slice);
  const int subjects =
      (jobs.empty() ? 0 : 1) + (flags.is_cluster ? 1 : 0) + (flags.gpu.empty() && flags.node.empty() ? 0 : 1);
  if (subjects > 1)
    return InvalidArgument(
        "give only one of jobs, --gpu (with --node) or --cluster: divvy metrics 17, or divvy metrics --gpu 0");
  if (subjects == 0)
    return InvalidArgument("name a job, or give --gpu, --node or --cluster: divvy metrics 17, divvy metrics --gpu 0");
  return {};
}

/// `job`: the id of the job whose metrics are shown; empty for metrics of GPUs, nodes or the cluster.
std::string TargetOf(const MetricsFlags& flags, const std::string& job) {
  std::string target = "/v1/series?of=";
  if (!job.empty()) target += "job&id=" + PercentEncode(job);
  else if (flags.is_cluster) target += "cluster";
  else if (flags.gpu.empty()) target += "node";
  else target += (flags.slice.empty() ? "gpu&gpu=" : "slice&gpu=") + flags.gpu;
  if (!flags.node.empty()) target += "&node=" + PercentEncode(flags.node);
  if (!flags.metrics.empty()) target += "&metrics=" + PercentEncode(Join(flags.metrics, ","));
  const bool is_drawn = !flags.json && !flags.csv;
  // The API returns an extra point if the first one begins before the requested period.
  const std::int64_t points = flags.points > 0 ? flags.points
                              : is_drawn       ? static_cast<std::int64_t>(ColumnsOf()) - 1
                                               : std::int64_t{400};
  const auto moment = [](double seconds) { return std::to_string(std::llround(seconds)); };
  target += "&points=" + std::to_string(points);
  if (flags.since != 0) target += "&since=" + moment(flags.since);
  if (flags.until != 0) target += "&until=" + moment(flags.until);
  return target;
}

std::string NameOf(const wire::SeriesView& series) {
  std::string name = series.metric;
  if (series.instance) name = "instance " + std::to_string(*series.instance) + "  " + name;
  if (series.gpu) name = "GPU " + std::to_string(*series.gpu) + "  " + name;
  if (!series.node.empty()) name = series.node + "  " + name;
  return name;
}

// One title line, then kRows lines of curve with the bounds next to them. Each column is the mean of `neighbours`
// points.
std::string Drawn(const wire::SeriesView& series, std::size_t neighbours, std::optional<double> newest) {
  double least = 0;
  double greatest = 0;
  double sum = 0;
  int count = 0;
  std::optional<double> last;
  for (std::size_t i = 0; i < series.mean.size(); ++i) {
    if (!series.mean[i]) continue;
    const double low = series.min[i].value_or(*series.mean[i]);
    const double high = series.max[i].value_or(*series.mean[i]);
    least = count == 0 ? low : std::min(least, low);
    greatest = count == 0 ? high : std::max(greatest, high);
    sum += *series.mean[i];
    last = series.mean[i];
    ++count;
  }
  // A column is a mean over some seconds or more, but users ask for the newest value.
  const std::string now =
      newest ? MetricText(*newest, series.unit) + " now" : MetricText(last.value_or(0), series.unit) + " at the end";
  std::string text = Paint(Colour::kBold, NameOf(series));
  if (count == 0) return text + "  no samples\n";
  // Throttle reasons have no height to draw.
  if (series.unit == "bits") {
    const std::string shares = ThrottleShares(series.mean);
    return text + "  " + now + (shares.empty() ? "" : "; " + shares) + "\n";
  }
  // A constant value needs no curve.
  if (least == greatest) return text + "  " + MetricText(*last, series.unit) + " throughout\n";
  text += "  " + now + ", mean " + MetricText(sum / count, series.unit) + ", " + MetricText(least, series.unit) +
          " to " + MetricText(greatest, series.unit) + "\n";
  CurveFrame frame;
  frame.rows = kRows;
  double top = 0;
  double bottom = 0;
  bool is_first = true;
  const Values values = Joined(series.mean, neighbours);
  for (const auto& value : values) {
    if (!value) continue;
    top = is_first ? *value : std::max(top, *value);
    bottom = is_first ? *value : std::min(bottom, *value);
    is_first = false;
  }
  // Start the scale at 0, except for the job's own metrics and for units that are never near 0.
  const bool is_own = series.unit.empty();
  const bool from_zero = !is_own && bottom >= 0 && series.unit != "celsius" && series.unit != "hertz";
  // If all means are 0, scale by the greatest value of a shorter peak.
  frame.top = series.unit == "ratio" ? 1 : top > bottom || top > 0 ? top : greatest;
  frame.is_ascii = IsAsciiLocale();
  frame.bottom = from_zero ? 0 : bottom;
  if (frame.top <= frame.bottom) frame.top = frame.bottom + (frame.bottom == 0 ? 1 : std::abs(frame.bottom));
  const std::vector<std::string> lines = DrawCurve(values, frame);
  for (std::size_t row = 0; row < lines.size(); ++row) {
    std::string label;
    if (row == 0) label = MetricText(frame.top, series.unit);
    if (row + 1 == lines.size()) label = MetricText(frame.bottom, series.unit);
    label = Width(label) > kLabel - 2 ? Cut(label, kLabel - 2) : label;
    text += std::string(kLabel - 2 - Width(label), ' ') + Paint(Colour::kDim, label + (frame.is_ascii ? " |" : " │")) +
            Paint(Colour::kGreen, lines[row]) + "\n";
  }
  return text;
}

/// Lines about values of the job's own metrics that were dropped; empty for all other metrics.
std::string LeftOut(const wire::SeriesView& series) {
  double most = 0;
  for (const auto& value : series.max) most = std::max(most, value.value_or(0));
  const std::string count = std::to_string(std::llround(most));
  if (series.metric == "own_lines_left_out")
    return "Up to " + count + " of the job's metric lines in one second were dropped: only the newest " +
           std::to_string(wire::kMostOwnLines) + " (and at most 256 KiB) are read each second.\n";
  if (series.metric == "own_names_left_out")
    return "Up to " + count + " of the job's metric names were dropped: only the first 32 are kept.\n";
  return "";
}

constexpr std::string_view kCsvTitles = "time,of,node,gpu,metric,unit,mean,min,max,step,id,instance\n";

std::string CsvOf(const wire::SeriesAnswer& answer) {
  std::string text;
  const auto number = [](const std::optional<double>& value) {
    char out[40];
    if (!value) return std::string();
    std::snprintf(out, sizeof out, "%.10g", *value);
    return std::string(out);
  };
  for (const wire::SeriesView& series : answer.series) {
    for (std::size_t i = 0; i < series.mean.size(); ++i) {
      if (!series.mean[i]) continue;
      std::string name = series.metric;
      if (name.find_first_of(",\"\n") != std::string::npos) {
        std::string quoted = "\"";
        for (const char c : name) quoted += c == '"' ? "\"\"" : std::string(1, c);
        name = quoted + "\"";
      }
      text += number(answer.begin + static_cast<double>(i) * answer.step_s) + "," + series.of + "," + series.node +
              "," + (series.gpu ? std::to_string(*series.gpu) : "") + "," + name + "," + series.unit + "," +
              number(series.mean[i]) + "," + number(series.min[i]) + "," + number(series.max[i]) + "," +
              (i < series.step.size() ? number(series.step[i]) : "") + "," + (series.id ? ToString(*series.id) : "") +
              "," + (series.instance ? std::to_string(*series.instance) : "") + "\n";
    }
  }
  return text;
}

/// The latest sample; nullopt if it is too old or was not requested.
std::optional<double> NewestOf(const wire::SeriesView& series, const wire::LatestAnswer& latest) {
  const auto value = [](const std::map<std::string, double>& values, const std::string& name) -> std::optional<double> {
    const auto at = values.find(name);
    return at == values.end() ? std::nullopt : std::optional(at->second);
  };
  if (series.of == "cluster") return value(latest.cluster, series.metric);
  for (const wire::LatestJob& job : latest.jobs) {
    if (!series.id || job.id != *series.id) continue;
    constexpr std::string_view kOwn = "own.";
    const bool is_own = series.metric.starts_with(kOwn);
    return is_own ? value(job.own, series.metric.substr(kOwn.size())) : value(job.values, series.metric);
  }
  for (const wire::LatestGpu& gpu : latest.gpus) {
    if (series.of == "gpu" && !series.instance && series.gpu == gpu.gpu && series.node == gpu.node)
      return value(gpu.values, series.metric);
  }
  for (const wire::LatestSlice& slice : latest.slices) {
    if (series.of == "slice" && series.instance == slice.instance && series.gpu == slice.gpu &&
        series.node == slice.node)
      return value(slice.values, series.metric);
  }
  for (const wire::LatestNode& node : latest.nodes) {
    if (series.of == "node" && series.node == node.node) return value(node.values, series.metric);
  }
  return std::nullopt;
}

/// The API also returns a job's steps with its own metrics, for clients that use them as an axis. Keeps only the
/// requested metrics.
void KeepAsked(const std::vector<std::string>& metrics, wire::SeriesAnswer& answer) {
  if (metrics.empty()) return;
  std::erase_if(answer.series, [&](const wire::SeriesView& series) {
    return std::ranges::find(metrics, series.metric) == metrics.end();
  });
}

std::string Page(const wire::SeriesAnswer& answer, const wire::LatestAnswer& latest) {
  std::string text;
  std::size_t points = 0;
  for (const wire::SeriesView& series : answer.series) points = std::max(points, series.mean.size());
  const std::size_t neighbours = Neighbours(points, ColumnsOf());
  std::string left_out;
  for (const wire::SeriesView& series : answer.series) {
    if (const std::string words = LeftOut(series); !words.empty()) {
      left_out += words;
      continue;
    }
    text += Drawn(series, neighbours, NewestOf(series, latest));
  }
  const std::size_t shown = (points + neighbours - 1) / neighbours;
  // The last column is incomplete.
  const double now = NowSeconds();
  const double end = std::min(answer.begin + static_cast<double>(points) * answer.step_s, now);
  const auto [left, right] = AxisText(answer.begin, end, now);
  const std::size_t used = left.size() + right.size();
  text += std::string(kLabel, ' ') + left + std::string(shown > used ? shown - used : 1, ' ') + right + "\n";
  return text + left_out;
}

Status CheckGpuIsThere(Api& api, const MetricsFlags& flags) {
  DIVVY_TRY(const std::vector<wire::GpuView> gpus, api.Gpus());
  IndexRanges there;
  for (const wire::GpuView& gpu : gpus) {
    if (!flags.node.empty() && gpu.node != flags.node) continue;
    if (std::to_string(gpu.index) == flags.gpu) return {};
    there.Insert(static_cast<std::uint32_t>(gpu.index));
  }
  return NotFound("there is no GPU " + flags.gpu + (flags.node.empty() ? "" : " on " + flags.node) +
                  (gpus.empty() ? "" : "; the GPUs are " + there.ToString()));
}

/// Shown instead of a page without any curve.
Result<std::string> NothingSeen(Api& api, const std::string& id, const std::vector<std::string>& metrics) {
  if (id.empty()) return "No samples in that period.\n";
  DIVVY_TRY(const wire::JobDetail job, api.Job(id));
  std::vector<wire::JobView> elements;
  if (!job.elements.empty()) {
    wire::JobSelector select;
    select.user = "all";
    select.array = job.id;
    select.includes_final = true;
    DIVVY_TRY(elements, api.Jobs(select));
  }
  return NothingSeenOf(job, elements, metrics);
}

}  // namespace

std::vector<Option> MetricsOptions() {
  static MetricsFlags scratch;
  return Table(scratch);
}

namespace {

int AddMain(MetricsFlags& flags, const Words& words) {
  const char* const own = std::getenv("DIVVY_JOB_ID");
  std::string id;
  for (const std::string& word : words) {
    if (word.find('=') != std::string::npos) {
      if (const Status added = AddNumber(word, flags.added); !added) return Fail(added.error());
      continue;
    }
    if (!id.empty()) return Fail(InvalidArgument("--add takes only one job: divvy metrics --add loss=0.3 17"));
    id = word;
  }
  if (id.empty() && own != nullptr) id = own;
  if (id.empty())
    return Fail(InvalidArgument(
        "not inside a divvy job (DIVVY_JOB_ID is not set); name a job: divvy metrics --add loss=0.3 17"));
  const char* const attempt = std::getenv("DIVVY_ATTEMPT");
  if (own != nullptr && id == own && attempt != nullptr) flags.added.attempt = ParseInteger(attempt).value_or(0);
  DIVVY_TRY_OR_FAIL(auto api, Api::Connect());
  const auto answer = AddOwnMetrics(api, id, flags.added);
  return answer ? 0 : Fail(answer.error());
}

Result<std::string> DrawProcesses(const MetricsFlags& flags, const Words& words, const ListingOptions& listing) {
  if (words.empty() || !flags.metrics.empty() || flags.since != 0 || flags.until != 0)
    return InvalidArgument(
        "--processes shows the current processes of one job, so it cannot be combined with --metric, --since or "
        "--until: divvy metrics 17 --processes");
  DIVVY_CHECK(CheckSubject(flags, words));
  DIVVY_TRY(Api api, Api::Connect());
  DIVVY_TRY(const Words jobs, EachJob(api, words));
  if (jobs.size() > 1) return InvalidArgument("--processes takes only one job: divvy metrics 17 --processes");
  DIVVY_TRY(const wire::JobDetail job, api.Job(jobs.front()));
  DIVVY_TRY(const std::string json, api.Raw("GET", "/v1/latest", ""));
  DIVVY_TRY(const wire::LatestAnswer latest, DecodeShown<wire::LatestAnswer>(json));
  if (!latest.is_on) return FailedPrecondition(std::string(wire::kSamplesDisabled));
  if (flags.json) return wire::Encode(OnlyProcessesOf(job.id, latest)) + "\n";
  DIVVY_TRY(const std::vector<wire::GpuView> gpus, api.Gpus());
  const std::vector<GpuProcess> processes = ProcessesOf(job.id, latest, gpus);
  if (processes.empty() && !flags.csv) return "Job " + job.display_id + " has no process on a GPU.\n";
  const bool has_nodes = std::ranges::any_of(gpus, [](const wire::GpuView& gpu) { return !gpu.node.empty(); });
  return ProcessTable(processes, has_nodes ? OwnName(api) : "", listing);
}

}  // namespace

int MetricsMain(const Words& words) {
  MetricsFlags flags;
  DIVVY_TRY_OR_FAIL(const auto parsed, dialect::ParseOptions(Table(flags), words));
  if (!flags.added.values.empty()) return AddMain(flags, parsed.positional);
  const Status is_one =
      OneForm({{"--json", flags.json}, {"--csv", flags.csv}, {"--prometheus", flags.is_for_scrapers}});
  if (!is_one) return Fail(is_one.error());
  ListingOptions listing;
  listing.is_watched = flags.is_watched;
  listing.json = flags.json;
  listing.csv = flags.csv;
  if (flags.are_processes)
    return ShowListing(listing, [&] { return DrawProcesses(flags, parsed.positional, listing); });
  return ShowListing(listing, [&]() -> Result<std::string> {
    if (flags.is_for_scrapers) {
      if (!parsed.positional.empty())
        return InvalidArgument("--prometheus prints all metrics and takes no job '" + parsed.positional.front() +
                               "'; omit it, or print the metrics of the job as CSV: divvy metrics " +
                               parsed.positional.front() + " --csv");
      DIVVY_TRY(Api scraped, Api::Connect());
      return scraped.Raw("GET", "/metrics", "");
    }
    DIVVY_CHECK(CheckSubject(flags, parsed.positional));
    DIVVY_TRY(Api api, Api::Connect());
    DIVVY_TRY(Words jobs, EachJob(api, parsed.positional));
    const bool are_several = jobs.size() > 1;
    if (jobs.empty()) jobs.emplace_back();
    wire::LatestAnswer latest;
    if (!flags.json && !flags.csv && flags.until == 0) {
      DIVVY_TRY(const std::string json, api.Raw("GET", "/v1/latest", ""));
      DIVVY_TRY(latest, DecodeShown<wire::LatestAnswer>(json));
    }
    std::string text(flags.csv ? kCsvTitles : "");
    for (const std::string& job : jobs) {
      DIVVY_TRY(const std::string json, api.Raw("GET", TargetOf(flags, job), ""));
      if (flags.json && flags.slice.empty()) {
        text += json + "\n";
        continue;
      }
      DIVVY_TRY(wire::SeriesAnswer answer, DecodeShown<wire::SeriesAnswer>(json));
      DIVVY_CHECK(KeepSlice(flags.gpu, flags.slice, answer));
      if (answer.series.empty() && !flags.gpu.empty()) DIVVY_CHECK(CheckGpuIsThere(api, flags));
      if (flags.json) {
        text += wire::Encode(answer) + "\n";
        continue;
      }
      KeepAsked(flags.metrics, answer);
      if (are_several && !flags.csv) text += (text.empty() ? "" : "\n") + Paint(Colour::kBold, "job " + job) + "\n";
      PutOwnFirst(answer);
      if (flags.csv) {
        text += CsvOf(answer);
      } else if (answer.series.empty()) {
        DIVVY_TRY(const std::string nothing, NothingSeen(api, job, flags.metrics));
        text += nothing;
      } else {
        text += Page(answer, latest);
      }
    }
    return text;
  });
}

}  // namespace divvy::cli
