#include "daemon/api/jobs/job_list_routes.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>

#include "base/text.h"
#include "control/controller/start_reason.h"
#include "daemon/api/call/job_lookup.h"
#include "daemon/views/job_selector.h"

namespace divvy {
namespace {

// Reading the labels of this many jobs takes about 20 ms on the event loop.
constexpr std::int64_t kLabelsReadAtOnce = 1000;

wire::JobSelector SelectorOf(const HttpRequest& request) {
  wire::JobSelector select;
  select.user = "all";
  for (const auto& [name, value] : request.query) {
    if (name == "ids") {
      for (std::string_view id : Split(value, ',')) select.ids.emplace_back(id);
    } else if (name == "user") {
      select.user = value;
    } else if (name == "states") {
      for (std::string_view state : Split(value, ',')) select.states.emplace_back(state);
    } else if (name == "name") {
      select.name = value;
    } else if (name == "project") {
      select.project = value;
    } else if (name == "group") {
      select.group = value;
    } else if (name == "pools" || name == "accounts" || name == "qos") {
      auto& into = name == "pools" ? select.pools : name == "accounts" ? select.accounts : select.qos;
      for (std::string_view one : Split(value, ',')) into.emplace_back(one);
    } else if (name == "array") {
      const auto id = ParseInteger(value);
      if (id && *id > 0) select.array = JobId(static_cast<std::uint64_t>(*id));
    } else if (name == "includes_final" || name == "all") {
      select.includes_final = value != "0" && value != "false";
    } else if (name == "limit") {
      select.limit = ParseInteger(value).value_or(0);
    } else if (name == "since") {
      select.since = ParseNumber(value).value_or(0);
    }
  }
  return select;
}

/// Returns the history filter of a selector; nullopt if it selects no ended jobs.
std::optional<HistoryFilter> EndedOnly(const wire::JobSelector& select, const Caller& caller) {
  HistoryFilter filter;
  filter.user = select.user == "@me" || select.user.empty() ? caller.user.name
                : select.user == "all"                      ? ""
                                                            : select.user;
  filter.name = select.name;
  filter.project = select.project;
  filter.group = select.group;
  filter.since = TimeFromSeconds(select.since);
  filter.array = select.array;
  for (int number = 0; number <= static_cast<int>(JobState::kLost); ++number) {
    const auto state = static_cast<JobState>(number);
    const bool is_wanted = select.states.empty() || std::ranges::count(select.states, Name(state)) > 0;
    if (IsFinal(state) && is_wanted) filter.states.push_back(state);
  }
  return filter.states.empty() ? std::nullopt : std::optional(filter);
}

}  // namespace

/// A listing whose live part is complete.
struct JobListRoutes::Listing {
  wire::JobSelector select;
  JobPrivacy privacy;
  HistoryFilter filter;
  std::optional<std::size_t> room;   // The number of further jobs to list; unset: all.
  std::vector<wire::JobView> views;  // Live jobs.
  std::vector<JobRecord> ended;      // Jobs that the store may not hold as ended yet.
};

JobListRoutes::JobListRoutes(ApiContext& api, RouteTable& table)
    : api_(api), driver_(api.driver), ports_(api.ports), labels_(api.labels) {
  table.Add(this, {{"GET", "/v1/jobs", &JobListRoutes::List},
                   {"POST", "/v1/jobs/select", &JobListRoutes::Select, RouteKind::kQuestion}});
}

void JobListRoutes::Select(ApiCall& call) {
  const auto select = wire::Decode<wire::JobSelector>(call.request.body);
  if (!select) return call.Refuse(select.error());
  AnswerJobs(call, *select);
}

void JobListRoutes::List(ApiCall& call) { AnswerJobs(call, SelectorOf(call.request)); }

std::vector<JobRecord> JobListRoutes::LiveInOrder(const wire::JobSelector& select, const Caller& caller,
                                                  std::map<JobId, std::uint64_t>& positions) {
  const Controller& controller = driver_.controller();
  const std::size_t limit = select.limit > 0 ? static_cast<std::size_t>(select.limit) : 0;
  const auto is_full = [&](const std::vector<JobRecord>& out) { return limit > 0 && out.size() >= limit; };
  const auto passes = [&](const JobRecord& record) {
    return Passes(record, select, caller) && labels_.Passes(record, select);
  };
  std::vector<JobRecord> out;
  for (const auto& [id, running] : controller.scheduler().running_jobs()) {
    const JobRecord* record = controller.Find(id);
    if (record != nullptr && !is_full(out) && passes(*record)) out.push_back(*record);
  }
  wire::JobSelector others = select;
  if (others.user == "all") others.user.clear();
  const bool filters = HasFilter(others);
  const std::size_t wanted = filters || limit == 0 ? 0 : limit;
  std::uint64_t position = 0;
  for (JobId id : QueueOrder(controller.scheduler(), driver_.Now(), wanted)) {
    const JobRecord* record = controller.Find(id);
    if (record == nullptr) continue;
    const WaitingEntry* entry = controller.scheduler().waiting(id);
    const bool is_in_line =
        entry != nullptr && !entry->is_held && entry->unmet_dependencies.empty() && entry->begin <= driver_.Now();
    if (is_in_line) positions[id] = position + 1, position += entry->count;
    if (!is_full(out) && passes(*record)) out.push_back(*record);
  }
  return out;
}

wire::JobView JobListRoutes::LiveView(const JobRecord& record, const FindOutcome& find, FirstBlockers& blockers) {
  const Reason reason = ReasonNow(driver_, ports_.agents.get(), record, &blockers);
  wire::JobView view = ViewOf(record, reason, labels_.Of(record), find);
  view.share = ShareOf(driver_.controller(), ports_.shares.get(), record);
  view.time_sharing = TimeSharingOf(driver_, record);
  return view;
}

void JobListRoutes::AnswerJobs(ApiCall& call, const wire::JobSelector& select, bool has_labels) {
  if (!select.ids.empty()) return AnswerNamed(call, select);
  // The first long listing after a restart reads the specifications of all waiting jobs; this must not block the loop.
  const bool is_long = select.limit <= 0 || select.limit > kLabelsReadAtOnce || !select.pools.empty() ||
                       !select.accounts.empty() || !select.qos.empty();
  if (is_long && !has_labels) {
    auto unknown = labels_.UnknownAmong(driver_.controller().live());
    if (unknown.size() > static_cast<std::size_t>(kLabelsReadAtOnce)) {
      return api_.reader.Read(call, [this, select, unknown = std::move(unknown)]() -> FinishCall {
        labels_.Read(unknown, driver_.store());
        return [this, select](ApiCall& asked) { AnswerJobs(asked, select, true); };
      });
    }
  }
  Listing listing;
  std::map<JobId, std::uint64_t> positions;
  const FindOutcome find = LiveNames(driver_.controller());
  FirstBlockers blockers(driver_.controller().scheduler(), driver_.Now());
  for (const JobRecord& record : LiveInOrder(select, call.caller, positions)) {
    listing.views.push_back(LiveView(record, find, blockers));
    if (const auto at = positions.find(record.id); at != positions.end())
      listing.views.back().position = static_cast<std::int64_t>(at->second);
  }
  const std::size_t limit = select.limit > 0 ? static_cast<std::size_t>(select.limit) : 0;
  if (limit > 0) listing.room = limit - std::min(limit, listing.views.size());
  const auto filter = select.includes_final ? EndedOnly(select, call.caller) : std::nullopt;
  if (!filter || listing.room == 0u) return call.Answer(listing.views);

  listing.select = select;
  listing.privacy = call.privacy;
  listing.filter = *filter;
  for (JobRecord& record : driver_.EndedUnstored()) {
    if (record.ended >= filter->since && Passes(record, select, call.caller) && labels_.Passes(record, select))
      listing.ended.push_back(std::move(record));
  }
  // The store cannot filter by labels, so more rows are read than shown.
  const bool wants_labels = !select.pools.empty() || !select.accounts.empty() || !select.qos.empty();
  if (listing.room && !wants_labels) listing.filter.limit = *listing.room + listing.ended.size() + listing.views.size();
  api_.reader.Read(call, [this, listing = std::move(listing)]() mutable { return ReadListing(listing); });
}

// Runs on a thread that reads.
FinishCall JobListRoutes::ReadListing(Listing& listing) {
  auto history = driver_.store().History(listing.filter);
  if (!history) return [error = history.error()](ApiCall& call) { call.Refuse(error); };
  std::set<JobId> known;
  for (const wire::JobView& view : listing.views) known.insert(view.id);
  for (const JobRecord& record : listing.ended) known.insert(record.id);
  std::vector<JobRecord> ended = std::move(listing.ended);
  for (JobRecord& record : *history) {
    // The job may have ended since the live part was collected; it is listed once, as it was then.
    if (!known.contains(record.id)) ended.push_back(std::move(record));
  }
  history->clear();
  std::ranges::sort(ended, std::greater(), &JobRecord::id);
  // Reasons mention mostly elements of arrays in the same listing.
  const FindOutcome find = [&ended](JobId id) -> std::optional<JobRecord> {
    const auto at = std::ranges::lower_bound(ended, id, std::greater(), &JobRecord::id);
    return at == ended.end() || at->id != id ? std::nullopt : std::optional(*at);
  };
  std::size_t room = listing.room.value_or(ended.size());
  for (const JobRecord& record : ended) {
    if (room == 0) break;
    const SpecLabels labels = labels_.OfStored(record, driver_.store());
    if (!LabelCache::Passes(record, labels, listing.select)) continue;
    listing.views.push_back(ViewOf(record, record.reason, labels, find));
    --room;
  }
  listing.privacy.Conceal(listing.views);
  return [text = wire::Encode(listing.views)](ApiCall& call) { call.Send(200, text); };
}

void JobListRoutes::AnswerNamed(ApiCall& call, const wire::JobSelector& select) {
  const auto ids = SelectIds(driver_, labels_, select, call.caller);
  if (!ids) return call.Refuse(ids.error());
  const FindOutcome find = LiveNames(driver_.controller());
  FirstBlockers blockers(driver_.controller().scheduler(), driver_.Now());
  std::vector<std::pair<JobId, std::optional<wire::JobView>>> views;
  bool is_complete = true;
  for (const JobId id : *ids) {
    const auto record = driver_.FindUnstored(id);
    const bool is_shown = !record || select.includes_final || !IsFinal(record->state);
    if (is_shown) views.emplace_back(id, record ? std::optional(LiveView(*record, find, blockers)) : std::nullopt);
    is_complete &= record.has_value();
  }
  // The ended jobs of a range are in the store, or not there yet.
  auto ranges = select.includes_final ? RangesOf(select.ids) : std::vector<std::pair<JobId, JobId>>();
  for (const JobRecord& record : ranges.empty() ? std::vector<JobRecord>() : driver_.EndedUnstored()) {
    const bool is_in = std::ranges::any_of(
        ranges, [&](const auto& range) { return range.first <= record.id && record.id <= range.second; });
    const bool is_new = std::ranges::find(*ids, record.id) == ids->end() && !record.array.is_set();
    if (is_in && is_new && Passes(record, select, call.caller) && labels_.Passes(record, select))
      views.emplace_back(record.id, LiveView(record, find, blockers));
  }
  is_complete &= ranges.empty();
  api_.reader.ReadUnless(
      is_complete, call,
      [this, select, caller = call.caller, privacy = call.privacy, views = std::move(views),
       ranges = std::move(ranges)]() -> FinishCall {
        const bool wants_final = select.includes_final;
        std::vector<wire::JobView> all;
        std::set<JobId> known;
        for (const auto& [id, view] : views) known.insert(id);
        for (const auto& [id, view] : views) {
          if (view) {
            all.push_back(*view);
            continue;
          }
          const auto record = driver_.store().Find(id);
          if (!record) return [error = record.error()](ApiCall& asked) { asked.Refuse(error); };
          const FindOutcome nobody = [](JobId) { return std::nullopt; };
          if (wants_final)
            all.push_back(ViewOf(*record, record->reason, labels_.OfStored(*record, driver_.store()), nobody));
        }
        for (const auto& range : ranges) {
          const auto ended = driver_.store().History({.ids = range});
          if (!ended) return [error = ended.error()](ApiCall& asked) { asked.Refuse(error); };
          for (const JobRecord& record : *ended) {
            if (!IsFinal(record.state) || !known.insert(record.id).second || !Passes(record, select, caller)) continue;
            const SpecLabels labels = labels_.OfStored(record, driver_.store());
            const FindOutcome nobody = [](JobId) { return std::nullopt; };
            if (LabelCache::Passes(record, labels, select))
              all.push_back(ViewOf(record, record.reason, labels, nobody));
          }
        }
        if (!ranges.empty()) std::ranges::sort(all, {}, &wire::JobView::id);
        privacy.Conceal(all);
        return [text = wire::Encode(all)](ApiCall& asked) { asked.Send(200, text); };
      });
}

}  // namespace divvy
