#include "daemon/views/job_privacy.h"

#include <algorithm>

#include "wire/messages/messages_nodes.h"
#include "wire/messages/page_messages.h"
#include "wire/messages/waste_messages.h"

namespace divvy {

std::string WithoutPaths(std::string_view text) {
  constexpr std::string_view kBefore = " '\"(=:[,";
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const bool begins = text[i] == '/' && (i == 0 || kBefore.find(text[i - 1]) != std::string_view::npos) &&
                        i + 1 < text.size() && text[i + 1] != ' ';
    if (!begins) {
      out += text[i++];
      continue;
    }
    const char quote = i > 0 ? text[i - 1] : ' ';
    std::size_t end = text.find_first_of(" ,;)]\n", i);
    // A path may contain the quote itself.
    if (quote == '\'' || quote == '"') end = text.rfind(quote) < i ? text.size() : text.rfind(quote);
    out += "...";
    i = std::min(end, text.size());
  }
  return out;
}

std::string JobPrivacy::Reason(std::string_view user, std::string text) const {
  if (IsShown(user)) return text;
  return hides_others_ ? "" : WithoutPaths(text);
}

FindOutcome JobPrivacy::Names(FindOutcome find) const {
  if (!hides_others()) return find;
  return [*this, find = std::move(find)](JobId id) {
    std::optional<JobRecord> record = find(id);
    if (record && !IsShown(record->user.name)) record->name.clear();
    return record;
  };
}

template <typename View>
void JobPrivacy::ConcealJob(View& view) const {
  view.reason = Reason(view.user, std::move(view.reason));
  if (IsShown(view.user) || !hides_others_) return;
  for (std::string* text : {&view.name, &view.comment, &view.start_reason, &view.project, &view.group}) text->clear();
}

void JobPrivacy::Conceal(wire::JobView& view) const { ConcealJob(view); }

void JobPrivacy::Conceal(std::vector<wire::JobView>& views) const {
  for (wire::JobView& view : views) ConcealJob(view);
}

void JobPrivacy::Conceal(wire::JobInFull& view) const {
  ConcealJob(view);
  for (std::string& line : view.history) line = Reason(view.user, std::move(line));
  for (wire::TimelineLine& line : view.timeline) line.text = Reason(view.user, std::move(line.text));
  if (IsShown(view.user) || !hides_others_) return;
  view.history.clear();
  view.timeline.clear();
  view.notes.clear();
}

void JobPrivacy::Conceal(wire::WhyView& view) const {
  if (IsShown(view.user)) return;
  for (std::string* text : {&view.summary, &view.prediction_basis}) *text = Reason(view.user, std::move(*text));
  for (wire::BlockerView& blocker : view.blockers) blocker.text = Reason(view.user, std::move(blocker.text));
  if (hides_others_) view.name.clear();
}

void JobPrivacy::Conceal(std::vector<wire::GpuView>& views) const {
  if (!hides_others_) return;
  for (wire::GpuView& view : views) {
    for (wire::TenantView& tenant : view.tenants) {
      if (!IsShown(tenant.user)) tenant.name.clear();
    }
    for (wire::GpuProcessView& process : view.processes) {
      if (!IsShown(process.user)) process.command.clear();
    }
  }
}

void JobPrivacy::Conceal(std::vector<wire::FoundView>& views) const {
  for (wire::FoundView& view : views) {
    if (hides_others_ && !IsShown(view.user)) view.name.clear();
  }
}

void JobPrivacy::Conceal(wire::WasteAnswer& answer) const {
  for (wire::WastefulJob& job : answer.jobs) {
    if (hides_others_ && !IsShown(job.user)) job.name.clear();
  }
}

}  // namespace divvy
