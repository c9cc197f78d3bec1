// divvy providers: providers of nodes on demand, and their nodes.
#include <cstdio>
#include <ctime>
#include <string>

#include "base/text.h"
#include "cli/client/actions.h"
#include "cli/client/api.h"
#include "cli/client/commands.h"
#include "cli/client/job_text.h"
#include "cli/client/shown_answer.h"
#include "cli/client/table.h"
#include "dialect/options/quantities.h"
#include "wire/messages/codec.h"
#include "wire/messages/provider_messages.h"

namespace divvy::cli {
namespace {

std::vector<Column> ProviderColumns(bool has_errors) {
  return {{"PROVIDER", false, true, true},   {"KIND", false, true, false, true},
          {"STATE", false, true, false},     {"NODES", true, true, false},
          {"GPUS", true, true, false},       {"PER_HOUR", true, true, false},
          {"THIS_MONTH", true, true, false}, {"LAST_ERROR", false, has_errors, true, false, true}};
}

const std::vector<Column>& ProviderNodeColumns() {
  static const std::vector<Column> columns = {
      {"NODE", false, true, true},     {"PROVIDER", false, true, true}, {"SHAPE", false, true, true},
      {"STATE", false, true, false},   {"INSTANCE", false, true, true}, {"REQUESTED", false, true, false},
      {"PER_HOUR", true, true, false}, {"COST", true, true, false},     {"WHY", false, false, true}};
  return columns;
}

std::string MoneyOf(double value) {
  char text[48];
  std::snprintf(text, sizeof text, "%.2f", value);
  return text;
}

/// "3/20": with the limit, if there is one.
std::string WithLimit(std::int64_t count, const std::optional<std::int64_t>& limit) {
  return std::to_string(count) + (limit ? "/" + std::to_string(*limit) : "");
}
std::string WithLimit(double amount, const std::optional<double>& limit) {
  return MoneyOf(amount) + (limit ? "/" + MoneyOf(*limit) : "");
}

std::vector<Cell> ProviderRow(const wire::ProviderView& view, bool is_csv) {
  std::string error = view.last_error;
  if (!error.empty() && !is_csv) error = DayAndTime(view.last_error_at) + " " + error;
  if (view.unrequested > 0)
    error = Plural(view.unrequested, "node") + " that nobody requested" + (error.empty() ? "" : "; " + error);
  return {{view.name, Colour::kBold},
          {view.kind, Colour::kNone},
          {view.state, view.state == "enabled"   ? Colour::kGreen
                       : view.state == "failing" ? Colour::kRed
                                                 : Colour::kYellow},
          {WithLimit(view.nodes, view.max_nodes), Colour::kNone},
          {WithLimit(view.gpus, view.max_gpus), Colour::kNone},
          {WithLimit(view.hourly, view.max_per_hour), Colour::kNone},
          {WithLimit(view.this_month, view.max_per_month), Colour::kNone},
          {error, Colour::kNone}};
}

Result<std::string> ShowProviders(const ListingOptions& listing, bool has_nodes) {
  DIVVY_TRY(Api api, Api::Connect());
  DIVVY_TRY(const std::string text, api.Raw("GET", "/v1/providers", ""));
  if (listing.json) return text + "\n";
  DIVVY_TRY(const auto views, DecodeShown<std::vector<wire::ProviderView>>(text));
  if (views.empty() && !listing.csv)
    return std::string("No providers: divvy.toml has no [[providers]] (docs/providers.md).\n");
  std::vector<std::vector<Cell>> rows;
  bool has_errors = listing.csv;
  for (const wire::ProviderView& view : views) {
    if (!has_nodes) {
      rows.push_back(ProviderRow(view, listing.csv));
      has_errors |= !rows.back().back().text.empty();
      continue;
    }
    for (const wire::ProviderNodeView& node : view.list) {
      rows.push_back({{node.node, Colour::kBold},
                      {view.name, Colour::kNone},
                      {node.shape, Colour::kNone},
                      {node.state, node.state == "joined" ? Colour::kGreen : Colour::kYellow},
                      {node.instance, Colour::kNone},
                      {listing.csv ? Moment(node.requested) : DayAndTime(node.requested), Colour::kNone},
                      {MoneyOf(node.hourly), Colour::kNone},
                      {MoneyOf(node.cost), Colour::kNone},
                      {node.why, Colour::kNone}});
    }
  }
  if (has_nodes && rows.empty() && !listing.csv) return std::string("No nodes of providers.\n");
  return RenderTable(has_nodes ? ProviderNodeColumns() : ProviderColumns(has_errors), rows, listing);
}

}  // namespace

std::vector<dialect::Option> ProvidersOptions() {
  static ListingOptions scratch;
  return ListingOptionTable(scratch);
}

int ProvidersMain(const Words& words) {
  const std::string first = words.empty() ? "" : words.front();
  if (first == "enable" || first == "disable" || first == "drain") {
    if (words.size() < 2) return Fail(InvalidArgument("name a provider: divvy providers " + first + " NAME"));
    std::vector<std::string> bodies;
    for (std::size_t i = 1; i < words.size(); ++i)
      bodies.push_back(wire::EncodeChanged(wire::ProviderRequest{words[i], first}));
    return PostEach("/v1/providers", bodies);
  }
  const bool has_nodes = first == "nodes";
  ListingOptions listing;
  const auto parsed =
      dialect::ParseOptions(ListingOptionTable(listing), has_nodes ? Words(words.begin() + 1, words.end()) : words);
  if (!parsed) return Fail(parsed.error());
  if (!parsed->positional.empty())
    return Fail(InvalidArgument("divvy providers: unknown command '" + parsed->positional.front() +
                                "'; use divvy providers, or nodes, enable, disable or drain"));
  return ShowListing(listing, [&] { return ShowProviders(listing, has_nodes); });
}

}  // namespace divvy::cli
