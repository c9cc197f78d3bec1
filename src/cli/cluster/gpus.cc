// divvy gpus: the GPUs, their jobs, and which GPUs new work may use.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/text.h"
#include "cli/client/api.h"
#include "cli/client/commands.h"
#include "cli/client/job_text.h"
#include "cli/client/places.h"
#include "cli/client/shown_answer.h"
#include "cli/client/table.h"
#include "cli/client/tenant_lines.h"
#include "cli/term/throttle_text.h"
#include "dialect/options/quantities.h"
#include "dialect/options/slurm_hostlist.h"
#include "wire/messages/series_messages.h"

namespace divvy::cli {
namespace {

using dialect::Option;

constexpr std::string_view kNodeTitle = "NODE";
constexpr std::size_t kShareColumn = 17;
constexpr std::size_t kIndentOfReason = 4;
/// If there are more, their ids are only on their own lines, not on the GPU's.
constexpr std::size_t kMostTenantIds = 3;

constexpr Column Unit(std::string_view title, std::string_view csv_title) {
  return {title, true, true, false, false, false, csv_title};
}

const std::vector<Column>& GpuColumns() {
  static const std::vector<Column> columns = {{kNodeTitle, false, false, true},
                                              {"GPU", true, true, false},
                                              {"MODEL", false, true, true, true},
                                              {"STATE", false, true, false},
                                              {"JOB", true, true, false},
                                              Unit("USE", "use_percent"),
                                              Unit("MEMORY", "memory_used_bytes"),
                                              Unit("TEMP", "temperature_celsius"),
                                              Unit("POWER", "power_watts"),
                                              {"WHO", false, true, true, true},  // Repeated below if cut.
                                              {"UUID", false, false, false},
                                              {"PCI", false, false, false},
                                              {"NUMA", true, false, false},
                                              {"CC", false, false, false},
                                              {"MIG", false, false, false},
                                              {"LINKS", false, false, true},
                                              {"ISOLATION", false, false, false},
                                              {"SHARE", false, false, false},
                                              {"MEMORY_TOTAL", true, false, false, false, false, "memory_total_bytes"}};
  return columns;
}

Colour GpuColour(const std::string& state) {
  if (state == "free") return Colour::kGreen;
  if (state == "allocated") return Colour::kBlue;
  if (state == "fenced") return Colour::kRed;
  return state == "unmanaged" || state == "reserved" ? Colour::kYellow : Colour::kDim;
}

/// For users with its unit, "-" if unknown. For programs plain, "" if unknown.
std::string Known(std::int64_t value, std::string_view unit, bool is_csv) {
  if (value < 0) return is_csv ? "" : "-";
  return std::to_string(value) + (is_csv ? "" : std::string(unit));
}

std::string Who(const wire::GpuView& gpu) {
  if (gpu.state != "unmanaged") return gpu.reason;
  std::string who;
  for (const auto& process : gpu.processes) {
    if (process.job || process.is_ignored) continue;
    if (!who.empty()) who += "; ";
    who += "pid " + std::to_string(process.pid) + " " + process.user + " " +
           dialect::FormatSize(Bytes(process.memory_bytes)) + " for " +
           dialect::FormatDuration(Duration(static_cast<std::int64_t>(process.age_s * 1e9))) +
           (process.is_graphics ? " (graphics) " : " ") + process.command;
  }
  return who.empty() ? gpu.reason : who;
}

/// "4/80G"; distinguishes no usage from unknown.
std::string MemoryCell(const wire::GpuView& gpu, bool is_csv) {
  if (is_csv) return IsSeen(gpu) ? std::to_string(gpu.memory_used_bytes) : "";
  return MemoryText(gpu);
}

std::vector<Cell> GpuRow(const wire::GpuView& gpu, const std::string& own, bool is_for_people, bool is_csv) {
  std::string jobs, links;
  for (const std::string& job : gpu.job_display_ids) jobs += (jobs.empty() ? "" : ",") + job;
  if (is_for_people && gpu.tenants.size() > kMostTenantIds) jobs = std::to_string(gpu.tenants.size()) + " jobs";
  for (const std::string& link : gpu.links) links += (links.empty() ? "" : " ") + link;
  return {{gpu.node.empty() ? own : gpu.node, Colour::kNone},
          {std::to_string(gpu.index), Colour::kBold},
          {gpu.model, Colour::kNone},
          {gpu.state, GpuColour(gpu.state)},
          {jobs, Colour::kNone},
          {Known(gpu.utilisation_percent, "%", is_csv), Colour::kNone},
          {MemoryCell(gpu, is_csv), Colour::kNone},
          {Known(gpu.temperature_celsius, "C", is_csv), Colour::kNone},
          {Known(gpu.power_watts, "W", is_csv), Colour::kNone},
          {Who(gpu), Colour::kDim},
          {gpu.uuid, Colour::kNone},
          {gpu.pci_address, Colour::kNone},
          {gpu.numa_node < 0 ? "" : std::to_string(gpu.numa_node), Colour::kNone},
          {gpu.compute_capability, Colour::kNone},
          {gpu.is_mig_enabled ? "on" : "off", Colour::kNone},
          {links, Colour::kNone},
          {gpu.isolation, Colour::kNone},
          {"", Colour::kNone},
          {is_csv ? std::to_string(gpu.memory_total_bytes) : dialect::FormatSize(Bytes(gpu.memory_total_bytes)),
           Colour::kNone}};
}

/// A tenant in the columns of its GPU: for CSV, and if the user chose columns.
std::vector<Cell> TenantRow(const wire::TenantView& tenant, const wire::GpuView& gpu, const std::string& own,
                            bool is_csv) {
  const TenantText text = TextOf(tenant);
  std::vector<Cell> row(GpuColumns().size(), Cell{"", Colour::kNone});
  row[0] = {gpu.node.empty() ? own : gpu.node, Colour::kNone};
  row[1] = {std::to_string(gpu.index), Colour::kNone};
  row[3] = {tenant.state, TenantColour(tenant.state)};
  row[4] = {tenant.display_id, Colour::kNone};
  row[5] = {text.time, Colour::kNone};
  row[6] = {text.memory, Colour::kNone};
  if (is_csv) {
    row[5].text = tenant.is_compute_known ? std::to_string(std::lround(tenant.compute * 100)) : "";
    row[6].text = std::to_string(tenant.used_bytes);
    row.back().text = std::to_string(tenant.limit_bytes);
  } else {
    row.back().text = dialect::FormatSize(Bytes(tenant.limit_bytes));
  }
  row[9] = {text.who + ": " + tenant.share + (text.notes.empty() ? "" : "; " + text.notes), Colour::kDim};
  row[kShareColumn] = {tenant.share, Colour::kNone};
  return row;
}

/// For users: each GPU's line, and below it one line per tenant, in separate columns.
std::string WithTenants(const std::string& table, const std::vector<wire::GpuView>& gpus, bool has_header) {
  std::vector<wire::TenantView> all;
  for (const wire::GpuView& gpu : gpus) all.insert(all.end(), gpu.tenants.begin(), gpu.tenants.end());
  const int width = TerminalWidth();
  const std::vector<std::string> lines = TenantLines(all, width);
  std::string out;
  std::size_t at = 0, next = 0;
  const auto copy_line = [&] {
    const std::size_t end = table.find('\n', at);
    out += table.substr(at, end - at + 1);
    const std::string_view copied = std::string_view(table).substr(at, end - at);
    at = end + 1;
    return copied;
  };
  if (has_header) copy_line();
  for (const wire::GpuView& gpu : gpus) {
    const std::string who = Who(gpu);
    const bool is_cut = copy_line().find(who) == std::string_view::npos;
    if (is_cut && width > 0) out += Wrapped(who, kIndentOfReason, static_cast<std::size_t>(width));
    for (std::size_t i = 0; i < gpu.tenants.size(); ++i) out += lines[next++];
  }
  return out;
}

/// "n[1-2]:0-3" means GPUs 0 to 3 of n1 and n2. Without a name, the GPUs are on the controller's own machine.
Result<wire::RestrictRequest> RestrictionOf(const Words& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ",") + word;
  wire::RestrictRequest request;
  if (const std::size_t colon = text.find(':'); colon != std::string::npos) {
    DIVVY_TRY(request.nodes, dialect::ExpandHostList(text.substr(0, colon)));
    if (request.nodes.empty())
      return InvalidArgument("'" + text + "' names no node before the colon; write it like n1:0-3");
    text.erase(0, colon + 1);
  }
  request.is_all = text == "all";
  if (request.is_all || text == "none") return request;
  if (text.find(':') != std::string::npos)
    return InvalidArgument(
        "divvy gpus restrict takes one list of GPUs: 0-3, n1:0-3, or n1,n2:0-3 for the same GPUs of both nodes");
  DIVVY_TRY(const IndexRanges ranges, IndexRanges::Parse(text, "divvy gpus restrict"));
  if (ranges.back() >= 64) return InvalidArgument("divvy gpus restrict '" + text + "': a node has at most 64 GPUs");
  for (const auto& range : ranges.ranges()) {
    for (std::uint32_t gpu = range.first; gpu <= range.last; ++gpu) request.gpus.push_back(gpu);
  }
  return request;
}

int Restrict(const Words& words) {
  if (words.empty())
    return Fail(InvalidArgument("name the GPUs: divvy gpus restrict 0,2 (or 0-3, all, none; on another node n1:0-3)"));
  DIVVY_TRY_OR_FAIL(const auto request, RestrictionOf(words));
  DIVVY_TRY_OR_FAIL(auto api, Api::Connect());
  DIVVY_TRY_OR_FAIL(const auto answer, api.Restrict(request));
  std::printf("%s\n", answer.message.c_str());
  return 0;
}

int Ignore(const Words& words, bool is_ignored) {
  DIVVY_TRY_OR_FAIL(auto api, Api::Connect());
  if (words.empty() && is_ignored) {
    const auto rules = api.IgnoreRules();
    if (!rules) return Fail(rules.error());
    if (rules->rules.empty()) std::printf("No process is ignored.\n");
    for (const auto& rule : rules->rules) {
      const std::string where = rule.node.empty() ? "" : " of " + rule.node;
      const std::string which = (rule.gpu < 0 ? "every GPU" : "GPU " + std::to_string(rule.gpu)) + where;
      std::printf("%s: pid %lld of %s  %s\n", which.c_str(), static_cast<long long>(rule.pid), rule.user.c_str(),
                  rule.command.c_str());
    }
    return 0;
  }
  const std::string first = words.empty() ? "" : words[0];
  const std::size_t colon = first.find(':');
  const auto pid = ParseInteger(colon == std::string::npos ? first : first.substr(colon + 1));
  if (!pid || *pid <= 0 || words.size() > 2)
    return Fail(InvalidArgument(std::string("usage: divvy gpus ") + (is_ignored ? "ignore" : "unignore") +
                                " PID [GPU]; on another node n1:PID [GPU]"));
  wire::IgnoreRequest request;
  request.pid = *pid;
  request.is_ignored = is_ignored;
  if (colon != std::string::npos) request.node = first.substr(0, colon);
  if (words.size() == 2) {
    const auto gpu = ParseInteger(words[1]);
    if (!gpu || *gpu < 0 || *gpu > 63)
      return Fail(InvalidArgument("'" + words[1] + "' is not a GPU index: expected 0 to 63"));
    request.gpu = *gpu;
  }
  DIVVY_TRY_OR_FAIL(const auto answer, api.Ignore(request));
  std::printf("%s\n", answer.message.c_str());
  return 0;
}

}  // namespace

