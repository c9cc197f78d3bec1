#include "daemon/notify/notify_registry.h"

#include <algorithm>

#include "base/text.h"
#include "driver/notify_rows.h"
#include "wire/messages/codec.h"
#include "wire/messages/notify_messages.h"

namespace divvy {
namespace {

std::string AdminName(const std::string& name) { return "admin/" + name; }
std::string UserName(std::int64_t uid, const std::string& name) { return "user/" + std::to_string(uid) + "/" + name; }
std::string MailName(std::int64_t uid, const std::string& address) {
  return "mail/" + std::to_string(uid) + "/" + address;
}
std::string RowKey(std::int64_t uid, const std::string& name) {
  return std::string(kReceiverRow) + std::to_string(uid) + "." + name;
}

wire::KeptReceiver Keep(const User& owner, const Receiver& receiver) {
  return {receiver.name,   owner.name,     owner.gid, ToText(receiver.events), std::string(Name(receiver.channel)),
          receiver.target, receiver.secret};
}

std::optional<NotifyChannel> ChannelOf(std::string_view name) {
  for (const NotifyChannel channel : {NotifyChannel::kWebhook, NotifyChannel::kCommand, NotifyChannel::kMail}) {
    if (Name(channel) == name) return channel;
  }
  return std::nullopt;
}

template <typename Strings>
bool Has(const Strings& strings, std::string_view one) {
  return std::ranges::find(strings, one) != strings.end();
}

void AddOnce(std::vector<std::string>& to, std::string one) {
  if (!Has(to, one)) to.push_back(std::move(one));
}

std::string LabelOf(const JobSpec& spec, const std::string& label) {
  const auto found = spec.labels.find(label);
  return found == spec.labels.end() ? "" : found->second;
}

std::vector<std::string> Words(std::string_view list) {
  std::vector<std::string> words;
  for (const std::string_view word : Split(list, ',')) {
    if (!Trim(word).empty()) words.emplace_back(Trim(word));
  }
  return words;
}

// Converts Slurm's values; those about burst buffers and time limits have no counterpart.
NotifyWish WishOfSlurm(std::string_view types, std::string_view users) {
  NotifyWish wish;
  wish.is_mail = true;
  wish.to = Words(users);
  for (const std::string& word : Words(types)) {
    const auto is = [&](std::string_view name) { return EqualsIgnoringCase(word, name); };
    if (is("begin") || is("all")) wish.events.Insert(NotifyEvent::kStart);
    if (is("end") || is("all")) wish.events.Insert(NotifyEvent::kEnd);
    if (is("fail") || is("all") || is("time_limit")) wish.events.Insert(NotifyEvent::kFail);
    if (is("requeue") || is("all")) wish.events.Insert(NotifyEvent::kRequeue);
    if (is("array_tasks")) wish.of_elements = true;
  }
  return wish;
}

NotifyWish WishOfGflow(std::string_view events, std::string_view addresses) {
  NotifyWish wish;
  wish.is_mail = true;
  wish.to = Words(addresses);
  for (std::string word : Words(events)) {
    if (word.starts_with("job_")) word.erase(0, 4);
    if (word == "all" || word == "started") wish.events.Insert(NotifyEvent::kStart);
    if (word == "all" || word == "completed" || word == "cancelled") wish.events.Insert(NotifyEvent::kEnd);
    if (word == "all" || word == "failed" || word == "timeout") wish.events.Insert(NotifyEvent::kFail);
  }
  if (events.empty()) wish.events.Insert(NotifyEvent::kEnd);
  return wish;
}

std::optional<NotifyWish> NotifyWishOf(const JobSpec& spec) {
  if (const std::string events = LabelOf(spec, std::string(kNotifyLabel)); !events.empty()) {
    NotifyWish wish;
    std::string rest;
    for (const std::string& word : Words(events)) {
      if (word == "elements") wish.of_elements = true;
      else rest += (rest.empty() ? "" : ",") + word;
    }
    if (auto parsed = ParseNotifyEvents(rest.empty() ? "end" : rest, false)) wish.events = *parsed;
    wish.to = Words(LabelOf(spec, std::string(kNotifyToLabel)));
    return wish;
  }
  if (const std::string types = LabelOf(spec, "slurm.mail-type"); !types.empty())
    return WishOfSlurm(types, LabelOf(spec, "slurm.mail-user"));
  if (const std::string address = LabelOf(spec, "gflow.notify_email"); !address.empty())
    return WishOfGflow(LabelOf(spec, "gflow.notify_on"), address);
  return std::nullopt;
}

}  // namespace

JobWish WishOf(const JobSpec& spec) {
  return {NotifyWishOf(spec), WasteActionOf(LabelOf(spec, std::string(kOnWasteLabel))).value_or(WasteAction::kNone)};
}

Result<NotifyRegistry::Setting> NotifyRegistry::Add(const User& owner, Receiver receiver, bool replaces) {
  DIVVY_CHECK(CheckReceiver(receiver));
  const auto found = users_.find(owner.uid);
  const bool is_new = found == users_.end() || !found->second.receivers.contains(receiver.name);
  if (!is_new && !replaces) {
    const Receiver& there = found->second.receivers.at(receiver.name);
    return Error{ErrorCode::kAlreadyExists, "you have a receiver " + there.name + " already (" +
                                                std::string(Name(there.channel)) + " " +
                                                ShownTarget(there.channel, there.target) + ", " + ToText(there.events) +
                                                "); choose another name, or divvy notify add --replace replaces it"};
  }
  if (is_new && found != users_.end() && found->second.receivers.size() >= kMostOfAUser)
    return LimitExceeded("you have " + std::to_string(kMostOfAUser) +
                         " receivers, which is the limit; divvy notify remove NAME removes one");
  if (found == users_.end() && users_.size() >= kMostUsers) return LimitExceeded("too many users have receivers");
  Setting row{RowKey(owner.uid, receiver.name), wire::EncodeChanged(Keep(owner, receiver))};
  Owned& owned = users_[owner.uid];
  owned.owner = owner;
  const std::string name = receiver.name;
  owned.receivers.insert_or_assign(name, std::move(receiver));
  return row;
}

Result<std::pair<std::string, NotifyRegistry::Setting>> NotifyRegistry::Remove(const User& owner,
                                                                               const std::string& name) {
  const auto found = users_.find(owner.uid);
  if (found == users_.end() || found->second.receivers.erase(name) == 0)
    return NotFound("you have no receiver '" + name.substr(0, 40) + "'; divvy notify list shows all receivers");
  if (found->second.receivers.empty()) users_.erase(found);
  return std::pair(UserName(owner.uid, name), Setting(RowKey(owner.uid, name), ""));
}

std::optional<NotifyRegistry::Known> NotifyRegistry::Find(std::string_view to) const {
  if (to.starts_with("admin/")) {
    const auto found = std::ranges::find(settings_.receivers, to.substr(6), &Receiver::name);
    if (found == settings_.receivers.end()) return std::nullopt;
    return Known{std::string(to), *found, User()};
  }
  const bool is_mail = to.starts_with("mail/");
  if (!is_mail && !to.starts_with("user/")) return std::nullopt;
  const std::string_view rest = to.substr(5);
  const auto slash = rest.find('/');
  const auto uid = ParseInteger(rest.substr(0, slash));
  if (!uid || slash == std::string_view::npos) return std::nullopt;
  const std::string name(rest.substr(slash + 1));
  if (is_mail) {
    Known known{std::string(to), Receiver(), User()};
    known.owner.uid = *uid;
    known.receiver.name = name;
    known.receiver.channel = NotifyChannel::kMail;
    known.receiver.target = name;
    return known;
  }
  const auto found = users_.find(*uid);
  if (found == users_.end()) return std::nullopt;
  const auto receiver = found->second.receivers.find(name);
  if (receiver == found->second.receivers.end()) return std::nullopt;
  return Known{std::string(to), receiver->second, found->second.owner};
}

std::vector<NotifyRegistry::Known> NotifyRegistry::Of(const std::optional<User>& owner) const {
  std::vector<Known> all;
  if (!owner) {
    for (const Receiver& receiver : settings_.receivers) all.push_back({AdminName(receiver.name), receiver, User()});
    return all;
  }
  const auto found = users_.find(owner->uid);
  if (found == users_.end()) return all;
  for (const auto& [name, receiver] : found->second.receivers)
    all.push_back({UserName(owner->uid, name), receiver, found->second.owner});
  return all;
}

std::optional<NotifyRegistry::Setting> NotifyRegistry::SetWish(JobId spec_of, const JobWish& wish) {
  const std::string key = std::string(kWishRow) + ToString(spec_of);
  if (wish.is_empty()) {
    if (wishes_.erase(spec_of) == 0) return std::nullopt;
    return Setting{key, ""};
  }
  wishes_.insert_or_assign(spec_of, wish);
  wire::KeptWish kept;
  if (wish.notify)
    kept = {ToText(wish.notify->events), wish.notify->of_elements, wish.notify->is_mail, wish.notify->to, ""};
  if (wish.on_waste != WasteAction::kNone) kept.on_waste = Name(wish.on_waste);
  return Setting{key, wire::EncodeChanged(kept)};
}

const JobWish* NotifyRegistry::WishOf(const JobRecord& record) const {
  const auto found = wishes_.find(record.spec_of);
  return found == wishes_.end() ? nullptr : &found->second;
}

bool NotifyRegistry::HasAnybodyFor(const JobRecord& record) const {
  return settings_.is_on &&
         (!settings_.receivers.empty() || users_.contains(record.user.uid) || wishes_.contains(record.spec_of));
}

bool NotifyRegistry::IsFor(const Receiver& receiver, const JobRecord& record) {
  if (receiver.users.empty() && receiver.teams.empty()) return true;
  return Has(receiver.users, record.user.name) || (!record.team.empty() && Has(receiver.teams, record.team));
}

std::vector<std::string> NotifyRegistry::For(NotifyEvent event, const JobRecord& record) const {
  std::vector<std::string> to;
  if (!settings_.is_on) return to;
  // Notices about each element of an array would be too many; only waste is reported per element.
  const bool is_element = record.array.is_set() && event != NotifyEvent::kWaste;
  for (const Receiver& receiver : settings_.receivers) {
    if (!is_element && receiver.events.Contains(event) && IsFor(receiver, record))
      to.push_back(AdminName(receiver.name));
  }
  const JobWish* said = WishOf(record);
  const NotifyWish* wish = said != nullptr && said->notify ? &*said->notify : nullptr;
  const bool is_told = is_element ? wish != nullptr && wish->of_elements
                                  : record.array_count == 0 || wish == nullptr || !wish->of_elements;
  if (is_told) AddOwn(wish, event, record, to);
  return to;
}

void NotifyRegistry::AddOwn(const NotifyWish* wish, NotifyEvent event, const JobRecord& record,
                            std::vector<std::string>& to) const {
  const auto owned = users_.find(record.user.uid);
  if (wish == nullptr) {
    if (owned == users_.end()) return;
    for (const auto& [name, receiver] : owned->second.receivers) {
      if (receiver.events.Contains(event)) to.push_back(UserName(record.user.uid, name));
    }
    return;
  }
  if (!wish->events.Contains(event)) return;
  const bool has_own = owned != users_.end() && !owned->second.receivers.empty();
  if (!wish->is_mail && wish->to.empty() && has_own) {
    for (const auto& [name, receiver] : owned->second.receivers) to.push_back(UserName(record.user.uid, name));
    return;
  }
  if (wish->to.empty()) return AddOnce(to, MailName(record.user.uid, record.user.name));
  for (const std::string& one : wish->to) {
    if (to.size() >= kMostOfAJob) break;
    const bool is_name = !wish->is_mail && has_own && owned->second.receivers.contains(one);
    if (is_name) AddOnce(to, UserName(record.user.uid, one));
    else if (IsMailAddress(one)) AddOnce(to, MailName(record.user.uid, one));
  }
}

std::vector<std::string> NotifyRegistry::NotesOn(const JobSpec& spec, const User& owner,
                                                 const std::function<bool(const std::string&)>& has_account,
                                                 bool has_sendmail) const {
  std::vector<std::string> notes;
  const JobWish wish = divvy::WishOf(spec);
  // Reported at submission, and not only when the action turns out to be impossible.
  if (wish.on_waste == WasteAction::kPark && !spec.request.is_portioned()) {
    notes.push_back(
        "--on-waste park: only jobs with a GPU fraction (--gpus 0.5) can be parked, so nothing will be done to this "
        "one; --on-waste pause queues it again and holds it, stop ends it");
  }
  if (!wish.notify) return notes;
  const auto owned = users_.find(owner.uid);
  const bool has_own = owned != users_.end() && !owned->second.receivers.empty();
  bool is_by_mail = wish.notify->to.empty() && (wish.notify->is_mail || !has_own);
  for (const std::string& one : wish.notify->to) {
    const bool is_name = !wish.notify->is_mail && has_own && owned->second.receivers.contains(one);
    is_by_mail = is_by_mail || !is_name;
    if (is_name || one.find('@') != std::string::npos || has_account(one)) continue;
    notes.push_back("mail to " + one + ": " +
                    (wish.notify->is_mail ? "there is no such user here"
                                          : "no receiver of yours has this name (divvy notify list), and there is no "
                                            "such user here"));
  }
  if (is_by_mail && settings_.is_on && !wish.notify->events.empty() && !has_sendmail) {
    notes.push_back("mail about this job cannot be sent now: the controller has no " + settings_.sendmail +
                    " (sendmail in [notify] of divvy.toml)");
  }
  return notes;
}

std::vector<std::string> NotifyRegistry::For(NotifyEvent event) const {
  std::vector<std::string> to;
  if (!settings_.is_on) return to;
  for (const Receiver& receiver : settings_.receivers) {
    if (receiver.events.Contains(event)) to.push_back(AdminName(receiver.name));
  }
  return to;
}

bool NotifyRegistry::LoadSetting(std::string_view key, std::string_view text) {
  if (key.starts_with(kWishRow)) {
    const auto id = ParseInteger(key.substr(kWishRow.size()));
    const auto kept = wire::Decode<wire::KeptWish>(text);
    if (!id || !kept) return true;
    JobWish wish;
    wish.on_waste = WasteActionOf(kept->on_waste).value_or(WasteAction::kNone);
    const auto events = ParseNotifyEvents(kept->events, false);
    if (!kept->events.empty() && events) wish.notify = {*events, kept->of_elements, kept->is_mail, kept->to};
    wishes_[JobId(static_cast<std::uint64_t>(*id))] = std::move(wish);
    return true;
  }
  if (!key.starts_with(kReceiverRow)) return false;
  const auto uid =
      ParseInteger(key.substr(kReceiverRow.size(), key.find('.', kReceiverRow.size()) - kReceiverRow.size()));
  const auto kept = wire::Decode<wire::KeptReceiver>(text);
  if (!uid || !kept) return true;
  const auto events = ParseNotifyEvents(kept->events, false);
  const auto channel = ChannelOf(kept->channel);
  if (!events || !channel) return true;
  Owned& owned = users_[*uid];
  owned.owner = {*uid, kept->gid, kept->user};
  Receiver receiver{kept->name, *events, *channel, kept->target, kept->secret, "", {}, {}};
  owned.receivers.insert_or_assign(kept->name, std::move(receiver));
  return true;
}

}  // namespace divvy
