// divvy nodes, divvy node: lists and changes the nodes on which jobs run.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string>

#include "base/text.h"
#include "cli/client/api.h"
#include "cli/client/commands.h"
#include "cli/client/shown_answer.h"
#include "cli/client/table.h"
#include "dialect/options/quantities.h"
#include "dialect/options/slurm_hostlist.h"
#include "wire/messages/codec.h"
#include "wire/messages/messages_nodes.h"
#include "wire/messages/messages_teams.h"

namespace divvy::cli {
namespace {

using dialect::Option;

const std::vector<Column>& NodeColumns() {
  static const std::vector<Column> columns = {{"NAME", false, true, true},
                                              {"STATE", false, true, false},
                                              {"GPUS", true, true, false},
                                              {"FREE", true, true, false},
                                              {"JOBS", true, true, false},
                                              {"MODEL", false, true, true},
                                              {"CPUS", true, true, false, true},
                                              {"MEMORY", true, true, false, true, false, "memory_bytes"},
                                              {"HEARD", true, true, false, false, false, "heard_s"},
                                              {"ADDRESS", false, true, true, true},
                                              {"REASON", false, true, true, false, true}};
  return columns;
}

Colour ColourOf(const std::string& state) {
  if (state == "lost") return Colour::kRed;
  return state == "up" ? Colour::kGreen : Colour::kYellow;
}

std::string HeardText(const wire::NodeView& view, double now) {
  if (view.is_controller) return "";
  // The node is known from an earlier run, but the daemon does not store when its agent was last heard.
  if (!view.last_contact) return "before restart";
  return dialect::FormatDuration(
             std::chrono::seconds(static_cast<std::int64_t>(std::max(now - *view.last_contact, 0.0)))) +
         " ago";
}

/// "GPUs 2,3 are restricted"; empty if none is.
std::string RestrictionText(const wire::NodeView& view) {
  std::string list;
  for (const std::int64_t gpu : view.gpus_restricted) list += (list.empty() ? "" : ",") + std::to_string(gpu);
  if (list.empty()) return "";
  return view.gpus_restricted.size() == 1 ? "GPU " + list + " is restricted" : "GPUs " + list + " are restricted";
}

// Returns why the node accepts no new jobs, or fewer, and the remaining time of a drain.
std::string ReasonText(const wire::NodeView& view, double now) {
  if (!view.deadline) {
    // Without a reason from the administrator, the controller only sends who did it.
    const bool is_unsaid = view.reason.starts_with("by ");
    std::vector<std::string> reasons = {is_unsaid ? "no reason given, " + view.reason : view.reason,
                                        RestrictionText(view)};
    if (!view.exclusive_job.empty()) reasons.push_back("job " + view.exclusive_job + " uses it exclusively");
    if (view.gpus_reserved > 0) reasons.push_back(std::to_string(view.gpus_reserved) + " reserved");
    std::erase(reasons, "");
    return Join(reasons, "; ");
  }
  const double left = *view.deadline - now;
  const std::string deadline =
      left <= 0 ? "its deadline has passed"
                : "deadline in " + dialect::FormatDuration(std::chrono::seconds(static_cast<std::int64_t>(left)));
  return view.reason.empty() ? deadline : view.reason + "; " + deadline;
}

/// In seconds, for programs.
std::string HeardSeconds(const wire::NodeView& view, double now) {
  if (view.is_controller || !view.last_contact) return "";
  return std::to_string(static_cast<std::int64_t>(std::max(now - *view.last_contact, 0.0)));
}

std::vector<Cell> Row(const wire::NodeView& view, double now, bool is_csv) {
  return {{view.name, Colour::kBold},
          {view.state, ColourOf(view.state)},
          {std::to_string(view.gpus), Colour::kNone},
          {std::to_string(view.gpus_free), Colour::kNone},
          {std::to_string(view.jobs), Colour::kNone},
          {view.gpu_model.empty() && view.gpus > 0 ? "several" : view.gpu_model, Colour::kNone},
          {std::to_string(view.cpus), Colour::kNone},
          {is_csv ? std::to_string(view.memory_bytes) : dialect::FormatSize(Bytes(view.memory_bytes)), Colour::kNone},
          {is_csv ? HeardSeconds(view, now) : HeardText(view, now), Colour::kNone},
          {view.is_controller ? "the controller" : view.address, Colour::kNone},
          {ReasonText(view, now), Colour::kNone}};
}

struct NodeFlags {
  wire::NodeRequest request;
  bool has_deadline = false;
};

std::vector<Option> NodeTable(NodeFlags& flags) {
  std::vector<Option> table;
  table.push_back(
      Option::Value("deadline", "TIME", "drain: stop and requeue jobs that still run after this time: 30m, 12h",
                    [&flags](std::string_view value) -> Status {
                      DIVVY_TRY(const Duration span, dialect::ParseDuration(value, std::chrono::minutes(1)));
                      flags.request.deadline_s = ToSeconds(span);
                      flags.has_deadline = true;
                      return {};
                    }));
  table.push_back(
      Option::Value("reason", "TEXT", "cordon, drain: reason, shown to users", dialect::Keeps(flags.request.reason)));
  table.push_back(Option::Flag("gone",
                               "remove: the node will not come back (switched off, or its disk is lost); its jobs "
                               "count as lost or restart elsewhere",
                               dialect::Sets(flags.request.is_lost)));
  return table;
}

}  // namespace

std::vector<Option> NodeOptions() {
  static NodeFlags scratch;
  return NodeTable(scratch);
}

std::vector<Option> NodesOptions() {
  static ListingOptions scratch;
  return ListingOptionTable(scratch);
}

int NodesMain(const Words& words) {
  ListingOptions options;
  DIVVY_TRY_OR_FAIL(const auto parsed, dialect::ParseOptions(ListingOptionTable(options), words));
  if (!parsed.positional.empty()) {
    return Fail(InvalidArgument("divvy nodes takes no argument '" + parsed.positional.front() +
                                "'; to change a node, use divvy node cordon, drain, resume, remove or label"));
  }
  return ShowListing(options, [&]() -> Result<std::string> {
    DIVVY_TRY(Api api, Api::Connect());
    DIVVY_TRY(const std::string text, api.Raw("GET", "/v1/nodes", ""));
    if (options.json) return text + "\n";
    DIVVY_TRY(const auto views, DecodeShown<std::vector<wire::NodeView>>(text));
    std::vector<std::vector<Cell>> rows;
    const auto now = static_cast<double>(std::time(nullptr));
    for (const auto& view : views) rows.push_back(Row(view, now, options.csv));
    return RenderTable(NodeColumns(), rows, options);
  });
}

int NodeMain(const Words& words) {
  constexpr std::string_view kUsage = "divvy node cordon|drain|resume|remove|label NAME...";
  if (words.empty()) return Fail(InvalidArgument("name a command and the nodes: " + std::string(kUsage)));
  const std::string& verb = words.front();
  if (verb != "cordon" && verb != "drain" && verb != "resume" && verb != "remove" && verb != "label") {
    return Fail(InvalidArgument("divvy node: unknown command '" + verb + "'; use cordon, drain, resume, remove or " +
                                "label (divvy nodes lists them)"));
  }
  NodeFlags flags;
  DIVVY_TRY_OR_FAIL(const auto parsed, dialect::ParseOptions(NodeTable(flags), Words(words.begin() + 1, words.end())));
  if (flags.request.is_lost && verb != "remove") return Fail(InvalidArgument("--gone works only with remove"));
  if (flags.has_deadline && verb != "drain") return Fail(InvalidArgument("--deadline works only with drain"));
  for (const std::string& word : parsed.positional) {
    const std::size_t equals = word.find('=');
    if (verb == "label" && equals != std::string::npos) {
      flags.request.labels.insert_or_assign(word.substr(0, equals), word.substr(equals + 1));
      continue;
    }
    // A host list in Slurm's syntax: n[1-4,7],login.
    const auto names = dialect::ExpandHostList(word);
    if (!names) return Fail(names.error());
    for (const std::string& name : *names) {
      if (std::ranges::find(flags.request.names, name) == flags.request.names.end())
        flags.request.names.push_back(name);
    }
  }
  if (flags.request.names.empty()) return Fail(InvalidArgument("name a node: " + std::string(kUsage)));
  if (verb == "label" && flags.request.labels.empty())
    return Fail(InvalidArgument("divvy node label NAME LABEL=VALUE...; LABEL= removes a label"));
  DIVVY_TRY_OR_FAIL(auto api, Api::Connect());
  DIVVY_TRY_OR_FAIL(const auto text, api.Raw("POST", "/v1/nodes/" + verb, wire::EncodeChanged(flags.request)));
  DIVVY_TRY_OR_FAIL(const auto answer, DecodeShown<wire::MessageAnswer>(text));
  std::printf("%s\n", answer.message.c_str());
  return 0;
}

}  // namespace divvy::cli
