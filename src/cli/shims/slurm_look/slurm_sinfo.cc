// sinfo: the nodes, by partition.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

#include "base/text.h"
#include "cli/client/shown_answer.h"
#include "cli/shims/slurm_look/slurm.h"
#include "cli/shims/slurm_look/slurm_common.h"
#include "cli/shims/slurm_look/slurm_json.h"
#include "cli/shims/slurm_look/slurm_nodes.h"
#include "cli/shims/slurm_look/slurm_places.h"
#include "cli/shims/slurm_look/slurm_reservations.h"

namespace divvy::cli {
namespace {

using namespace slurm;
using dialect::Takes;

struct SinfoFlags {
  std::string letters;
  std::string names;
  std::string interval;
  std::vector<std::string> states;
  std::vector<std::string> partitions;
  std::vector<std::string> nodes;
  bool has_no_header = false;
  bool is_long = false;
  bool is_by_node = false;
  bool is_summary = false;
  bool is_dead = false;
  bool is_responding = false;
  bool lists_reservations = false;
  AnswerForm form;
  bool lists_reasons = false;
  bool is_verbose = false;
  bool shows_all = false;
};

constexpr auto kSinfoVariables =
    std::to_array<EnvironmentOption>({{"SINFO_PARTITION", "partition"}, {"SINFO_ALL", "all", true}});

std::vector<dialect::Option> SinfoTable(SinfoFlags& wish) {
  std::vector<dialect::Option> options = {
      Flag("verbose", 'v', "Also print how the options are read", wish.is_verbose),
      Text("format", 'o', "FORMAT", "Columns by letter: \"%n %G %t\"", wish.letters),
      Text("Format", 'O', "NAMES", "Columns by name: nodelist,gres:40", wish.names),
      Text("iterate", 'i', "SECONDS", "Refresh interval", wish.interval),
      List("states", 't', "STATES", "Only nodes in these states", wish.states),
      List("partition", 'p', "NAMES", "These partitions", wish.partitions),
      List("nodes", 'n', "HOSTS", "These hosts", wish.nodes),
      Flag("noheader", 'h', "No header", wish.has_no_header),
      Flag("all", 'a', "All partitions, which is the default", wish.shows_all),
      Flag("long", 'l', "More columns", wish.is_long),
      Flag("Node", 'N', "One line for each node", wish.is_by_node),
      Flag("summarize", 's', "Summary with node counts", wish.is_summary),
      Flag("list-reasons", 'R', "Why nodes accept no jobs", wish.lists_reasons),
      Flag("dead", 'd', "Only nodes that do not respond", wish.is_dead),
      Flag("responding", 'r', "Only nodes that respond", wish.is_responding),
      Flag("reservation", 'T', "Show only reservations", wish.lists_reservations),
  };
  AddAnswerForms(options, wish.form);
  struct Silent {
    std::string_view name;
    char letter;
    Takes takes;
  };
  for (const Silent& one : {Silent{"future", 'F', Takes::kNothing}, Silent{"exact", 'e', Takes::kNothing},
                            Silent{"hide", 0, Takes::kNothing}, Silent{"local", 0, Takes::kNothing},
                            Silent{"federation", 0, Takes::kNothing}, Silent{"noconvert", 0, Takes::kNothing},
                            Silent{"sort", 'S', Takes::kValue}, Silent{"clusters", 'M', Takes::kValue}}) {
    options.push_back(Ignored(one.name, one.letter, one.takes));
  }
  return options;
}

Result<bool> IsWanted(const NodeRow& row, const std::vector<std::string>& states) {
  bool is_wanted = states.empty();
  for (const std::string& state : states) {
    DIVVY_TRY(const bool is_in, IsInState(row, state));
    is_wanted = is_wanted || is_in;
  }
  return is_wanted;
}

std::string_view LettersOf(const SinfoFlags& wish) {
  if (!wish.letters.empty()) return wish.letters;
  if (wish.lists_reasons) return wish.is_long ? kInfoReasonsLong : kInfoReasons;
  if (wish.is_summary) return kInfoSummary;
  if (wish.is_by_node) return wish.is_long ? kInfoNodeLong : kInfoNode;
  if (wish.is_long) return kInfoLong;
  const char* preferred = std::getenv("SINFO_FORMAT");
  return preferred != nullptr && *preferred != 0 ? std::string_view(preferred) : kInfoDefault;
}

Result<std::string> DrawReservations(const SinfoFlags& wish) {
  DIVVY_TRY(Api api, Api::Connect());
  DIVVY_TRY(const std::string text, api.Raw("GET", "/v1/reservations", ""));
  DIVVY_TRY(const std::vector<wire::ReservationView> views, DecodeShown<std::vector<wire::ReservationView>>(text));
  const Scene scene = SceneOfServer();
  return wish.form.any() ? ReservationsJson(views, scene.now, scene.hostname)
                         : ListReservations(views, scene.now, scene.hostname, !wish.has_no_header);
}

Result<std::string> Draw(const SinfoFlags& wish) {
  if (wish.lists_reservations) return DrawReservations(wish);
  DIVVY_TRY(std::vector<NodeRow> rows, FetchNodes());
  DIVVY_TRY(const std::vector<std::string> names, HostNames(wish.nodes));
  DIVVY_CHECK(IsWanted({}, wish.states));  // Also checks the states if there are no rows.
  rows = NodesNamed(rows, names);
  std::erase_if(rows, [&](const NodeRow& row) {
    const bool is_dead = NodeState(row).ends_with('*');
    if ((wish.is_dead && !is_dead) || (wish.is_responding && is_dead)) return true;
    return !IsWanted(row, wish.states).value_or(false) || (wish.lists_reasons && ReasonOf(row).empty());
  });
  if (wish.form.any()) return NodesJson(rows);
  std::string text;
  if (!wish.has_no_header && (wish.is_long || !wish.interval.empty())) text = DateLine();
  const std::vector<std::string> partitions = wish.partitions.empty() ? PartitionsOf(rows) : wish.partitions;
  std::vector<NodeRow> shown;
  for (const std::string& partition : partitions) {
    for (NodeRow& row : NodesIn(rows, partition)) shown.push_back(std::move(row));
  }
  DIVVY_TRY(const std::string table,
            FormatNodes(shown, LettersOf(wish), wish.names, !wish.has_no_header, wish.is_by_node));
  return text + table;
}

}  // namespace

int SinfoMain(const std::vector<std::string>& words) {
  SinfoFlags wish;
  const std::vector<dialect::Option> options = SinfoTable(wish);
  if (Greets("sinfo", "[OPTIONS]", options, words)) return 0;
  SinfoFlags around;
  if (const Status read = ReadEnvironment(SinfoTable(around), kSinfoVariables); !read)
    return FailAs("sinfo", read.error());
  const auto parsed = dialect::ParseOptions(options, words);
  if (!parsed) return FailAs("sinfo", parsed.error().message);
  if (wish.form.lists_parsers) return PrintParsers();
  if (!wish.shows_all) OrElse(wish.partitions, around.partitions);
  const bool is_from_environment = wish.partitions == around.partitions;
  if ((wish.shows_all || (around.shows_all && is_from_environment)) && !wish.partitions.empty())
    return FailAs("sinfo", "Conflicting options, --all and --partition specified.");
  if (wish.is_verbose) PrintOptions(wish.interval, {{"partition", wish.partitions}, {"nodes", wish.nodes}});
  for (;;) {
    const auto text = Draw(wish);
    if (!text) return FailAs("sinfo", text.error());
    PrintAnswer(*text, wish.form);
    std::fflush(stdout);
    if (!WaitForNextRound(wish.interval)) return 0;
  }
}

}  // namespace divvy::cli
