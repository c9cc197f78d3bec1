// sshare: shares and usage of teams and their users.
#include <algorithm>
#include <cstdio>

#include "base/text.h"
#include "cli/shims/slurm_look/slurm.h"
#include "cli/shims/slurm_look/slurm_common.h"
#include "cli/shims/slurm_look/slurm_json.h"
#include "cli/shims/slurm_look/slurm_team_scene.h"

namespace divvy::cli {
namespace {

using namespace slurm;
using dialect::Takes;

struct SshareFlags {
  TableFlags table;
  AnswerForm form;
  std::vector<std::string> fields;
  std::vector<std::string> users;
  std::vector<std::string> accounts;
  bool is_all = false;
  bool is_long = false;
  bool is_users_only = false;
};

std::vector<dialect::Option> SshareTable(SshareFlags& wish) {
  std::vector<dialect::Option> options = {
      Flag("noheader", 'n', "No header", wish.table.has_no_header),
      Flag("noheader-h", 'h', "No header", wish.table.has_no_header),
      Flag("parsable", 'p', "Fields with | after each", wish.table.is_parsable),
      Flag("parsable2", 'P', "Fields with | between them", wish.table.is_parsable2),
      List("format", 'o', "FIELDS", "Fields, optionally with %WIDTH", wish.fields),
      List("users", 'u', "NAMES", "These users, or all", wish.users),
      List("accounts", 'A', "NAMES", "These accounts", wish.accounts),
      Flag("all", 'a', "All users", wish.is_all),
      Flag("long", 'l', "More fields", wish.is_long),
      Flag("Users", 'U', "Only users", wish.is_users_only),
  };
  options[1].is_hidden = true;
  options[5].aliases = {"uid"};
  for (const auto& [name, letter] : {std::pair("partition", 'm'), std::pair("verbose", 'v'), std::pair("local", '\0')})
    options.push_back(Ignored(name, letter, Takes::kNothing));
  options.push_back(Ignored("clusters", 'M', Takes::kValue));
  AddAnswerForms(options, wish.form);
  return options;
}

bool IsAmong(const std::vector<std::string>& list, std::string_view value) {
  return std::ranges::find(list, value) != list.end();
}

bool IsWanted(const TeamRow& row, const SshareFlags& wish, const std::string& caller) {
  const std::string& user = row.at("user");
  const std::string_view account = Trim(row.at("account"));
  if (!wish.accounts.empty() && !IsAmong(wish.accounts, account)) return false;
  if (user.empty()) return !wish.is_users_only;
  if (wish.is_all || IsAmong(wish.users, "all") || IsAmong(wish.users, "ALL")) return true;
  return wish.users.empty() ? user == caller : IsAmong(wish.users, user);
}

}  // namespace

int SshareMain(const std::vector<std::string>& words) {
  SshareFlags wish;
  const std::vector<dialect::Option> options = SshareTable(wish);
  if (Greets("sshare", "[OPTIONS]", options, words)) return 0;
  const auto parsed = dialect::ParseOptions(options, words);
  if (!parsed) return FailAs("sshare", parsed.error().message);
  if (!parsed->positional.empty()) return FailAs("sshare", "unexpected word '" + parsed->positional.front() + "'");
  if (wish.form.lists_parsers) return PrintParsers();
  if (wish.fields.empty()) {
    for (const std::string_view field : Split(wish.is_long ? kShareLong : kShareFields, ','))
      wish.fields.emplace_back(field);
  }
  auto api = Api::Connect();
  if (!api) return FailAs("sshare", api.error());
  const auto teams = FetchTeams(*api);
  if (!teams) return FailAs("sshare", teams.error());
  const TeamScene scene = TeamSceneOf(*api);
  std::vector<TeamRow> rows = ShareRows(*teams, scene);
  std::erase_if(rows, [&](const TeamRow& row) { return !IsWanted(row, wish, scene.user); });
  if (wish.form.any()) {
    PrintAnswer(RecordsJson("sshare", "shares", rows), wish.form);
    return 0;
  }
  const auto text = FormatShares(rows, wish.fields, wish.table.style());
  if (!text) return FailAs("sshare", text.error().message);
  std::fputs(text->c_str(), stdout);
  return 0;
}

}  // namespace divvy::cli
