// divvy controllers: which controller leads, and handing over to a standby.
#include <cstdio>
#include <string>

#include "base/text.h"
#include "cli/client/actions.h"
#include "cli/client/api.h"
#include "cli/client/commands.h"
#include "cli/client/job_text.h"
#include "cli/client/shown_answer.h"
#include "cli/client/table.h"
#include "dialect/options/quantities.h"
#include "wire/messages/messages_remote.h"

namespace divvy::cli {
namespace {

/// A clock that is further off is marked.
constexpr double kClockOffS = 1;

const std::vector<Column>& ControllerColumns() {
  static const std::vector<Column> columns = {{"CONTROLLER", false, true, true}, {"ROLE", false, true, false},
                                              {"EPOCH", true, true, false},      {"SINCE", false, true, false},
                                              {"LAG", true, true, false},        {"CLOCK", true, true, false},
                                              {"VERSION", false, true, true},    {"ADDRESS", false, false, true}};
  return columns;
}

/// "0.4s"
std::string ShortTime(double seconds) {
  if (seconds >= 60) {
    return dialect::FormatDuration(std::chrono::seconds(static_cast<std::int64_t>(seconds)));
  }
  char text[32];
  std::snprintf(text, sizeof text, "%.1fs", seconds);
  return text;
}

std::vector<Cell> Row(const wire::ControllerView& view, bool is_csv) {
  const bool is_silent = view.role == "silent";
  const bool is_off = view.ahead_s > kClockOffS || view.ahead_s < -kClockOffS;
  const std::string since = view.since == 0 ? "" : is_csv ? Moment(view.since) : DayAndTime(view.since);
  return {{view.name, Colour::kBold},
          {view.role, view.role == "leader" ? Colour::kGreen
                      : is_silent           ? Colour::kRed
                                            : Colour::kNone},
          {view.epoch == 0 ? "" : std::to_string(view.epoch), Colour::kNone},
          {since, Colour::kNone},
          {ShortTime(view.lag_s), is_silent ? Colour::kRed : Colour::kNone},
          {(view.ahead_s < 0 ? "-" : "+") + ShortTime(view.ahead_s < 0 ? -view.ahead_s : view.ahead_s),
           is_off ? Colour::kYellow : Colour::kNone},
          {view.version, Colour::kNone},
          {view.address, Colour::kNone}};
}

int List(const Words& words) {
  ListingOptions options;
  DIVVY_TRY_OR_FAIL(const auto parsed, dialect::ParseOptions(ListingOptionTable(options), words));
  if (!parsed.positional.empty()) {
    return Fail(InvalidArgument("divvy controllers: unknown command '" + parsed.positional.front() +
                                "'; write divvy controllers, or divvy controllers step-down"));
  }
  return ShowListing(options, [&]() -> Result<std::string> {
    DIVVY_TRY(Api api, Api::Connect());
    DIVVY_TRY(const std::string text, api.Raw("GET", "/v1/controllers", ""));
    if (options.json) return text + "\n";
    DIVVY_TRY(const auto views, DecodeShown<std::vector<wire::ControllerView>>(text));
    std::vector<std::vector<Cell>> rows;
    for (const wire::ControllerView& view : views) rows.push_back(Row(view, options.csv));
    return RenderTable(ControllerColumns(), rows, options);
  });
}

}  // namespace

std::vector<dialect::Option> ControllersOptions() {
  static ListingOptions scratch;
  return ListingOptionTable(scratch);
}

int ControllersMain(const Words& words) {
  if (words.empty() || words.front() != "step-down") return List(words);
  if (words.size() > 1)
    return Fail(InvalidArgument("divvy controllers step-down takes no argument '" + words[1] +
                                "'; the standby that is first takes over"));
  return PostEach("/v1/controllers/step-down", {"{}"});
}

}  // namespace divvy::cli
