// divvy adopt: runs that were found on nodes but are missing in the store.
#include <cstdio>
#include <string>

#include "base/text.h"
#include "cli/client/actions.h"
#include "cli/client/api.h"
#include "cli/client/commands.h"
#include "cli/client/job_text.h"
#include "cli/client/shown_answer.h"
#include "cli/client/table.h"
#include "wire/messages/codec.h"
#include "wire/messages/messages_nodes.h"

namespace divvy::cli {
namespace {

struct AdoptFlags {
  ListingOptions listing;
  bool is_all = false;
  bool ends = false;
};

std::vector<dialect::Option> AdoptTable(AdoptFlags& flags) {
  std::vector<dialect::Option> table = ListingOptionTable(flags.listing);
  table.push_back(dialect::Option::Flag("all", 'a', "All jobs found", dialect::Sets(flags.is_all)));
  table.push_back(dialect::Option::Flag("end", "End the jobs instead of adopting them", dialect::Sets(flags.ends)));
  return table;
}

const std::vector<Column>& FoundColumns() {
  static const std::vector<Column> columns = {{"ID", true, true, false},     {"NAME", false, true, true},
                                              {"USER", false, true, false},  {"NODE", false, true, true},
                                              {"GPUS", false, true, false},  {"SINCE", false, true, false},
                                              {"STATE", false, true, false}, {"EXIT", true, true, false}};
  return columns;
}

std::vector<Cell> Row(const wire::FoundView& view, bool is_csv) {
  std::string gpus;
  for (const std::int64_t gpu : view.gpus) gpus += (gpus.empty() ? "" : ",") + std::to_string(gpu);
  return {{ToString(view.job), Colour::kBold},
          {view.name, Colour::kNone},
          {view.user, Colour::kNone},
          {view.node, Colour::kNone},
          {gpus, Colour::kNone},
          {is_csv ? Moment(view.started) : DayAndTime(view.started), Colour::kNone},
          {view.state, Colour::kNone},
          {view.exit_code ? std::to_string(*view.exit_code) : "", Colour::kNone}};
}

Result<std::vector<wire::FoundView>> AskFound() {
  DIVVY_TRY(Api api, Api::Connect());
  DIVVY_TRY(const std::string text, api.Raw("GET", "/v1/found", ""));
  return DecodeShown<std::vector<wire::FoundView>>(text);
}

}  // namespace

std::vector<dialect::Option> AdoptOptions() {
  static AdoptFlags scratch;
  return AdoptTable(scratch);
}

int AdoptMain(const Words& words) {
  AdoptFlags flags;
  DIVVY_TRY_OR_FAIL(const auto parsed, dialect::ParseOptions(AdoptTable(flags), words));
  Words ids = parsed.positional;
  if (flags.is_all && !ids.empty())
    return Fail(InvalidArgument("--all already covers every run that was found; omit the ids"));
  if (!flags.is_all && ids.empty()) {
    if (flags.ends)
      return Fail(InvalidArgument("--end needs ids or --all; divvy adopt lists the runs that were found"));
    return ShowListing(flags.listing, [&]() -> Result<std::string> {
      DIVVY_TRY(const auto views, AskFound());
      if (flags.listing.json) return wire::Encode(views) + "\n";
      if (views.empty() && !flags.listing.csv) return std::string("No unknown runs were found.\n");
      std::vector<std::vector<Cell>> rows;
      for (const wire::FoundView& view : views) rows.push_back(Row(view, flags.listing.csv));
      return RenderTable(FoundColumns(), rows, flags.listing);
    });
  }
  if (flags.is_all) {
    const auto views = AskFound();
    if (!views) return Fail(views.error());
    for (const wire::FoundView& view : *views) ids.push_back(ToString(view.job));
  }
  std::vector<std::string> bodies;
  for (const std::string& word : ids) {
    const auto id = ParseInteger(word);
    if (!id || *id <= 0)
      return Fail(InvalidArgument("'" + word + "' is not a job id; divvy adopt lists the runs that were found"));
    wire::FoundRequest request;
    request.job = JobId(static_cast<std::uint64_t>(*id));
    request.ends = flags.ends;
    bodies.push_back(wire::EncodeChanged(request));
  }
  return PostEach("/v1/found", bodies);
}

}  // namespace divvy::cli
