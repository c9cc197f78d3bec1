// divvy notify: who gets notifications about a user's jobs.
#include <cstdio>
#include <iostream>
#include <optional>
#include <string>

#include "base/text.h"
#include "cli/client/actions.h"
#include "cli/client/api.h"
#include "cli/client/commands.h"
#include "cli/client/job_text.h"
#include "cli/client/progress_indicator.h"
#include "cli/client/shown_answer.h"
#include "cli/client/table.h"
#include "wire/messages/codec.h"
#include "wire/messages/messages_teams.h"
#include "wire/messages/notify_messages.h"

namespace divvy::cli {
namespace {

using dialect::Option;

Result<std::string> FirstLine(const std::string& path) {
  std::FILE* file = path == "-" ? stdin : std::fopen(path.c_str(), "re");
  if (file == nullptr) return NotFound("cannot read " + path);
  char line[4096] = "";
  static_cast<void>(!std::fgets(line, sizeof line, file));
  if (file != stdin) std::fclose(file);
  return std::string(Trim(line));
}

std::vector<Option> AddTable(wire::ReceiverRequest& request) {
  std::vector<Option> table;
  table.push_back(Option::Value("on", 'e', "EVENTS",
                                "Events: start, end (also on failure), fail, requeue, waste or all (default: end)",
                                dialect::Keeps(request.events), {"events"}));
  table.push_back(Option::Value("webhook", "URL",
                                "POST JSON to this URL; - reads it from standard input, as it may contain a secret",
                                [&request](std::string_view value) -> Status {
                                  request.webhook = value;
                                  if (value == "-") {
                                    DIVVY_TRY(request.webhook, FirstLine("-"));
                                  }
                                  return {};
                                }));
  table.push_back(Option::Value(
      "secret-file", "FILE", "File whose first line is the key that signs the webhook's requests (default: a new key)",
      [&request](std::string_view value) -> Status {
        DIVVY_TRY(request.secret, FirstLine(std::string(value)));
        return {};
      }));
  table.push_back(Option::Value("command", "TEXT", "Run this shell command as you on the controller's host",
                                dialect::Keeps(request.command)));
  table.push_back(Option::Value("mail", "ADDRESS", "Send mail to this address", dialect::Keeps(request.mail)));
  table.push_back(Option::Flag("replace", "Replace your receiver of this name: its target, events and secret",
                               dialect::Sets(request.replaces)));
  return table;
}

const std::vector<Column>& NotificationColumns() {
  static const std::vector<Column> columns = {
      {"NAME", false, true, false},   {"OF", false, true, false},     {"EVENTS", false, true, true},
      {"BY", false, true, false},     {"TO", false, true, true},      {"SENT", true, true, false},
      {"LOST", true, true, false},    {"WAITING", true, true, false}, {"LAST SENT", false, true, false},
      {"FAILED", false, true, false}, {"TROUBLE", false, true, true}};
  return columns;
}

/// A missing time is "-", for programs "".
std::string MomentText(double time, bool is_csv) {
  if (is_csv) return time > 0 ? Moment(time) : "";
  return time > 0 ? DayAndTime(time) : "-";
}

std::vector<Cell> Row(const wire::ReceiverView& view, bool is_csv) {
  std::string trouble = view.failure;
  if (!trouble.empty() && view.waiting > 0 && view.next_try > 0)
    trouble += "; next try " + MomentText(view.next_try, is_csv);
  return {{view.name, Colour::kBold},
          {view.user.empty() ? "divvy.toml" : view.user, Colour::kNone},
          {view.events, Colour::kNone},
          {view.channel + (view.is_signed ? " (signed)" : ""), Colour::kNone},
          {view.target, Colour::kNone},
          {std::to_string(view.sent), Colour::kNone},
          {std::to_string(view.lost), view.lost > 0 ? Colour::kRed : Colour::kNone},
          {std::to_string(view.waiting), Colour::kNone},
          {MomentText(view.last_success, is_csv), Colour::kNone},
          {MomentText(view.last_failure, is_csv), view.failure.empty() ? Colour::kNone : Colour::kRed},
          {trouble, Colour::kRed}};
}

int List(const Words& words) {
  ListingOptions options;
  const auto parsed = dialect::ParseOptions(ListingOptionTable(options), words);
  if (!parsed) return Fail(parsed.error());
  return ShowListing(options, [&]() -> Result<std::string> {
    DIVVY_TRY(Api api, Api::Connect());
    DIVVY_TRY(const std::string text, api.Raw("GET", "/v1/notify", ""));
    DIVVY_TRY(const auto answer, DecodeShown<wire::NotifyAnswer>(text));
    if (options.json) return wire::Encode(answer) + "\n";
    if (!answer.is_on) return std::string("Notifications are off: [notify] on = false in divvy.toml.\n");
    if (answer.receivers.empty() && !options.csv)
      return std::string("No receivers; divvy notify add NAME --webhook URL creates one.\n");
    std::vector<std::vector<Cell>> rows;
    for (const auto& view : answer.receivers) rows.push_back(Row(view, options.csv));
    return RenderTable(NotificationColumns(), rows, options);
  });
}

int Add(const Words& words) {
  wire::ReceiverRequest request;
  DIVVY_TRY_OR_FAIL(const auto parsed, dialect::ParseOptions(AddTable(request), words));
  if (parsed.positional.size() != 1)
    return Fail(InvalidArgument("divvy notify add takes one name: divvy notify add phone --webhook URL"));
  request.name = parsed.positional.front();
  DIVVY_TRY_OR_FAIL(auto api, Api::Connect());
  DIVVY_TRY_OR_FAIL(const auto text, api.Raw("POST", "/v1/notify", wire::EncodeChanged(request)));
  DIVVY_TRY_OR_FAIL(const auto answer, DecodeShown<wire::ReceiverAnswer>(text));
  std::fprintf(stderr, "%s.\n", answer.message.c_str());
  if (answer.secret.empty()) return 0;
  // Print only the secret to standard output, so that it can be redirected to a file. It is shown only once.
  std::fprintf(stderr, "Its requests are signed. The secret is shown only this once:\n");
  std::printf("%s\n", answer.secret.c_str());
  return 0;
}

int Remove(const Words& words) {
  if (words.empty()) return Fail(InvalidArgument("name a receiver to remove; divvy notify list shows them"));
  std::vector<std::string> bodies;
  for (const std::string& name : words) bodies.push_back(wire::EncodeChanged(wire::ReceiverName{name}));
  return PostEach("/v1/notify/remove", bodies);
}

int Test(const Words& words) {
  if (words.size() != 1) return Fail(InvalidArgument("divvy notify test takes one name; divvy notify list shows them"));
  DIVVY_TRY_OR_FAIL(auto api, Api::Connect());
  std::optional<ProgressIndicator> progress(std::in_place, "sending a test to " + words.front());
  const auto text = api.Raw("POST", "/v1/notify/test", wire::EncodeChanged(wire::ReceiverName{words.front()}));
  progress.reset();
  if (!text) return Fail(text.error());
  DIVVY_TRY_OR_FAIL(const auto answer, DecodeShown<wire::NotifyTestAnswer>(*text));
  if (!answer.is_done) return Fail(Internal("not delivered: " + answer.message));
  std::printf("delivered: %s\n", answer.message.c_str());
  return 0;
}

}  // namespace

std::vector<Option> NotifyOptions() {
  static wire::ReceiverRequest scratch;
  static ListingOptions listing;
  std::vector<Option> table = AddTable(scratch);
  for (Option& option : ListingOptionTable(listing)) table.push_back(std::move(option));
  return table;
}

int NotifyMain(const Words& words) {
  if (words.empty() || words.front().starts_with("-")) return List(words);
  const Words rest(words.begin() + 1, words.end());
  if (words.front() == "list") return List(rest);
  if (words.front() == "add") return Add(rest);
  if (words.front() == "remove") return Remove(rest);
  if (words.front() == "test") return Test(rest);
  return Fail(InvalidArgument("divvy notify: unknown command '" + words.front() + "'; use add, list, remove or test"));
}

}  // namespace divvy::cli