std::vector<Option> GpusOptions() {
  static ListingOptions scratch;
  return ListingOptionTable(scratch);
}

int GpusMain(const Words& words) {
  ListingOptions listing;
  DIVVY_TRY_OR_FAIL(const auto parsed, dialect::ParseOptions(ListingOptionTable(listing), words));
  if (!parsed.positional.empty()) {
    const std::string& verb = parsed.positional.front();
    const Words rest(parsed.positional.begin() + 1, parsed.positional.end());
    if (verb == "restrict") return Restrict(rest);
    if (verb == "ignore") return Ignore(rest, true);
    if (verb == "unignore") return Ignore(rest, false);
    if (verb != "list")
      return Fail(
          InvalidArgument("divvy gpus: unknown command '" + verb + "'; use list, restrict, ignore or unignore"));
  }
  DIVVY_TRY_OR_FAIL(auto api, Api::Connect());
  return ShowListing(listing, [&]() -> Result<std::string> {
    if (listing.json) {
      DIVVY_TRY(const std::string json, api.Raw("GET", "/v1/gpus", ""));
      return json + "\n";
    }
    DIVVY_TRY(std::vector<wire::GpuView> gpus, api.Gpus());
    // Reasons for slow clocks are unknown if no samples are taken.
    if (const auto seen = api.Raw("GET", "/v1/latest", "")) {
      if (const auto latest = DecodeShown<wire::LatestAnswer>(*seen)) AddSlowdowns(*latest, gpus);
    }
    if (gpus.empty() && !listing.csv) {
      DIVVY_TRY(const wire::StatusView status, api.Status());
      if (!status.listens.empty()) {
        return "No GPUs: this node has none (" + status.gpu_source +
               "), and no other node has joined yet; divvy token create --node prints the token to join with.\n";
      }
      return "No GPUs: " + status.gpu_source +
             ". Jobs without GPUs still run; to try GPU jobs, use emulated GPUs: divvy up --emulate 8xH100-80GB\n";
    }
    // The daemon lists GPUs node by node. On a single-node server they have no node name.
    const bool has_nodes = std::ranges::any_of(gpus, [](const wire::GpuView& gpu) { return !gpu.node.empty(); });
    const std::string own = has_nodes ? OwnName(api) : "";
    const bool is_for_people = !listing.csv && listing.columns.empty();
    std::vector<std::vector<Cell>> rows;
    for (const wire::GpuView& gpu : gpus) {
      rows.push_back(GpuRow(gpu, own, is_for_people, listing.csv));
      if (is_for_people) continue;  // They get their own lines.
      for (const wire::TenantView& tenant : gpu.tenants) rows.push_back(TenantRow(tenant, gpu, own, listing.csv));
    }
    std::vector<Column> columns = GpuColumns();
    for (Column& column : columns) column.is_shown_by_default |= has_nodes && column.title == kNodeTitle;
    DIVVY_TRY(std::string table, RenderTable(columns, rows, listing));
    return is_for_people ? WithTenants(table, gpus, listing.has_header) : table;
  });
}

}  // namespace divvy::cli
