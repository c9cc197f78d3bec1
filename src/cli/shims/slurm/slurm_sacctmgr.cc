// sacctmgr: lists users, accounts and limits, for programs that check them before they submit. It changes nothing;
// divvy teams does that.
#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include "base/text.h"
#include "cli/shims/slurm_look/slurm.h"
#include "cli/shims/slurm_look/slurm_common.h"
#include "cli/shims/slurm_look/slurm_json.h"
#include "cli/shims/slurm_look/slurm_team_scene.h"

namespace divvy::cli {
namespace {

using namespace slurm;
using dialect::Takes;

struct SacctmgrFlags {
  TableFlags table;
  AnswerForm form;
  std::vector<std::string> fields;
  bool has_associations = false;
  TeamEntity entity = TeamEntity::kUser;
  /// The accepted values of each field that the command filters by.
  std::map<std::string, std::set<std::string>> only;
};

std::vector<dialect::Option> SacctmgrTable(SacctmgrFlags& wish) {
  std::vector<dialect::Option> options = {
      Flag("noheader", 'n', "No header", wish.table.has_no_header),
      Flag("parsable", 'p', "Fields with | after each", wish.table.is_parsable),
      Flag("parsable2", 'P', "Fields with | between them", wish.table.is_parsable2),
      Flag("associations", 's', "Include associations", wish.has_associations),
      List("format", 'o', "FIELDS", "Fields, optionally with %WIDTH", wish.fields),
  };
  for (const auto& [name, letter] :
       {std::pair("immediate", 'i'), std::pair("quiet", 'Q'), std::pair("readonly", 'r'), std::pair("verbose", 'v'),
        std::pair("oneliner", '\0'), std::pair("local", '\0')}) {
    options.push_back(Ignored(name, letter, Takes::kNothing));
  }
  AddAnswerForms(options, wish.form);
  return options;
}

/// Parses a word after the kind of record: "where", "user=ada,grace", "format=account%20", "withassoc", "ada".
Status ReadCondition(const std::string& word, SacctmgrFlags& wish) {
  const std::string lower = ToLower(word);
  if (lower == "where" || lower == "and") return {};
  if (lower.starts_with("withas")) wish.has_associations = true;
  if (lower.starts_with("with") || lower.starts_with("wo") || lower == "tree" || lower.starts_with("onlydef"))
    return {};
  const auto equals = word.find('=');
  if (equals == std::string::npos) {
    wish.only["name"].insert(word);
    return {};
  }
  std::string name = lower.substr(0, equals);
  std::vector<std::string> values;
  for (const std::string_view value : Split(std::string_view(word).substr(equals + 1), ',')) {
    if (!value.empty()) values.emplace_back(value);
  }
  if (name.starts_with("form")) {
    wish.fields.insert(wish.fields.end(), values.begin(), values.end());
    return {};
  }
  if (name.ends_with('s') && name != "qos") name.pop_back();
  if (name.starts_with("order")) return {};
  if (name.starts_with("acc")) name = "account";
  if (name.starts_with("defaulta")) name = "defaultaccount";
  if (name.starts_with("parent")) name = "parentname";
  constexpr std::string_view kKnown[] = {"name",           "user",       "account",   "cluster", "qo",         "qos",
                                         "defaultaccount", "parentname", "partition", "id",      "adminlevel", "type"};
  if (std::ranges::find(kKnown, name) == std::ranges::end(kKnown)) return InvalidArgument("Unknown condition: " + word);
  if (name == "qo") name = "qos";
  wish.only[name].insert(values.begin(), values.end());
  return {};
}

bool IsWanted(const TeamRow& row, const SacctmgrFlags& wish) {
  return std::ranges::all_of(wish.only, [&](const auto& condition) {
    const auto value = row.find(condition.first);
    return value != row.end() && condition.second.contains(value->second);
  });
}

int Show(SacctmgrFlags wish, const std::vector<std::string>& words) {
  if (words.empty())
    return FailAs("sacctmgr",
                  "name what to list: user, account, association, cluster, qos or tres; as in sacctmgr show user");
  const auto entity = TeamEntityOf(words.front());
  if (!entity) return FailAs("sacctmgr", entity.error().message);
  wish.entity = *entity;
  for (auto word = words.begin() + 1; word != words.end(); ++word) {
    if (const Status read = ReadCondition(*word, wish); !read) return FailAs("sacctmgr", read.error().message);
  }
  if (wish.fields.empty()) {
    for (const std::string_view field : Split(TeamFieldsOf(wish.entity, wish.has_associations), ','))
      wish.fields.emplace_back(field);
  }
  auto api = Api::Connect();
  if (!api) return FailAs("sacctmgr", api.error());
  const auto teams = FetchTeams(*api);
  if (!teams) return FailAs("sacctmgr", teams.error());
  std::vector<TeamRow> rows = TeamRows(wish.entity, *teams, TeamSceneOf(*api), wish.has_associations);
  std::erase_if(rows, [&](const TeamRow& row) { return !IsWanted(row, wish); });
  if (wish.form.any()) {
    PrintAnswer(RecordsJson("sacctmgr", TeamEntityKey(wish.entity), rows), wish.form);
    return 0;
  }
  const auto text = FormatTeams(rows, wish.fields, wish.table.style());
  if (!text) return FailAs("sacctmgr", text.error().message);
  std::fputs(text->c_str(), stdout);
  return 0;
}

}  // namespace

int SacctmgrMain(const std::vector<std::string>& words) {
  SacctmgrFlags wish;
  const std::vector<dialect::Option> options = SacctmgrTable(wish);
  if (Greets("sacctmgr",
             "[OPTIONS] show user|account|association|cluster|qos|tres [where] [NAME=VALUE...] [format=...]", options,
             words))
    return 0;
  const auto parsed = dialect::ParseOptions(options, words);
  if (!parsed) return FailAs("sacctmgr", parsed.error().message);
  if (wish.form.lists_parsers) return PrintParsers();
  if (parsed->positional.empty()) return FailAs("sacctmgr", "name a verb: show, list, version");
  const std::string verb = ToLower(parsed->positional.front());
  const auto is = [&](std::string_view name) { return verb.size() >= 2 && name.starts_with(verb); };
  if (is("show") || is("list")) return Show(wish, {parsed->positional.begin() + 1, parsed->positional.end()});
  if (is("version")) return PrintVersion();
  return FailAs("sacctmgr", verb + " is not done through sacctmgr here; divvy teams changes who shares what");
}

}  // namespace divvy::cli
