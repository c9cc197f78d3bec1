// divvy teams: teams and users, their shares and limits, and their usage.
#include <algorithm>
#include <cstdio>

#include "base/text.h"
#include "cli/client/api.h"
#include "cli/client/commands.h"
#include "cli/client/shown_answer.h"
#include "cli/client/table.h"
#include "wire/messages/codec.h"
#include "wire/messages/messages_teams.h"

namespace divvy::cli {
namespace {

using dialect::Option;

struct Flags {
  ListingOptions listing;
  TeamChange team;
  UserChange user;
};

Result<double> ReadAmount(std::string_view text) {
  const auto number = ParseNumber(Trim(text));
  if (!number || *number < 0)
    return InvalidArgument("'" + std::string(text) + "' is not an amount; write 4, 2.5, or none");
  return *number;
}

/// Accepts an amount; "none" clears it.
dialect::Apply IntoAmount(std::optional<double>& target, std::vector<std::string>& clear, std::string what) {
  return [&target, &clear, what](std::string_view value) -> Status {
    if (value == "none") {
      clear.push_back(what);
      return {};
    }
    DIVVY_TRY(target, ReadAmount(value));
    return {};
  };
}

dialect::Apply IntoCount(std::optional<std::int64_t>& target, std::vector<std::string>* clear, std::string what) {
  return [&target, clear, what](std::string_view value) -> Status {
    if (clear != nullptr && value == "none") {
      clear->push_back(what);
      return {};
    }
    const auto number = ParseInteger(Trim(value));
    if (!number) {
      return InvalidArgument("'" + std::string(value) + "' is not a whole number; write a number such as 8" +
                             (clear != nullptr ? ", or none" : ""));
    }
    target = *number;
    return {};
  };
}

dialect::Apply IntoNames(std::vector<std::string>& target) {
  return [&target](std::string_view value) -> Status {
    for (const std::string_view name : Split(value, ',')) {
      if (!Trim(name).empty()) target.emplace_back(Trim(name));
    }
    return {};
  };
}

void AddCaps(std::vector<Option>& table, CapsChange& caps, std::vector<std::string>& clear) {
  table.push_back(Option::Value("max-running", "N",
                                "How many jobs may run at once; 0 allows none, none clears the limit",
                                IntoCount(caps.running, &clear, "running")));
  table.push_back(Option::Value("max-queued", "N", "How many jobs may be queued; none clears the limit",
                                IntoCount(caps.queued, &clear, "queued")));
  table.push_back(Option::Value("gpu-hours", "HOURS", "Budget in GPU-hours for each period",
                                IntoAmount(caps.gpu_hours, clear, "gpu_hours")));
  table.push_back(Option::Value("cost", "AMOUNT", "Budget in cost for each period ([prices] in divvy.toml)",
                                IntoAmount(caps.cost, clear, "cost")));
  table.push_back(Option::Value("period", "PERIOD", "Period of the budgets: day, week or month, in UTC",
                                dialect::Keeps(caps.period)));
}

std::vector<Option> TeamTable(TeamChange& team) {
  std::vector<Option> table;
  table.push_back(Option::Value("parent", "TEAM", "Parent team; none moves the team to the top level",
                                [&team](std::string_view value) -> Status {
                                  if (value == "none") team.clear.emplace_back("parent");
                                  else team.parent = std::string(value);
                                  return {};
                                }));
  table.push_back(Option::Value("quota", 'q', "GPUS", "Guaranteed GPUs; none clears the quota",
                                IntoAmount(team.quota, team.clear, "quota")));
  table.push_back(Option::Value("limit", "GPUS", "Most GPUs that its jobs may use at once; none clears the limit",
                                IntoAmount(team.limit, team.clear, "limit")));
  table.push_back(Option::Value("weight", "N", "Weight for sharing the GPUs that no quota covers (default: 1)",
                                IntoCount(team.weight, nullptr, "")));
  table.push_back(Option::Value("priority", "N",
                                "Priority for those GPUs; teams with a higher priority come first (default: 0)",
                                IntoCount(team.priority, nullptr, "")));
  table.push_back(Option::Value("user", 'u', "NAMES", "Users to add, comma-separated; '*' means every user",
                                IntoNames(team.add_users)));
  table.push_back(Option::Value("group", "NAMES", "System groups whose users to add", IntoNames(team.add_groups)));
  table.push_back(Option::Value("remove-user", "NAMES", "Users to remove", IntoNames(team.remove_users)));
  table.push_back(Option::Value("remove-group", "NAMES", "Groups to remove", IntoNames(team.remove_groups)));
  table.push_back(Option::Value("lead", "NAMES",
                                "Team leads to add: they may manage the jobs of this team and of teams below it",
                                IntoNames(team.add_leads)));
  table.push_back(Option::Value("remove-lead", "NAMES", "Team leads to remove", IntoNames(team.remove_leads)));
  AddCaps(table, team.caps, team.clear);
  return table;
}

std::vector<Option> UserTable(UserChange& user) {
  std::vector<Option> table;
  table.push_back(Option::Value("team", "TEAM", "Default team of the user; none clears it",
                                [&user](std::string_view value) -> Status {
                                  if (value == "none") user.clear.emplace_back("team");
                                  else user.team = std::string(value);
                                  return {};
                                }));
  table.push_back(Option::Value("max-gpus", "N",
                                "Most GPUs that the user's jobs may use at once; 0 allows none, none clears the limit",
                                IntoCount(user.gpus, &user.clear, "gpus")));
  AddCaps(table, user.caps, user.clear);
  table.push_back(Option::Flag("clear", "Clear every setting of this user", [&user](std::string_view) -> Status {
    user.clear.emplace_back("all");
    return {};
  }));
  return table;
}

/// `has_nodes`: a team has money for nodes of providers, or spent some.
std::vector<Column> TeamColumns(bool has_nodes) {
  return {{"TEAM", false, true, false},      {"QUOTA", true, true, false},  {"LIMIT", true, true, false},
          {"SHARE", true, true, false},      {"GPUS", true, true, false},   {"RUNNING", true, true, false},
          {"QUEUED", true, true, false},     {"USED", true, true, false},   {"LEFT", true, true, false},
          {"NODES", true, has_nodes, false}, {"NOTE", false, true, true},   {"WEIGHT", true, false, false},
          {"PRIORITY", true, false, false},  {"USERS", false, false, true}, {"GROUPS", false, false, true},
          {"LEADS", false, false, true},     {"COST", true, false, false},  {"PARENT", false, false, false}};
}

/// At most two decimals, without trailing zeros.
std::string Number(double value) {
  char text[64];
  std::snprintf(text, sizeof text, "%.2f", value);
  std::string trimmed = text;
  while (trimmed.back() == '0') trimmed.pop_back();
  if (trimmed.back() == '.') trimmed.pop_back();
  return trimmed;
}
std::string Number(const std::optional<double>& value) { return value ? Number(*value) : "-"; }
std::string OfMost(std::int64_t value, const std::optional<std::int64_t>& most) {
  return std::to_string(value) + (most ? "/" + std::to_string(*most) : "");
}

std::string Left(const wire::TeamView& view) {
  std::string left;
  if (view.budget_gpu_hours) left = Number(std::max(0.0, *view.budget_gpu_hours - view.used_gpu_hours)) + " GPU-h";
  if (view.budget_cost) {
    left += (left.empty() ? "" : ", ") + Number(std::max(0.0, *view.budget_cost - view.used_cost));
  }
  return left.empty() ? "" : left + " a " + view.period;
}

/// The price of the team's nodes on demand in an hour, and their cost in this month: "24/30 h, 310.5/2000 mo".
std::string Nodes(const wire::TeamView& view) {
  if (!view.max_per_hour && !view.max_per_month && view.nodes_this_month <= 0 && view.nodes_per_hour <= 0) return "";
  const auto text = [](double spent, const std::optional<double>& most) {
    return Number(spent) + (most ? "/" + Number(*most) : "");
  };
  return text(view.nodes_per_hour, view.max_per_hour) + " h, " + text(view.nodes_this_month, view.max_per_month) +
         " mo";
}

std::vector<Cell> Row(const wire::TeamView& view) {
  const std::string name =
      std::string(static_cast<std::size_t>(2 * std::min<std::int64_t>(view.depth, 16)), ' ') + view.name;
  const std::string note = !view.blocker.empty() ? view.blocker : view.is_from_file ? "divvy.toml" : "";
  return {{name, Colour::kBold},
          {Number(view.quota), Colour::kNone},
          {Number(view.limit), Colour::kNone},
          {Number(view.share), Colour::kNone},
          {Number(view.gpus), Colour::kNone},
          {OfMost(view.running, view.running_limit), Colour::kNone},
          {OfMost(view.queued, view.queued_limit), Colour::kNone},
          {Number(view.used_gpu_hours) + " GPU-h", Colour::kNone},
          {Left(view), Colour::kNone},
          {Nodes(view), Colour::kNone},
          {note, view.blocker.empty() ? Colour::kDim : Colour::kRed},
          {std::to_string(view.weight), Colour::kNone},
          {std::to_string(view.priority), Colour::kNone},
          {Join(view.users, ","), Colour::kNone},
          {Join(view.groups, ","), Colour::kNone},
          {Join(view.leads, ","), Colour::kNone},
          {Number(view.used_cost), Colour::kNone},
          {view.parent, Colour::kNone}};
}

const std::vector<Column>& UserColumns() {
  static const std::vector<Column> columns = {
      {"USER", false, true, false},   {"TEAM", false, true, false},  {"GPUS", true, true, false},
      {"RUNNING", true, true, false}, {"QUEUED", true, true, false}, {"USED", true, true, false},
      {"LEFT", true, true, false},    {"NOTE", false, true, true},   {"COST", true, false, false}};
  return columns;
}

std::vector<Cell> UserRow(const wire::TeamView& view) {
  return {
      {view.name, Colour::kBold},
      {view.team.empty() ? "-" : view.team, Colour::kNone},
      {view.gpu_limit ? Number(view.gpus) + "/" + std::to_string(*view.gpu_limit) : Number(view.gpus), Colour::kNone},
      {OfMost(view.running, view.running_limit), Colour::kNone},
      {OfMost(view.queued, view.queued_limit), Colour::kNone},
      {Number(view.used_gpu_hours) + " GPU-h", Colour::kNone},
      {Left(view), Colour::kNone},
      {view.is_from_file  ? "divvy.toml"
       : view.name == "*" ? "users without settings"
                          : "",
       Colour::kDim},
      {Number(view.used_cost), Colour::kNone}};
}

Result<wire::TeamsView> AskTeams() {
  DIVVY_TRY(Api api, Api::Connect());
  DIVVY_TRY(const std::string text, api.Raw("GET", "/v1/teams", ""));
  return DecodeShown<wire::TeamsView>(text);
}

int ListTeams(const ListingOptions& listing, bool are_users) {
  return ShowListing(listing, [&]() -> Result<std::string> {
    DIVVY_TRY(const wire::TeamsView view, AskTeams());
    if (listing.json) return wire::Encode(view) + "\n";
    std::vector<std::vector<Cell>> rows;
    for (const wire::TeamView& row : are_users ? view.users : view.teams)
      rows.push_back(are_users ? UserRow(row) : Row(row));
    if (rows.empty() && !listing.csv)
      return std::string(
          are_users ? "No users with jobs or settings.\n"
                    : "No teams; all users share equally. To create one: divvy teams add NAME --quota 4 --user ada\n");
    const bool has_nodes = std::ranges::any_of(view.teams, [](const auto& team) { return !Nodes(team).empty(); });
    DIVVY_TRY(std::string text, RenderTable(are_users ? UserColumns() : TeamColumns(has_nodes), rows, listing));
    if (!listing.csv && !are_users && view.are_quotas_on)
      text += "Quotas are on: a team without a quota, or with quota 0, has no access.\n";
    return text;
  });
}

void Line(std::string_view label, const std::string& value) {
  if (!value.empty()) std::printf("%-12s %s\n", (std::string(label) + ":").c_str(), value.c_str());
}

void ShowLoad(const wire::TeamView& view) {
  Line("now", Number(view.gpus) + (view.gpus == 1 ? " GPU" : " GPUs") + ", " +
                  OfMost(view.running, view.running_limit) + " running, " + OfMost(view.queued, view.queued_limit) +
                  " queued");
  Line("used", Number(view.used_gpu_hours) + " GPU-hours" + (view.period.empty() ? "" : " this " + view.period) +
                   (view.used_cost > 0 ? ", cost " + Number(view.used_cost) : ""));
  Line("budget left", Left(view));
}

void ShowTeam(const wire::TeamView& team) {
  Line("team",
       team.name + (team.parent.empty() ? "" : ", in " + team.parent) + (team.is_from_file ? ", from divvy.toml" : ""));
  Line("blocked", team.blocker);
  Line("quota", team.quota ? Number(team.quota) + " GPUs" : "none");
  Line("limit", team.limit ? Number(team.limit) + " GPUs" : "none");
  Line("share", team.share ? Number(team.share) + " GPUs now" : "");
  Line("weight", std::to_string(team.weight) + ", priority " + std::to_string(team.priority));
  Line("users", Join(team.users, ", "));
  Line("groups", Join(team.groups, ", "));
  Line("leads", Join(team.leads, ", "));
  ShowLoad(team);
}

void ShowUser(const wire::TeamView& user) {
  Line("user", user.name + (user.is_from_file ? ", from divvy.toml" : ""));
  Line("team", user.team);
  Line("limit", user.gpu_limit ? Plural(*user.gpu_limit, "GPU") + " at once" : "none");
  ShowLoad(user);
}

/// Shows the team of that name, or else the user.
int Show(const std::string& name, bool is_json) {
  DIVVY_TRY_OR_FAIL(const auto view, AskTeams());
  const auto find = [&](const std::vector<wire::TeamView>& rows) {
    const auto at = std::ranges::find(rows, name, &wire::TeamView::name);
    return at == rows.end() ? nullptr : &*at;
  };
  const wire::TeamView* team = find(view.teams);
  const wire::TeamView* user = team == nullptr ? find(view.users) : nullptr;
  if (team == nullptr && user == nullptr) {
    return Fail(
        NotFound("there is no team " + name +
                 ", and no user of that name with jobs or settings; divvy teams and divvy teams users list them"));
  }
  if (is_json) std::printf("%s\n", wire::Encode(team != nullptr ? *team : *user).c_str());
  else if (team != nullptr) ShowTeam(*team);
  else ShowUser(*user);
  return 0;
}

int Send(const std::string& path, const std::string& body) {
  DIVVY_TRY_OR_FAIL(auto api, Api::Connect());
  DIVVY_TRY_OR_FAIL(const auto text, api.Raw("POST", path, body));
  DIVVY_TRY_OR_FAIL(const auto answer, DecodeShown<wire::MessageAnswer>(text));
  std::printf("%s\n", answer.message.c_str());
  return 0;
}

int ChangeTeam(const Words& words, bool is_new) {
  TeamChange team;
  team.is_new = is_new;
  std::vector<Option> table = TeamTable(team);
  table.push_back(Option::Value("max-gpus", "N", "", [](std::string_view) -> Status {
                    return InvalidArgument(
                        "this limit applies to users (divvy teams user NAME); for a team use --limit");
                  }).Hidden());
  DIVVY_TRY_OR_FAIL(const auto parsed, dialect::ParseOptions(table, words));
  if (parsed.positional.size() != 1)
    return Fail(InvalidArgument(std::string("usage: divvy teams ") + (is_new ? "add" : "set") +
                                " NAME [--quota GPUS] [--limit GPUS] [--user NAMES] ..."));
  team.name = parsed.positional.front();
  return Send("/v1/teams", wire::EncodeChanged(team));
}

int ChangeUser(const Words& words) {
  UserChange user;
  DIVVY_TRY_OR_FAIL(const auto parsed, dialect::ParseOptions(UserTable(user), words));
  if (parsed.positional.size() != 1)
    return Fail(InvalidArgument(
        "usage: divvy teams user NAME [--team TEAM] [--max-gpus N] [--max-running N] ... ('*': everybody)"));
  user.user = parsed.positional.front();
  return Send("/v1/teams/users", wire::EncodeChanged(user));
}

}  // namespace

std::vector<Option> TeamsOptions() {
  static Flags scratch;
  std::vector<Option> table = ListingOptionTable(scratch.listing);
  std::vector<Option> changes = TeamTable(scratch.team);
  // Add the options that apply to users but not to teams.
  for (Option& option : UserTable(scratch.user)) {
    if (option.name == std::string_view("team") || option.name == std::string_view("max-gpus"))
      changes.push_back(std::move(option));
  }
  for (Option& option : changes) table.push_back(std::move(option));
  return table;
}

int TeamsMain(const Words& words) {
  const std::string verb = words.empty() || words.front().starts_with("-") ? "list" : words.front();
  const Words rest(words.begin() + (verb == "list" && (words.empty() || words.front() != "list") ? 0 : 1), words.end());
  if (verb == "add" || verb == "set") return ChangeTeam(rest, verb == "add");
  if (verb == "user") return ChangeUser(rest);
  if (verb == "rm" || verb == "remove") {
    if (rest.size() != 1) return Fail(InvalidArgument("usage: divvy teams rm NAME"));
    return Send("/v1/teams/remove", wire::EncodeChanged(wire::TeamName{rest.front()}));
  }
  if (verb == "quotas") {
    if (rest.size() != 1 || (rest.front() != "on" && rest.front() != "off"))
      return Fail(InvalidArgument("usage: divvy teams quotas on|off"));
    return Send("/v1/teams/quotas", wire::EncodeChanged(wire::QuotasRequest{rest.front() == "on"}));
  }
  ListingOptions listing;
  DIVVY_TRY_OR_FAIL(const auto parsed, dialect::ParseOptions(ListingOptionTable(listing), rest));
  if (verb == "show" && parsed.positional.size() == 1) return Show(parsed.positional.front(), listing.json);
  if (verb == "show") return Fail(InvalidArgument("usage: divvy teams show NAME"));
  if ((verb == "list" || verb == "users") && parsed.positional.empty()) return ListTeams(listing, verb == "users");
  return Fail(InvalidArgument("divvy teams: unknown command '" + verb +
                              "'; use list, show, add, set, rm, user, users or quotas"));
}

}  // namespace divvy::cli
