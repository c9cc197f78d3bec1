// divvy reserve: advance reservations of GPUs.
#include <cmath>
#include <cstdio>
#include <ctime>

#include "base/text.h"
#include "cli/client/api.h"
#include "cli/client/commands.h"
#include "cli/client/job_text.h"
#include "cli/client/shown_answer.h"
#include "cli/client/table.h"
#include "dialect/options/quantities.h"
#include "wire/messages/codec.h"
#include "wire/messages/messages_teams.h"

namespace divvy::cli {
namespace {

using dialect::Option;

std::vector<Option> ReserveTable(wire::ReservationRequest& request, const dialect::ParseContext& around) {
  std::vector<Option> table;
  table.push_back(Option::Value("gpus", 'g', "N", "Number of GPUs", [&request](std::string_view value) -> Status {
    const auto number = ParseInteger(Trim(value));
    if (!number || *number < 1)
      return InvalidArgument("'" + std::string(value) + "' is not a number of GPUs; write a whole number such as 4");
    request.gpus = *number;
    return {};
  }));
  table.push_back(Option::Value("user", 'u', "NAME", "For this user's jobs", dialect::Keeps(request.user)));
  table.push_back(Option::Value("team", "NAME", "For jobs of this team", dialect::Keeps(request.team)));
  table.push_back(Option::Value("start", 's', "WHEN",
                                "Start time: now+2h, 16:00, tomorrow, 2026-03-01T09:00 (default: now)",
                                [&request, &around](std::string_view value) -> Status {
                                  if (value == "now") return {};
                                  DIVVY_TRY(const Time at, dialect::ParseMoment(value, around.now, around.utc_offset));
                                  request.start = ToSeconds(at);
                                  return {};
                                }));
  table.push_back(Option::Value("duration", 'd', "TIME", "Length: 4h, 2d",
                                [&request](std::string_view value) -> Status {
                                  DIVVY_TRY(const Duration span,
                                            dialect::ParseDuration(value, std::chrono::minutes(1)));
                                  request.duration_s = ToSeconds(span);
                                  return {};
                                },
                                {"time"}));
  table.push_back(Option::Value("every", "HOW", "Repeat every day, weekday or week", dialect::Keeps(request.every)));
  table.push_back(Option::Value("name", 'n', "NAME", "Name of the reservation", dialect::Keeps(request.name)));
  return table;
}

std::string Clock(double seconds) {
  const auto moment = static_cast<std::time_t>(seconds);
  std::tm local{};
  localtime_r(&moment, &local);
  char text[64];
  std::strftime(text, sizeof text, "%a %Y-%m-%d %H:%M", &local);
  return text;
}

std::string Whose(const wire::ReservationView& view) {
  return view.user.empty() ? "team " + view.team : "user " + view.user;
}

std::string Length(double seconds) {
  return dialect::FormatDuration(Duration(static_cast<std::int64_t>(seconds * 1e9)));
}

Result<std::vector<wire::ReservationView>> AskReservations() {
  DIVVY_TRY(Api api, Api::Connect());
  DIVVY_TRY(const std::string text, api.Raw("GET", "/v1/reservations", ""));
  return DecodeShown<std::vector<wire::ReservationView>>(text);
}

/// "n1 GPUs 0-3"; "GPUs 0-3" on a single-node server.
std::string PlacesText(const wire::OccurrenceView& occurrence) {
  std::vector<std::string> places;
  for (const wire::ReservedPlace& place : occurrence.places)
    places.push_back((place.node.empty() ? "" : place.node + " ") + (place.gpus.size() == 1 ? "GPU " : "GPUs ") +
                     GpuList(place.gpus));
  return Join(places, ", ");
}

const std::vector<Column>& ReservationColumns() {
  static const std::vector<Column> columns = {{"NUMBER", true, true, false},  {"NAME", false, true, true},
                                              {"GPUS", true, true, false},    {"WHERE", false, true, true},
                                              {"FOR", false, true, true},     {"NEXT", false, true, false},
                                              {"LENGTH", false, true, false}, {"EVERY", false, true, false, true},
                                              {"STATE", false, true, true},   {"BY", false, false, false}};
  return columns;
}

std::string StateOf(const wire::ReservationView& view) {
  if (view.occurrences.empty()) return "ahead";
  const wire::OccurrenceView& next = view.occurrences.front();
  if (!next.is_held) return "not held: " + next.reason;
  const double now = static_cast<double>(std::time(nullptr));
  return next.start <= now ? "in force" : "held";
}

std::vector<Cell> Row(const wire::ReservationView& view, bool is_csv) {
  const std::string state = StateOf(view);
  const double next = view.occurrences.empty() ? view.start : view.occurrences.front().start;
  return {{std::to_string(view.number), Colour::kBold},
          {view.name, Colour::kNone},
          {std::to_string(view.gpus), Colour::kNone},
          {view.occurrences.empty() ? "" : PlacesText(view.occurrences.front()), Colour::kNone},
          {Whose(view), Colour::kNone},
          {is_csv ? Moment(next) : Clock(next), Colour::kNone},
          {Length(view.duration_s), Colour::kNone},
          {view.every, Colour::kNone},
          {state, state.starts_with("not") ? Colour::kRed : Colour::kGreen},
          {view.by, Colour::kNone}};
}

int ListReservations(const Words& words) {
  ListingOptions listing;
  const auto parsed = dialect::ParseOptions(ListingOptionTable(listing), words);
  if (!parsed) return Fail(parsed.error());
  return ShowListing(listing, [&]() -> Result<std::string> {
    DIVVY_TRY(const auto views, AskReservations());
    if (listing.json) return wire::Encode(views) + "\n";
    if (views.empty() && !listing.csv) return std::string("No reservations.\n");
    std::vector<std::vector<Cell>> rows;
    for (const auto& view : views) rows.push_back(Row(view, listing.csv));
    return RenderTable(ReservationColumns(), rows, listing);
  });
}

void Print(const wire::ReservationView& view) {
  std::printf("reservation %lld%s: %s for %s, %s, %s\n", static_cast<long long>(view.number),
              view.name.empty() ? "" : (" (" + view.name + ")").c_str(), Plural(view.gpus, "GPU").c_str(),
              Whose(view).c_str(), Length(view.duration_s).c_str(),
              view.every == "once" ? "once" : ("every " + view.every).c_str());
  for (const wire::OccurrenceView& occurrence : view.occurrences) {
    std::printf(
        "  %s - %s  %s\n", Clock(occurrence.start).c_str(), Clock(occurrence.end).c_str(),
        occurrence.is_held ? ("held, " + PlacesText(occurrence)).c_str() : ("not held: " + occurrence.reason).c_str());
  }
  if (view.occurrences.empty()) std::printf("  %s  GPUs are held from eight days before\n", Clock(view.start).c_str());
}

int Show(const Words& words) {
  ListingOptions listing;
  DIVVY_TRY_OR_FAIL(const auto parsed, dialect::ParseOptions(ListingOptionTable(listing), words));
  if (parsed.positional.size() != 1)
    return Fail(InvalidArgument("name one reservation: divvy reserve show NUMBER|NAME"));
  const std::string& which = parsed.positional.front();
  DIVVY_TRY_OR_FAIL(const auto views, AskReservations());
  for (const auto& view : views) {
    if (std::to_string(view.number) != which && view.name != which) continue;
    if (listing.json) std::printf("%s\n", wire::Encode(view).c_str());
    else Print(view);
    return 0;
  }
  return Fail(NotFound("there is no reservation '" + which + "'; divvy reserve list shows them"));
}

int Cancel(const Words& words) {
  if (words.empty()) return Fail(InvalidArgument("name a reservation: divvy reserve cancel NUMBER|NAME"));
  DIVVY_TRY_OR_FAIL(auto api, Api::Connect());
  int code = 0;
  for (const std::string& word : words) {
    const auto text = api.Raw("POST", "/v1/reservations/cancel", wire::EncodeChanged(wire::ReservationName{word}));
    if (!text) {
      code = Fail(text.error());
      continue;
    }
    const auto answer = DecodeShown<wire::MessageAnswer>(*text);
    if (answer) std::printf("%s\n", answer->message.c_str());
  }
  return code;
}

}  // namespace

std::vector<Option> ReserveOptions() {
  static wire::ReservationRequest scratch;
  static const dialect::ParseContext around;
  static ListingOptions listing;
  std::vector<Option> table = ReserveTable(scratch, around);
  for (Option& option : ListingOptionTable(listing)) table.push_back(std::move(option));
  return table;
}

int ReserveMain(const Words& words) {
  if (!words.empty()) {
    const Words rest(words.begin() + 1, words.end());
    if (words.front() == "list") return ListReservations(rest);
    if (words.front() == "show") return Show(rest);
    if (words.front() == "cancel") return Cancel(rest);
  }
  const dialect::ParseContext around = CallerParseContext();
  wire::ReservationRequest request;
  bool is_json = false;
  std::vector<Option> table = ReserveTable(request, around);
  table.push_back(Option::Flag("json", "Print the answer as JSON", dialect::Sets(is_json)));
  DIVVY_TRY_OR_FAIL(const auto parsed, dialect::ParseOptions(table, words));
  if (!parsed.positional.empty())
    return Fail(InvalidArgument("divvy reserve: unknown command '" + parsed.positional.front() +
                                "'; use divvy reserve --gpus N --user U --duration TIME, or list, show, cancel"));
  if (words.empty()) return ListReservations({});
  request.utc_offset_s = ToSeconds(around.utc_offset);
  DIVVY_TRY_OR_FAIL(auto api, Api::Connect());
  DIVVY_TRY_OR_FAIL(const auto text, api.Raw("POST", "/v1/reservations", wire::EncodeChanged(request)));
  DIVVY_TRY_OR_FAIL(const auto view, DecodeShown<wire::ReservationView>(text));
  if (is_json) std::printf("%s\n", text.c_str());
  else Print(view);
  return 0;
}

}  // namespace divvy::cli
