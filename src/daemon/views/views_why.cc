// The content of "divvy why": the engine's explanation, with the names and users of the jobs that it mentions.
#include <algorithm>
#include <cctype>
#include <optional>

#include "base/duration_text.h"
#include "base/text.h"
#include "base/utf8.h"
#include "daemon/views/views.h"
#include "engine/placement/shape.h"

namespace divvy {
namespace {

std::string_view KindName(core::BlockerKind kind) {
  switch (kind) {
    case core::BlockerKind::kHeld:
      return "held";
    case core::BlockerKind::kBeginTime:
      return "begin_time";
    case core::BlockerKind::kDependency:
      return "dependency";
    case core::BlockerKind::kCap:
      return "group_limit";
    case core::BlockerKind::kGpuCap:
      return "gpu_limit";
    case core::BlockerKind::kUnusable:
    case core::BlockerKind::kGpus:
    case core::BlockerKind::kLocality:
    case core::BlockerKind::kOrder:
    case core::BlockerKind::kFit:
      return "gpus";
    case core::BlockerKind::kKind:
      return "gpu_type";
    case core::BlockerKind::kCpus:
      return "cpus";
    case core::BlockerKind::kMemory:
      return "memory";
    case core::BlockerKind::kCpuJobs:
      return "cpu_jobs";
    case core::BlockerKind::kReservation:
      return "reservation";
    case core::BlockerKind::kImpossible:
      return "infeasible";
    case core::BlockerKind::kTopology:
      return "topology";
    case core::BlockerKind::kTeamLimit:
      return "team_limit";
    case core::BlockerKind::kTeamQuota:
      return "team_quota";
  }
  return "other";
}

std::string RanOn(const JobRecord& record) {
  if (!record.gang.empty()) return " on " + std::to_string(record.gang.size()) + " nodes";
  if (record.gpus.empty()) return record.node.empty() ? "" : " on " + record.node;
  IndexRanges ranges;
  for (int gpu : record.gpus.ToVector()) ranges.Insert(static_cast<std::uint32_t>(gpu));
  return (record.gpus.size() == 1 ? " on GPU " : " on GPUs ") + ranges.ToString() +
         (record.node.empty() ? "" : " of " + record.node);
}

/// Returns the job as the subject of a sentence: "Job 17 (train)", "Array 17 (train)".
std::string Subject(const JobRecord& record) {
  return (record.array_count > 0 ? "Array " : "Job ") + PublicId(record) +
         (record.name.empty() ? "" : " (" + WithoutControls(record.name) + ")");
}

/// Turns a blocker's text into the second half of a sentence: adds the subject if the text starts with a verb.
std::string Clause(const std::string& text, bool is_array) {
  for (std::string_view verb : {"needs ", "is ", "waits ", "may ", "asks ", "can "}) {
    if (text.starts_with(verb)) return (is_array ? "each " : "it ") + text;
  }
  return text;
}

wire::HolderView HolderOf(JobId id, const std::optional<JobRecord>& record) {
  wire::HolderView view;
  view.id = id;
  view.display_id = ToString(id);
  if (!record) return view;
  view.display_id = PublicId(*record);
  view.name = WithoutControls(record->name);
  view.user = record->user.name;
  view.state = Name(record->state);
  if (!IsActive(record->state)) return view;
  view.node = record->node;
  for (int gpu : record->gpus.ToVector()) view.gpus.push_back(gpu);
  if (const Time end = Deadline(*record); end != kNever) view.until = ToSeconds(end);
  return view;
}

// A job on several nodes is shown with the GPUs of the first one where it has what is missing.
wire::HolderView HolderOf(const core::Holder& holder, const FindOutcome& find) {
  wire::HolderView view = HolderOf(holder.job, find(holder.job));
  view.gpus.clear();
  for (const core::TaskPlacement& placed : holder.placements) {
    if (placed.node != holder.placements.front().node) break;
    for (int gpu : placed.place.gpus.ToVector()) view.gpus.push_back(gpu);
  }
  return view;
}

/// The amount in the unit that people count in: whole GPUs and CPUs (rounded up), bytes, jobs or tasks.
std::int64_t AmountOf(core::BlockerUnit unit, std::int64_t amount) {
  switch (unit) {
    case core::BlockerUnit::kGpuParts:
      return (amount + placement::kGpuParts - 1) / placement::kGpuParts;
    case core::BlockerUnit::kCpuMilli:
      return (amount + 999) / 1000;
    case core::BlockerUnit::kMebibytes:
      return amount << 20;
    case core::BlockerUnit::kCount:
      break;
  }
  return amount;
}

/// Adds the jobs of a text like "waits for job 12 to succeed"; the engine provides only the text.
void AddDependencies(const JobRecord& record, const std::string& text, const FindOutcome& find,
                     wire::BlockerView& view) {
  for (const Dependency& dependency : record.dependencies) {
    if (!dependency.job.is_set()) continue;
    const std::string name =
        "job " + ToString(dependency.job) + (dependency.element ? "_" + std::to_string(*dependency.element) : "");
    const auto at = text.find(name);
    if (at == std::string::npos) continue;
    const char after = at + name.size() < text.size() ? text[at + name.size()] : ' ';
    if (after == '_' || std::isdigit(static_cast<unsigned char>(after)) != 0) continue;
    auto target = find(dependency.job);
    if (target && dependency.element && target->array_count > 0) {
      const auto& indices = target->array_indices;
      for (std::uint32_t k = 0; k < target->array_count; ++k) {
        if ((indices.empty() ? k : indices.Nth(k).value_or(k)) != *dependency.element) continue;
        target = find(ElementId(dependency.job, k));
        break;
      }
    }
    const JobId id = target ? target->id : dependency.job;
    if (std::ranges::find(view.holders, id) != view.holders.end()) continue;
    view.holders.push_back(id);
    view.held_by.push_back(HolderOf(id, target));
  }
}

/// Returns the whole number at the end of `text`: the limit in "array limit %3" and "limit of group a: 3".
std::optional<std::int64_t> LastNumber(std::string_view text) {
  std::size_t at = text.size();
  while (at > 0 && std::isdigit(static_cast<unsigned char>(text[at - 1])) != 0) --at;
  return ParseInteger(text.substr(at));
}

/// For "limit of user ada: 2 GPUs at once": adds the limit with which the job would start.
void AddMoreGpus(const wire::BlockerView& blocker, wire::WhyView& view) {
  constexpr std::string_view kWhose = "limit of user ";
  const std::string& rule = blocker.rule;
  const std::size_t colon = rule.rfind(": ");
  if (!rule.starts_with(kWhose) || colon == std::string::npos) return;
  const std::string_view most = std::string_view(rule).substr(colon + 2);
  const auto cap = ParseInteger(most.substr(0, most.find(' ')));
  if (!cap) return;
  const std::string more = std::to_string(*cap + blocker.needed - blocker.available);
  view.would_start_now = "a limit of " + more + " GPUs";
  view.command =
      "divvy teams user " + ShellQuote(rule.substr(kWhose.size(), colon - kWhose.size())) + " --max-gpus " + more;
}

/// Converts "--gpu-type 'A B' and no --constraint" to command line options; returns an empty string if it is no change
/// of options.
std::string OptionsOf(std::string_view change) {
  constexpr std::string_view kAnd = " and ";
  std::string options;
  bool takes_away = false;
  while (!change.empty()) {
    const auto end = change.find(kAnd);
    std::string_view one = change.substr(0, end);
    change = end == std::string_view::npos ? "" : change.substr(end + kAnd.size());
    // "no --gpu-type and --gpu-memory" applies to both.
    if (one.starts_with("no --")) {
      one.remove_prefix(3);
      takes_away = true;
    } else {
      takes_away = takes_away && one.find(' ') == std::string_view::npos;
    }
    if (!one.starts_with("--")) return "";
    options += " " + std::string(one) + (!takes_away ? "" : one == "--gpu-memory" ? " 0" : " \"\"");
  }
  return options;
}

/// Adds the smallest change and its command: the one that the engine found, or one outside the request.
void AddRemedy(const JobRecord& record, const core::Explanation& explanation, wire::WhyView& view) {
  const std::vector<core::Blocker>& blockers = explanation.blockers;
  const std::string id = PublicId(record);
  const std::string& change = view.would_start_now;
  const std::string words = change.substr(0, change.find(" ("));
  if (const std::string options = OptionsOf(words); !options.empty()) {
    view.command = "divvy update " + id + options;
  } else if (change.empty() && blockers.size() == 1 && blockers.front().kind == core::BlockerKind::kHeld) {
    view.would_start_now = "its release";
    view.command = "divvy release " + id;
  } else if (change.empty() && blockers.size() == 1 && blockers.front().kind == core::BlockerKind::kGpuCap) {
    AddMoreGpus(view.blockers.front(), view);
  } else if (change.empty() && blockers.size() == 1 && blockers.front().kind == core::BlockerKind::kCap) {
    if (explanation.members_before > 0) return;  // A higher cap is for those before it.
    const auto cap = LastNumber(blockers.front().rule);
    if (!cap || *cap <= 0) return;
    const std::string more = std::to_string(*cap + 1);
    const std::string& rule = blockers.front().rule;
    const bool is_array = rule.starts_with("array");
    if (rule.starts_with("pool ")) {
      view.would_start_now = "a higher limit of that pool (running = " + more + " in divvy.toml)";
      return;
    }
    view.would_start_now = "a limit of " + more;
    for (const std::string_view whose : {"limit of team ", "limit of user "}) {
      if (!rule.starts_with(whose)) continue;
      const std::string name = rule.substr(whose.size(), rule.rfind(": ") - whose.size());
      view.command = std::string(whose.ends_with("team ") ? "divvy teams set " : "divvy teams user ") +
                     ShellQuote(name) + " --max-running " + more;
      return;
    }
    view.command =
        is_array ? "divvy update " + ToString(record.array.is_set() ? record.array : record.id) + " --at-once " + more
                 : "divvy group limit " + ShellQuote(record.group) + " " + more;
  }
}

std::string ActiveSummary(const JobRecord& record, const std::string& reason, const FindOutcome& find, Time now,
                          const std::optional<wire::ShareView>& share) {
  const std::string subject = Subject(record);
  if (record.array_count > 0) {
    const std::uint32_t ended = record.array_succeeded + record.array_failed + record.array_cancelled;
    return "Every element of array " + PublicId(record) +
           " has started: " + std::to_string(record.array_count - ended) + " of " + std::to_string(record.array_count) +
           " still run.";
  }
  if (record.state == JobState::kStopping) return subject + " is being stopped: " + reason + ".";
  std::string why = WithPublicIds(record.start_reason, find);
  if (!why.empty()) why = " (" + why + ")";
  const std::string waited = DurationText(record.started - WaitingSince(record));
  if (record.state == JobState::kStarting) {
    if (reason == record.start_reason) return subject + " is starting" + RanOn(record) + why + ".";
    return subject + " was told to start" + RanOn(record) + " " + DurationText(now - record.started) +
           " ago: " + reason + ".";
  }
  std::string text =
      subject + (record.state == JobState::kPaused ? " is paused; it began " : " has been running for ") +
      DurationText(now - record.started) + (record.state == JobState::kPaused ? " ago" : "") +
      (share && !share->gpus.empty() ? WhereItIs(*share) : RanOn(record)) + ", after waiting " + waited + why;
  if (const Time end = Deadline(record); end != kNever)
    text += end > now ? (record.full_limit < Duration(0) ? "; its time limit" : "; its deadline") +
                            (" ends it in " + DurationText(end - now))
                      : "; its time limit has passed";
  text += "." + (share ? ShareSentences(*share) : "");
  if (record.state == JobState::kPaused && reason.starts_with("paused by "))
    text += " It was " + reason + "; divvy resume " + PublicId(record) + " continues it.";
  const bool is_absent = record.state == JobState::kRunning && reason != record.reason;
  if (is_absent && (reason.starts_with("parked for ") || reason.starts_with("parked by ")))
    return text + " It is " + reason + ".";
  return text + (is_absent ? " But " + reason + "." : "");
}

// Seconds would promise more than is known: most estimates rest on predictions of other jobs.
std::string SpanText(Duration span) {
  return span < std::chrono::minutes(1) ? "within a minute" : "in " + DurationText(span);
}

std::string WaitingSummary(const JobRecord& record, const core::Explanation& explanation, const wire::WhyView& view,
                           Time now) {
  const bool is_array = record.array_count > 0;
  std::string text = Subject(record) + " waits: ";
  if (is_array) {
    const auto waiting = static_cast<std::int64_t>(record.array_waiting.size());
    text = Plural(waiting, "element") + " of array " + PublicId(record) + " (" + WithoutControls(record.name) + ")" +
           (waiting == 1 ? " waits: " : " wait: ");
  }
  if (view.blockers.empty()) return text + "nothing blocks it any more; it is about to start.";
  const std::string& first = view.blockers.front().text;
  const bool has_verb = first.starts_with("waits ") || first.starts_with("can never ");
  if (!is_array && has_verb) text = Subject(record) + " " + first;
  else text += Clause(first, is_array);
  if (const auto before = static_cast<std::int64_t>(explanation.members_before); before > 0)
    text += "; " + Plural(before, "element") + " of its array " + (before == 1 ? "goes" : "go") + " before it";
  const Time start = explanation.start.typical;
  if (start != kNever && start > now)
    text += std::string("; ") + (is_array ? "the next one" : "it") + " should start " + SpanText(start - now);
  if (const Time latest = LatestStart(record); latest != kNever)
    text += std::string("; ") + (is_array ? "they leave" : "it leaves") + " the queue in " +
            DurationText(latest - now) + " if " + (is_array ? "they have" : "it has") + " not started, for " +
            (is_array ? "their" : "its") + " deadline";
  const bool tries_again = !is_array && record.restarts > 0 && view.blockers.front().kind == "begin_time";
  return text + "." + (tries_again && !record.reason.empty() ? " Its last try: " + record.reason + "." : "");
}

/// Returns "; between 10 min and 2 h from now" if both are known and differ.
std::string IntervalText(const core::Explanation& explanation, Time now) {
  const Time earliest = std::max(explanation.start.earliest, now);
  const Time latest = explanation.start.latest;
  if (explanation.start.earliest == kNoTime || latest == kNever || latest <= earliest) return "";
  return "; between " + DurationText(earliest - now) + " and " + DurationText(latest - now) + " from now";
}

wire::WhyView Begin(const JobRecord& record) {
  wire::WhyView view;
  view.id = record.id;
  view.display_id = DisplayId(record);
  view.name = WithoutControls(record.name);
  view.user = record.user.name;
  view.state = Name(record.state);
  return view;
}

}  // namespace

wire::WhyView WhyOf(const JobRecord& record, const core::Explanation& explanation, const Reason& reason,
                    const FindOutcome& find, Time now, std::optional<wire::ShareView> share) {
  wire::WhyView view = Begin(record);
  if (!explanation.is_waiting) {
    view.summary = ActiveSummary(record, WithPublicIds(reason, find), find, now, share);
    view.share = std::move(share);
    return view;
  }
  for (const core::Blocker& blocker : explanation.blockers) {
    wire::BlockerView out;
    out.kind = KindName(blocker.kind);
    out.text = WithPublicIds(blocker.text, find);
    out.needed = AmountOf(blocker.unit, blocker.needed);
    out.available = AmountOf(blocker.unit, blocker.available);
    out.rule = WithPublicIds(blocker.rule, find);
    for (const core::Holder& holder : blocker.holders) {
      out.holders.push_back(holder.job);
      out.held_by.push_back(HolderOf(holder, find));
    }
    out.has_more_holders = blocker.has_more_holders;
    if (blocker.kind == core::BlockerKind::kDependency) AddDependencies(record, blocker.text, find, out);
    view.blockers.push_back(std::move(out));
  }
  view.position = static_cast<std::int64_t>(explanation.position);
  view.ahead_gpus = explanation.ahead_parts / placement::kGpuParts;
  view.key = explanation.key;
  const Time start = explanation.start.typical;
  view.predicted_start = start == kNever ? std::nullopt : std::optional(ToSeconds(std::max(start, now)));
  view.prediction_basis = WithPublicIds(explanation.start.basis, find) + IntervalText(explanation, now);
  view.would_start_now = WithPublicIds(explanation.change_text(), find);
  AddRemedy(record, explanation, view);
  view.summary = WaitingSummary(record, explanation, view, now);
  return view;
}

wire::WhyView WhyFinal(const JobRecord& record, const FindOutcome& find, Time now) {
  wire::WhyView view = Begin(record);
  const std::string_view verb = record.state == JobState::kSucceeded  ? " succeeded "
                                : record.state == JobState::kFailed   ? " failed "
                                : record.state == JobState::kLost     ? " was lost "
                                : record.state == JobState::kTimedOut ? " timed out "
                                                                      : " was cancelled ";
  view.summary = Subject(record) + std::string(verb) + DurationText(now - record.ended) + " ago";
  const std::string reason = WithPublicIds(record.reason, find);
  // Avoids repeating the verb of "cancelled by ada" and the like.
  std::string_view rest = reason;
  if (rest.starts_with("cancelled ")) rest.remove_prefix(std::string_view("cancelled ").size());
  if (rest.starts_with("by ")) view.summary += " " + std::string(rest);
  else if (!rest.empty() && record.state != JobState::kSucceeded) view.summary += ": " + std::string(rest);
  view.summary += ".";
  if (record.started != kNoTime && record.array_count == 0) {
    view.summary += " It ran for " + DurationText(record.ended - record.started) + RanOn(record) + " after waiting " +
                    DurationText(record.started - WaitingSince(record)) + ".";
  }
  return view;
}

}  // namespace divvy
