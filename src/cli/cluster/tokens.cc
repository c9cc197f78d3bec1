// divvy token, login and logout: access for command lines on other machines.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <iostream>
#include <string>

#include "base/duration_text.h"
#include "base/text.h"
#include "cli/client/actions.h"
#include "cli/client/api.h"
#include "cli/client/commands.h"
#include "cli/client/http_client.h"
#include "cli/client/job_text.h"
#include "cli/client/login.h"
#include "cli/client/shown_answer.h"
#include "cli/client/table.h"
#include "dialect/options/quantities.h"
#include "platform/os/runtime_paths.h"
#include "wire/http/token_line.h"
#include "wire/messages/codec.h"
#include "wire/messages/messages_remote.h"
#include "wire/messages/messages_teams.h"

namespace divvy::cli {
namespace {

using dialect::Option;

/// Node tokens expire soon, because a node usually joins right after its token was created.
constexpr double kNodeTokenLives = 3600;
constexpr double kForEver = 0;
constexpr double kUnsaid = -1;

std::vector<Option> CreateTable(wire::TokenRequest& request) {
  std::vector<Option> table;
  table.push_back(
      Option::Value("user", 'u', "NAME", "User that the token acts for (default: you)", dialect::Keeps(request.user)));
  table.push_back(Option::Value("role", 'r', "ROLE", "Role: viewer (read-only), user or admin (default: user)",
                                [&request](std::string_view value) -> Status {
                                  if (request.role == "node" && value != "node")
                                    return InvalidArgument("a node token has no role; omit --role or --node");
                                  request.role = std::string(value);
                                  return {};
                                }));
  table.push_back(Option::Flag("node", "Token with which a machine joins as a node (divvy agent --join)",
                               [&request](std::string_view) -> Status {
                                 if (request.role != wire::TokenRequest().role && request.role != "node")
                                   return InvalidArgument("a node token has no role; omit --role " + request.role);
                                 request.role = "node";
                                 return {};
                               }));
  table.push_back(Option::Value("uses", "N", "With --node: how many machines may join with it (default: 1)",
                                [&request](std::string_view value) -> Status {
                                  const auto uses = ParseInteger(value);
                                  if (!uses || *uses < 1) return InvalidArgument("write a whole number of 1 or more");
                                  request.uses = *uses;
                                  return {};
                                }));
  table.push_back(
      Option::Value("label", 'l', "TEXT", "Label for the list, such as laptop", dialect::Keeps(request.label)));
  table.push_back(Option::Value("expires", 'e', "TIME", "Lifetime: 12h, 30d or never (default: 30d; with --node 1h)",
                                [&request](std::string_view value) -> Status {
                                  request.lifetime_s = kForEver;
                                  if (value == "never") return {};
                                  DIVVY_TRY(const Duration span, dialect::ParseDuration(value, std::chrono::hours(1)));
                                  if (span <= Duration(0))
                                    return InvalidArgument("the lifetime must be above 0, or never");
                                  request.lifetime_s = ToSeconds(span);
                                  return {};
                                }));
  table.push_back(Option::Value("at", "HOST[:PORT]", "Address under which the other machine reaches this one",
                                dialect::Keeps(request.at)));
  return table;
}

const std::vector<Column>& TokenColumns() {
  static const std::vector<Column> columns = {{"ID", false, true, false},      {"USER", false, true, false},
                                              {"ROLE", false, true, false},    {"LABEL", false, true, true},
                                              {"EXPIRES", false, true, false}, {"MADE", false, true, false, true},
                                              {"BY", false, true, false, true}};
  return columns;
}

/// Restricts the file to its owner. A shell's ">" makes files that everybody can read, and such a token file is refused
/// later.
void CloseToOthers(int fd) {
  struct stat facts {};
  constexpr mode_t kOwners = 0600;
  if (::fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_uid == ::geteuid() && facts.st_nlink == 1)
    static_cast<void>(::fchmod(fd, kOwners));
}

/// For programs only the time, "" for never.
std::string ExpiryOf(const wire::TokenView& view, bool is_csv) {
  if (is_csv) return view.expires == 0 ? "" : Moment(view.expires);
  if (view.expires == 0) return "never";
  // A node token that has no uses left expired when it was used up.
  const bool is_used_up = view.role == "node" && view.uses_left == 0;
  if (is_used_up) return "used up " + DayAndTime(view.expires);
  return DayAndTime(view.expires) + (view.has_expired ? " (has expired)" : "");
}

std::vector<Cell> Row(const wire::TokenView& view, bool is_csv) {
  return {{view.id, Colour::kBold},
          {view.user, Colour::kNone},
          {view.role, Colour::kNone},
          {view.label, Colour::kNone},
          {ExpiryOf(view, is_csv), view.has_expired ? Colour::kRed : Colour::kNone},
          {is_csv ? Moment(view.made_at) : DayAndTime(view.made_at), Colour::kNone},
          {view.made_by, Colour::kNone}};
}

Result<std::vector<wire::TokenView>> AskTokens(Api& api) {
  DIVVY_TRY(const std::string text, api.Raw("GET", "/v1/tokens", ""));
  return DecodeShown<std::vector<wire::TokenView>>(text);
}

int ListTokens(const Words& words) {
  ListingOptions options;
  const auto parsed = dialect::ParseOptions(ListingOptionTable(options), words);
  if (!parsed) return Fail(parsed.error());
  return ShowListing(options, [&]() -> Result<std::string> {
    DIVVY_TRY(Api api, Api::Connect());
    DIVVY_TRY(const auto views, AskTokens(api));
    if (options.json) return wire::Encode(views) + "\n";
    if (views.empty() && !options.csv) return std::string("No tokens; divvy token create creates one.\n");
    std::vector<std::vector<Cell>> rows;
    for (const auto& view : views) rows.push_back(Row(view, options.csv));
    return RenderTable(TokenColumns(), rows, options);
  });
}

/// The public key of this machine's launcher. Empty for a user's own daemon, which has no launcher.
std::string LauncherKey() {
  const auto text = CallerParseContext().read_file(FindPlaces().launcher_key);
  return text ? std::string(Trim(*text)) : "";
}

int Create(const Words& words) {
  wire::TokenRequest request;
  const double usual_life = request.lifetime_s;
  request.lifetime_s = kUnsaid;
  DIVVY_TRY_OR_FAIL(const auto parsed, dialect::ParseOptions(CreateTable(request), words));
  if (!parsed.positional.empty()) {
    return Fail(InvalidArgument("divvy token create takes no argument '" + parsed.positional.front() +
                                "'; for another user, write divvy token create --user NAME"));
  }
  const bool is_for_node = request.role == "node";
  if (request.lifetime_s == kUnsaid) request.lifetime_s = is_for_node ? kNodeTokenLives : usual_life;
  if (is_for_node && !request.user.empty())
    return Fail(InvalidArgument("a --node token belongs to no user; omit --user"));
  if (request.uses != 1 && !is_for_node) return Fail(InvalidArgument("--uses works only with --node"));
  DIVVY_TRY_OR_FAIL(auto api, Api::Connect());
  DIVVY_TRY_OR_FAIL(const auto text, api.Raw("POST", "/v1/tokens", wire::EncodeChanged(request)));
  DIVVY_TRY_OR_FAIL(const auto answer, DecodeShown<wire::TokenAnswer>(text));
  DIVVY_TRY_OR_FAIL(auto line, ParseTokenLine(answer.line));
  // Read the key from root's own file. The daemon could send a wrong one.
  line.launcher_key = is_for_node && !api.is_remote() ? LauncherKey() : "";
  // Print only the line to standard output, so that it can be redirected to a file or a pipe. It is shown only once.
  const auto lives = std::chrono::seconds(static_cast<std::int64_t>(request.lifetime_s));
  const std::string life = request.lifetime_s > 0 ? "valid for " + DurationText(lives) + " (--expires)"
                                                  : "valid until divvy token remove removes it";
  // Under root's daemon, agents of other machines run as root too.
  const std::string agent = std::string(line.launcher_key.empty() ? "" : "sudo ") + "divvy agent";
  const bool is_on_terminal = ::isatty(STDOUT_FILENO) == 1;
  const std::string what_next =
      !is_for_node     ? "run divvy login and paste this line:"
      : is_on_terminal ? "run " + agent + " --join - --detach and paste this line:"
                       : "run " + agent + " --join-file FILE --detach, where FILE contains the printed line";
  std::fprintf(stderr, "%s; %s. On the other machine, %s\n", answer.message.c_str(), life.c_str(), what_next.c_str());
  CloseToOthers(STDOUT_FILENO);
  std::printf("%s\n", ToString(line).c_str());
  return 0;
}

int RemoveToken(const Words& words) {
  if (words.empty()) return Fail(InvalidArgument("name the ids of the tokens to remove; divvy token list shows them"));
  std::vector<std::string> bodies;
  for (const std::string& id : words) bodies.push_back(wire::EncodeChanged(wire::TokenName{id}));
  return PostEach("/v1/tokens/remove", bodies);
}

/// Reads the token line from a file, a terminal or a pipe. On a command line, every user could read it.
Result<TokenLine> AskForLine(const Words& words) {
  std::string text;
  if (words.size() == 1 && words.front().find('#') != std::string::npos) {
    text = words.front();
  } else if (words.size() == 1 && words.front() != "-") {
    std::FILE* file = std::fopen(words.front().c_str(), "re");
    if (file == nullptr) return NotFound("cannot read " + words.front());
    char line[4096] = "";
    static_cast<void>(!std::fgets(line, sizeof line, file));
    std::fclose(file);
    text = line;
  } else if (words.size() <= 1) {
    if (::isatty(STDIN_FILENO) == 1) std::fprintf(stderr, "Paste the line that divvy token create printed: ");
    std::getline(std::cin, text);
  } else {
    return InvalidArgument(
        "divvy login takes at most one argument: a file with the line that divvy token create printed");
  }
  return ParseTokenLine(text);
}

/// Adds the addresses of the cluster's other controllers, so that the login outlives the one that the line names.
Status LearnControllers(TokenLine& line) {
  DIVVY_TRY(HttpClient client, HttpClient::Connect(line));
  DIVVY_TRY(const HttpResponse response, client.Call("GET", "/leader"));
  const auto leader = wire::Decode<wire::LeaderView>(response.body);
  if (!leader) return {};  // An earlier release.
  for (const std::string& address : leader->controllers) {
    const auto at = ParseHostPort(address);
    if (at && *at != line.controller && std::ranges::find(line.others, *at) == line.others.end())
      line.others.push_back(*at);
  }
  return {};
}

}  // namespace

std::vector<Option> TokenOptions() {
  static wire::TokenRequest scratch;
  static ListingOptions listing;
  std::vector<Option> table = CreateTable(scratch);
  for (Option& option : ListingOptionTable(listing)) table.push_back(std::move(option));
  return table;
}

int TokenMain(const Words& words) {
  if (words.empty()) return ListTokens({});
  const Words rest(words.begin() + 1, words.end());
  if (words.front() == "create") return Create(rest);
  if (words.front() == "list") return ListTokens(rest);
  if (words.front() == "remove") return RemoveToken(rest);
  return Fail(InvalidArgument("divvy token: unknown command '" + words.front() + "'; use create, list or remove"));
}

int LoginMain(const Words& words) {
  DIVVY_TRY_OR_FAIL(auto line, AskForLine(words));
  if (const Status known = LearnControllers(line); !known) return Fail(known.error());
  DIVVY_TRY_OR_FAIL(auto api, Api::Connect(line));
  // Check that the controller accepts the token before it is stored.
  DIVVY_TRY_OR_FAIL(const auto tokens, AskTokens(api));
  if (const Status kept = KeepLogin(line); !kept) return Fail(kept.error());
  for (const wire::TokenView& view : tokens) {
    if (view.id != line.id) continue;
    std::printf("logged in at %s as %s (%s), until %s\n", ToString(line.controller).c_str(), view.user.c_str(),
                view.role.c_str(), ExpiryOf(view, false).c_str());
  }
  return 0;
}

int LogoutMain(const Words& words) {
  if (!words.empty()) return Fail(InvalidArgument("divvy logout takes no arguments"));
  DIVVY_TRY_OR_FAIL(const auto was_there, ForgetLogin());
  std::printf("%s\n", was_there ? "logged out; the token stays valid until you remove it: divvy token remove"
                                : "you were not logged in");
  return 0;
}

}  // namespace divvy::cli
