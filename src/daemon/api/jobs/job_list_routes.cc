// Read-only routes about jobs. Live jobs are answered from the controller at once. The store may hold a million jobs:
// it is read, and converted to text, on the reader's thread, so that other requests do not wait.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <set>

#include "base/text.h"
#include "control/books/pool_parts.h"
#include "control/controller/start_reason.h"
#include "daemon/api/job_lookup.h"
#include "daemon/api/routes_call.h"
#include "daemon/fleet/agent_listener.h"
#include "daemon/node/job_log.h"
#include "daemon/views/job_selector.h"
#include "daemon/views/start_waits.h"
#include "model/reason_words.h"
#include "model/run_line.h"
#include "platform/records/step_list_file.h"
#include "wire/messages/agent_messages.h"
#include "wire/messages/messages_teams.h"
#include "wire/messages/step_views.h"

namespace divvy {
namespace {

// About 20 ms on the loop.
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

/// Sets the record to its state in this run; returns false if there was no such run.
bool TakeRun(std::int64_t run, const Result<std::vector<Batch::HistoryLine>>& history, JobRecord& record) {
  if (!history) return false;
  for (const Batch::HistoryLine& line : *history) {
    const auto found = ReadRunLine(line.text);
    if (!found || found->run != run) continue;
    record.attempt = found->run;
    record.node = found->node;
    record.gang.clear();
    return true;
  }
  return run > 0 && run == record.attempt && !IsWaiting(record.state);
}

/// Calls StateReason; for a job on a lost node, adds whether its lease has ended there.
Reason ReasonNow(ControllerDriver& core, AgentListener* door, const JobRecord& record,
                 FirstBlockers* blockers = nullptr) {
  std::optional<FirstBlockers> own;
  if (blockers == nullptr) blockers = &own.emplace(core.controller().scheduler(), core.Now());
  Reason reason = StateReason(core.controller(), record, blockers);
  if (!reason.ends_with(kMayGoOn) || door == nullptr || door->agents() == nullptr) return reason;
  for (const Seat& seat : SeatsOf(record)) {
    const NodeRow* row = door->book().Find(seat.node);
    const RemoteNode* node = door->agents()->Find(seat.node);
    if (row == nullptr || node == nullptr || node->heard() == kNoTime || !row->terms.stops_jobs) continue;
    if (core.Now() < AddSaturating(node->heard(), row->terms.lease)) continue;
    reason.replace(reason.size() - kMayGoOn.size(), kMayGoOn.size(),
                   "its lease has expired: it is being stopped there");
    break;
  }
  return reason;
}

}  // namespace

/// A listing whose live part is complete.
struct Routes::Listing {
  wire::JobSelector select;
  JobPrivacy privacy;
  HistoryFilter filter;
  std::optional<std::size_t> room;   // The number of further jobs to list; unset: all.
  std::vector<wire::JobView> views;  // Live jobs.
  std::vector<JobRecord> ended;      // Jobs that the store may not hold as ended yet.
};

void Routes::ReadAside(Call& call, std::function<Finish()> read) {
  // The call stays on this thread, because a reply belongs to the loop's thread, including its destruction.
  const std::uint64_t number = next_read_++;
  reads_.emplace(number, std::make_shared<Call>(std::move(call)));
  ports_.read([this, number, read = std::move(read)]() -> std::function<void()> {
    return [this, number, finish = read()] {
      const auto waiting = reads_.extract(number);
      finish(*waiting.mapped());
    };
  });
}

std::vector<JobRecord> Routes::LiveInOrder(const wire::JobSelector& select, const Caller& caller,
                                           std::map<JobId, std::uint64_t>& positions) {
  const Controller& controller = core_.controller();
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
  for (JobId id : QueueOrder(controller.scheduler(), core_.Now(), wanted)) {
    const JobRecord* record = controller.Find(id);
    if (record == nullptr) continue;
    const WaitingEntry* entry = controller.scheduler().waiting(id);
    const bool is_in_line =
        entry != nullptr && !entry->is_held && entry->unmet_dependencies.empty() && entry->begin <= core_.Now();
    if (is_in_line) positions[id] = position + 1, position += entry->count;
    if (!is_full(out) && passes(*record)) out.push_back(*record);
  }
  return out;
}

wire::JobView Routes::LiveView(const JobRecord& record, const FindOutcome& find, FirstBlockers* blockers) {
  const Reason reason = ReasonNow(core_, ports_.agents.get(), record, blockers);
  wire::JobView view = ViewOf(record, reason, labels_.Of(record), find);
  view.share = ShareOf(record);
  return view;
}

std::optional<wire::ShareView> Routes::ShareOf(const JobRecord& record) const {
  std::optional<wire::ShareView> view =
      ShareViewOf(record, ports_.shares ? ports_.shares->Find(record.node, record.id) : nullptr);
  if (view) MarkAbsent(core_.controller().DisconnectReason(record.node), view->state, view->note);
  return view;
}

void Routes::AnswerJobs(Call& call, const wire::JobSelector& select, bool has_labels) {
  if (!select.ids.empty()) return AnswerNamed(call, select);
  // The first long listing after a restart reads the specifications of all waiting jobs; this must not block the loop.
  const bool is_long = select.limit <= 0 || select.limit > kLabelsReadAtOnce || !select.pools.empty() ||
                       !select.accounts.empty() || !select.qos.empty();
  if (is_long && !has_labels) {
    auto unknown = labels_.UnknownAmong(core_.controller().live());
    if (unknown.size() > static_cast<std::size_t>(kLabelsReadAtOnce)) {
      return ReadAside(call, [this, select, unknown = std::move(unknown)]() -> Finish {
        labels_.Read(unknown, core_.store());
        return [this, select](Call& asked) { AnswerJobs(asked, select, true); };
      });
    }
  }
  Listing listing;
  std::map<JobId, std::uint64_t> positions;
  const FindOutcome find = LiveNames();
  FirstBlockers blockers(core_.controller().scheduler(), core_.Now());
  for (const JobRecord& record : LiveInOrder(select, call.caller, positions)) {
    listing.views.push_back(LiveView(record, find, &blockers));
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
  for (JobRecord& record : core_.EndedUnstored()) {
    if (record.ended >= filter->since && Passes(record, select, call.caller) && labels_.Passes(record, select))
      listing.ended.push_back(std::move(record));
  }
  // The store has no labels, so more rows are read than shown.
  const bool wants_labels = !select.pools.empty() || !select.accounts.empty() || !select.qos.empty();
  if (listing.room && !wants_labels) listing.filter.limit = *listing.room + listing.ended.size() + listing.views.size();
  ReadAside(call, [this, listing = std::move(listing)]() mutable { return ReadListing(listing); });
}

// Runs on the reader's thread.
Routes::Finish Routes::ReadListing(Listing& listing) {
  auto history = core_.store().History(listing.filter);
  if (!history) return [error = history.error()](Call& call) { call.Refuse(error); };
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
    const SpecLabels labels = labels_.OfStored(record, core_.store());
    if (!LabelCache::Passes(record, labels, listing.select)) continue;
    listing.views.push_back(ViewOf(record, record.reason, labels, find));
    --room;
  }
  listing.privacy.Conceal(listing.views);
  return [text = wire::Encode(listing.views)](Call& call) { call.Send(200, text); };
}

void Routes::AnswerNamed(Call& call, const wire::JobSelector& select) {
  const auto ids = SelectIds(core_, labels_, select, call.caller);
  if (!ids) return call.Refuse(ids.error());
  const FindOutcome find = LiveNames();
  FirstBlockers blockers(core_.controller().scheduler(), core_.Now());
  std::vector<std::pair<JobId, std::optional<wire::JobView>>> views;
  bool is_complete = true;
  for (const JobId id : *ids) {
    const auto record = core_.FindUnstored(id);
    const bool is_shown = !record || select.includes_final || !IsFinal(record->state);
    if (is_shown) views.emplace_back(id, record ? std::optional(LiveView(*record, find, &blockers)) : std::nullopt);
    is_complete &= record.has_value();
  }
  // The ended jobs of a range are in the store, or not there yet.
  auto ranges = select.includes_final ? RangesOf(select.ids) : std::vector<std::pair<JobId, JobId>>();
  for (const JobRecord& record : ranges.empty() ? std::vector<JobRecord>() : core_.EndedUnstored()) {
    const bool is_in = std::ranges::any_of(
        ranges, [&](const auto& range) { return range.first <= record.id && record.id <= range.second; });
    const bool is_new = std::ranges::find(*ids, record.id) == ids->end() && !record.array.is_set();
    if (is_in && is_new && Passes(record, select, call.caller) && labels_.Passes(record, select))
      views.emplace_back(record.id, LiveView(record, find, &blockers));
  }
  is_complete &= ranges.empty();
  ReadAsideUnless(
      is_complete, call,
      [this, select, caller = call.caller, privacy = call.privacy, views = std::move(views),
       ranges = std::move(ranges)]() -> Finish {
        const bool wants_final = select.includes_final;
        std::vector<wire::JobView> all;
        std::set<JobId> known;
        for (const auto& [id, view] : views) known.insert(id);
        for (const auto& [id, view] : views) {
          if (view) {
            all.push_back(*view);
            continue;
          }
          const auto record = core_.store().Find(id);
          if (!record) return [error = record.error()](Call& asked) { asked.Refuse(error); };
          const FindOutcome nobody = [](JobId) { return std::nullopt; };
          if (wants_final)
            all.push_back(ViewOf(*record, record->reason, labels_.OfStored(*record, core_.store()), nobody));
        }
        for (const auto& range : ranges) {
          const auto ended = core_.store().History({.ids = range});
          if (!ended) return [error = ended.error()](Call& asked) { asked.Refuse(error); };
          for (const JobRecord& record : *ended) {
            if (!IsFinal(record.state) || !known.insert(record.id).second || !Passes(record, select, caller)) continue;
            const SpecLabels labels = labels_.OfStored(record, core_.store());
            const FindOutcome nobody = [](JobId) { return std::nullopt; };
            if (LabelCache::Passes(record, labels, select))
              all.push_back(ViewOf(record, record.reason, labels, nobody));
          }
        }
        if (!ranges.empty()) std::ranges::sort(all, {}, &wire::JobView::id);
        privacy.Conceal(all);
        return [text = wire::Encode(all)](Call& asked) { asked.Send(200, text); };
      });
}

void Routes::ReadAsideUnless(bool is_quick, Call& call, std::function<Finish()> read) {
  if (!is_quick) return ReadAside(call, std::move(read));
  read()(call);
}

void Routes::Select(Call& call) {
  const auto select = wire::Decode<wire::JobSelector>(call.request.body);
  if (!select) return call.Refuse(select.error());
  AnswerJobs(call, *select);
}

void Routes::List(Call& call) { AnswerJobs(call, SelectorOf(call.request)); }

bool Routes::MaySee(const Caller& caller, const JobRecord& record) {
  return caller.is_admin || caller.user.uid == record.user.uid;
}

std::shared_ptr<const JobSpec> Routes::VisibleSpec(const Caller& caller, const Found& found) const {
  if (MaySee(caller, *found.record)) return found.spec;
  return core_.controller().Leads(caller, *found.record) ? found.spec : nullptr;
}

Routes::Found Routes::FindHere(JobId id) {
  Found found;
  found.record = core_.FindUnstored(id);
  if (found.record) found.spec = core_.UnstoredSpecOf(*found.record);
  return found;
}

divvy::Status Routes::Complete(JobId id, Found& found) {
  Store& store = core_.store();
  if (!found.record) {
    DIVVY_TRY(found.record, store.Find(id));
  }
  if (found.spec == nullptr) {
    if (auto spec = store.Spec(found.record->spec_of)) found.spec = std::make_shared<const JobSpec>(*std::move(spec));
  }
  return {};
}

void Routes::Show(Call& call) {
  // A browser reports each 404 as an error of the page; with `optional=1` an unknown job is `null`.
  const auto refuse = [is_optional = call.request.query.contains("optional")](Call& asked, const Error& error) {
    if (is_optional && error.code == ErrorCode::kNotFound) asked.Send(200, "null");
    else asked.Refuse(error);
  };
  const auto id = SelectOne(core_, call.argument, call.caller);
  if (!id) return refuse(call, id.error());
  Found found = FindHere(*id);
  ReadAsideUnless(found.record.has_value(), call,
                  [this, refuse, id = *id, found = std::move(found)]() mutable -> Finish {
                    if (!Complete(id, found))
                      return [refuse](Call& asked) { refuse(asked, NotFound("there is no job " + asked.argument)); };
                    if (auto history = core_.store().HistoryOf(id)) found.history = *std::move(history);
                    return [this, found = std::move(found)](Call& asked) { AnswerDetail(asked, found); };
                  });
}

// The log is read with the rights of the job's user, whoever asks (job_log.h).
void Routes::Log(Call& call) {
  const auto id = SelectOne(core_, call.argument, call.caller);
  if (!id) return call.Refuse(id.error());
  const auto number = [&](const char* name) {
    const auto at = call.request.query.find(name);
    return at == call.request.query.end() ? std::optional<std::int64_t>(-1) : ParseInteger(at->second);
  };
  const auto at = number("at"), last = number("last"), run = number("run");
  if (!at || !last || !run) return call.Refuse(InvalidArgument("'at', 'last' and 'run' are whole numbers"));
  const bool is_error = call.request.query.contains("error");
  Found found = FindHere(*id);
  ReadAside(call, [=, this, id = *id, caller = call.caller, found = std::move(found)]() mutable -> Finish {
    if (!Complete(id, found) || found.spec == nullptr)
      return [](Call& asked) { asked.Refuse(NotFound("there is no job " + asked.argument)); };
    JobRecord& record = *found.record;
    if (!MaySee(caller, record)) {
      return [name = record.user.name](Call& asked) {
        asked.Refuse(PermissionDenied("job " + asked.argument + " belongs to " + name +
                                      ", and only the owner may read its log"));
      };
    }
    if (*run >= 0 && !TakeRun(*run, core_.store().HistoryOf(id), record)) {
      return [run = *run](Call& asked) {
        asked.Refuse(NotFound("job " + asked.argument + " had no run " + std::to_string(run)));
      };
    }
    if (!record.node.empty()) {
      return [this, question = QuestionOf(record, *found.spec, is_error, *at, *last)](Call& asked) {
        AskForLog(asked, question);
      };
    }
    const JobLog log = JobLogOf(node_, record, *found.spec, is_error);
    return [path = log.path, piece = ReadJobLog(log, *at, *last)](Call& asked) {
      if (piece.error != 0) return asked.Refuse(CannotRead("'" + path + "'", piece.error));
      AnswerPiece(asked, piece.text, piece.next);
    };
  });
}

Error Routes::CannotRead(const std::string& what, int error) {
  const std::string why = "cannot read " + what + ": " + std::strerror(error);
  return error == ENOENT ? NotFound(why) : PermissionDenied(why);
}

void Routes::AnswerPiece(Call& call, std::string text, std::int64_t next) {
  HttpResponse response;
  response.content_type = "application/octet-stream";
  response.body = std::move(text);
  response.headers.emplace_back("Divvy-Next", std::to_string(next));
  Reply(call.reply).Answer(response);
}

void Routes::AnswerDetail(Call& call, const Found& found) {
  const JobRecord& record = *found.record;
  const std::shared_ptr<const JobSpec> visible = VisibleSpec(call.caller, found);
  const JobSpec* shown = visible.get();
  const Reason reason = ReasonNow(core_, ports_.agents.get(), record);
  static const std::vector<GpuFacts> kNone;
  const auto node = core_.controller().IndexOf(record.node);
  wire::JobDetail detail =
      DetailOf(record, shown, reason, found.spec ? LabelsOf(*found.spec) : SpecLabels(), core_.Outcomes(),
               node ? core_.controller().scheduler().node(*node).capacity.gpus : kNone, found.history);
  if (!IsFinal(record.state)) detail.speeds = core_.controller().SpeedsOf(record);
  detail.share = ShareOf(record);
  detail.pid = node_.pid_of(record.id);
  if (IsActive(record.state) && record.node.empty())
    detail.steps = wire::StepViewsOf(ReadStepListFile(node_.StepsOf(record)), kNoTime, shown != nullptr, detail.seats);
  if (shown != nullptr) detail.isolation = node_.IsolationTextOf(record.id);
  if (shown != nullptr) {
    detail.output = PathOf(found, *shown, false);
    detail.error = PathOf(found, *shown, true);
  }
  if (!MaySee(call.caller, record)) detail.script.clear();
  call.Answer(InFull(std::move(detail), record, core_.Outcomes(), found.history));
}

void Routes::Steps(Call& call) {
  const auto id = SelectOne(core_, call.argument, call.caller);
  if (!id) return call.Refuse(id.error());
  const auto record = core_.FindJob(*id);
  if (!record) return call.Refuse(NotFound("there is no job " + call.argument));
  const bool has_commands = MaySee(call.caller, *record) || core_.controller().Leads(call.caller, *record);
  if (!IsActive(record->state)) {
    const std::string kept = record->exit ? record->exit->steps : "";
    return call.Answer(wire::StepViewsOf(ReadStepList(kept), record->ended, has_commands, SeatViewsOf(*record)));
  }
  if (!record->node.empty()) return AskForSteps(call, *record, has_commands);
  call.Answer(wire::StepViewsOf(ReadStepListFile(node_.StepsOf(*record)), kNoTime, has_commands, SeatViewsOf(*record)));
}

namespace {

/// Returns the number of waiting elements of the array before this one, which waits as well.
std::uint64_t ElementsBefore(const JobRecord& array, JobId element) {
  const std::uint64_t ordinal = element.value() - array.id.value() - 1;
  std::uint64_t before = 0;
  for (const IndexRanges::Range& range : array.array_waiting.ranges()) {
    if (range.first >= ordinal) break;
    before += std::min<std::uint64_t>(range.last, ordinal - 1) - range.first + 1;
  }
  return before;
}

/// Adds the name of its node if there are several.
JobRecord Named(JobRecord record, const Scheduler& cluster) {
  if (cluster.has_many() && record.node.empty() && record.started != kNoTime)
    record.node = cluster.node(kOwnNode).words.name;
  return record;
}

}  // namespace

// For holders on several nodes, names the node where they hold, or have reserved, the missing resources.
void Routes::NameMachines(const core::Explanation& explanation, wire::WhyView& view) const {
  const Controller& controller = core_.controller();
  if (!controller.scheduler().has_many()) return;
  for (std::size_t i = 0; i < std::min(explanation.blockers.size(), view.blockers.size()); ++i) {
    const std::vector<core::Holder>& holders = explanation.blockers[i].holders;
    std::vector<wire::HolderView>& shown = view.blockers[i].held_by;
    for (std::size_t k = 0; k < std::min(holders.size(), shown.size()); ++k) {
      const JobRecord* record = controller.Find(holders[k].job);
      const std::vector<core::TaskPlacement>& pieces = holders[k].pieces;
      if (record != nullptr && (IsActive(record->state) || !pieces.empty()))
        shown[k].node = controller.scheduler().node(pieces.empty() ? kOwnNode : pieces.front().node).words.name;
    }
  }
}

void Routes::Why(Call& call) {
  const auto id = SelectOne(core_, call.argument, call.caller);
  if (!id) return call.Refuse(id.error());
  const auto record = core_.FindJob(*id);
  if (!record) return call.Refuse(NotFound("there is no job " + call.argument));
  const Controller& controller = core_.controller();
  const FindOutcome names = call.privacy.Names(core_.Outcomes());
  if (IsFinal(record->state)) return call.Answer(WhyFinal(Named(*record, controller.scheduler()), names, core_.Now()));
  // An element that is not separate yet waits as part of its array.
  const JobRecord* array = controller.ArrayOf(*id);
  core::Explanation explanation = Explain(controller.scheduler(), array != nullptr ? array->id : *id, core_.Now(),
                                          controller.run_spread(), array != nullptr ? ElementsBefore(*array, *id) : 0);
  for (core::Blocker& blocker : explanation.blockers) NameBlocker(controller, blocker);
  explanation.start.basis = WithTeamNames(std::move(explanation.start.basis));
  const bool waits = IsWaiting(record->state);
  if (auto no_pool = waits ? PoolBlocker(controller, *record) : std::nullopt) {
    explanation.blockers.assign(1, std::move(*no_pool));
    explanation.change.reset();
  }
  wire::WhyView view = WhyOf(Named(*record, controller.scheduler()), explanation,
                             ReasonNow(core_, ports_.agents.get(), *record), names, core_.Now(), ShareOf(*record));
  NameMachines(explanation, view);
  if (waits && !view.blockers.empty()) {
    for (std::string& closed : controller.ClosedPools(*record)) {
      wire::BlockerView& other = view.blockers.emplace_back();
      other.kind = "pool";
      other.text = std::move(closed);
    }
  }
  if (record->state == JobState::kStarting && ports_.shares)
    view.summary += StartWaitsText(*record, *ports_.shares, LiveNames());
  view.speeds = controller.SpeedsOf(*record);
  call.Answer(view);
}

FindOutcome Routes::LiveNames() const {
  return [this](JobId id) -> std::optional<JobRecord> {
    const JobRecord* record = core_.controller().Find(id);
    return record == nullptr ? std::nullopt : std::optional(*record);
  };
}

}  // namespace divvy
