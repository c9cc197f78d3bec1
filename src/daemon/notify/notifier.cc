#include "daemon/notify/notifier.h"

#include <algorithm>

#include "base/text.h"
#include "daemon/notify/notice_text.h"
#include "daemon/runtime/log.h"
#include "driver/notify_rows.h"
#include "platform/users/signature.h"
#include "wire/messages/codec.h"

namespace divvy {
namespace {

constexpr std::size_t kMostTests = 4;

NoticeQueue::Limits LimitsOf(const NotifySettings& settings) {
  NoticeQueue::Limits limits;
  limits.most_per_minute = settings.most_per_minute;
  limits.retry_after = settings.retry_after;
  limits.give_up_after = settings.give_up_after;
  return limits;
}

/// Returns the record as it was when the job started, because the job may have ended, or be queued again, by now.
JobRecord AsItStarted(JobRecord record) {
  record.state = JobState::kRunning;
  record.exit.reset();
  record.ended = kNoTime;
  record.reason = record.start_reason;
  return record;
}

void Append(Batch& batch, std::optional<NoticeQueue::Setting> row) {
  if (row) batch.settings.push_back(*std::move(row));
}

}  // namespace

Notifier::Notifier(Options options, Ports ports)
    : options_(std::move(options)),
      ports_(std::move(ports)),
      registry_(options_.settings),
      queue_(LimitsOf(options_.settings)) {}

bool Notifier::LoadSetting(std::string_view key, std::string_view text) {
  if (key == kToldGpusRow) {
    if (auto told = wire::Decode<std::vector<wire::ToldGpu>>(text)) told_gpus_ = *std::move(told);
    return true;
  }
  return queue_.LoadSetting(key, text) || registry_.LoadSetting(key, text);
}

void Notifier::OnLoaded() {
  for (const auto& [id, record] : driver_->controller().live()) {
    const bool runs = IsActive(record.state) || (record.array_count > 0 && record.state == JobState::kRunning);
    if (runs && registry_.HasAnybodyFor(record)) active_[id] = record.state != JobState::kStarting;
  }
}

void Notifier::Open() {
  is_open_ = true;
  Deliver();
}

// --- Events ----------------------------------------------------------------------------------------------------------

void Notifier::Complete(Effects& effects) {
  LearnWishes(effects.batch);
  for (const Change& change : effects.changes) LearnAgain(change, effects.batch);
  if (registry_.has_nobody()) return active_.clear();
  Ended ended;
  for (const JobRecord& record : effects.finished) ended.emplace(record.id, &record);
  bool are_gpus_others = false;
  for (const Change& change : effects.changes) {
    if (change.job.is_set()) OnJob(change, ended, effects.batch);
    else are_gpus_others = true;
  }
  if (are_gpus_others) OnGpus(effects);
}

void Notifier::LearnWishes(Batch& batch) {
  std::vector<NoticeQueue::Setting> rows;
  const auto learn = [&](JobId id, const JobSpec& spec) {
    if (auto row = registry_.SetWish(id, WishOf(spec))) rows.push_back(*std::move(row));
  };
  for (const auto& insert : batch.inserts) {
    if (insert.spec != nullptr) learn(insert.record.spec_of, *insert.spec);
  }
  for (const auto& [id, spec] : batch.spec_updates) learn(id, *spec);
  batch.settings.insert(batch.settings.end(), rows.begin(), rows.end());
}

// For a job that had ended and was queued again: its wish was removed at its end.
void Notifier::LearnAgain(const Change& change, Batch& batch) {
  if (!change.job.is_set() || !IsWaiting(change.state)) return;
  const JobRecord* record = driver_->controller().Find(change.job);
  if (record == nullptr || record->restarts == 0 || registry_.WishOf(*record) != nullptr) return;
  if (const auto spec = driver_->SpecOf(*record)) Append(batch, registry_.SetWish(record->spec_of, WishOf(**spec)));
}

const JobRecord* Notifier::RecordOf(const Change& change, const Ended& ended) const {
  const auto found = ended.find(change.job);
  const JobRecord* last = found == ended.end() ? nullptr : found->second;
  if (IsFinal(change.state) && last != nullptr) return last;
  const JobRecord* live = driver_->controller().Find(change.job);
  // A short job may have started and ended in one step.
  return live != nullptr ? live : last;
}

void Notifier::OnJob(const Change& change, const Ended& ended, Batch& batch) {
  const JobRecord* record = RecordOf(change, ended);
  if (record == nullptr) return;
  if (IsFinal(change.state)) active_.erase(change.job);
  if (!registry_.HasAnybodyFor(*record)) return;
  if (IsFinal(change.state)) return OnFinal(*record, batch);
  const auto known = active_.find(change.job);
  if (IsActive(change.state)) {
    const bool was_told = known != active_.end() && known->second;
    const bool has_started = change.state == JobState::kRunning && record->array_count == 0;
    active_[change.job] = was_told || has_started;
    if (was_told || !has_started) return;
    Tell(NotifyEvent::kStart, AsItStarted(*record), StartText(*record), batch);
    // The start of the first element is the start of the array.
    const JobRecord* array = record->array.is_set() ? driver_->controller().Find(record->array) : nullptr;
    if (array != nullptr && !std::exchange(active_[array->id], true))
      Tell(NotifyEvent::kStart, *array, StartText(*array), batch);
    return;
  }
  if (known == active_.end() || record->array_count > 0) return;
  active_.erase(known);
  // By now the job may already be starting again; the reason for the requeue is in the change.
  JobRecord told = *record;
  told.state = change.state;
  told.reason = change.reason;
  Tell(NotifyEvent::kRequeue, told, RequeueText(told, change.reason), batch);
}

void Notifier::OnFinal(const JobRecord& record, Batch& batch) {
  const bool has_failed = record.state == JobState::kFailed || record.state == JobState::kTimedOut ||
                          record.state == JobState::kLost || (record.array_count > 0 && record.array_failed > 0);
  Tell(has_failed ? NotifyEvent::kFail : NotifyEvent::kEnd, record, EndedText(record), batch);
  if (record.spec_of == record.id) Append(batch, registry_.SetWish(record.id, JobWish()));
}

void Notifier::OnGpus(Effects& effects) {
  if (registry_.For(NotifyEvent::kGpuFenced).empty() && registry_.For(NotifyEvent::kGpuUnmanaged).empty()) return;
  const Controller& controller = driver_->controller();
  std::vector<wire::ToldGpu> now;
  for (std::size_t node = 0; node < controller.scheduler().nodes().size(); ++node) {
    for (const GpuTrouble& trouble : TroublesOf(controller, static_cast<NodeIndex>(node))) {
      const auto was = std::ranges::find_if(told_gpus_, [&](const wire::ToldGpu& told) {
        return told.node == trouble.told.node && told.index == trouble.told.index;
      });
      const wire::ToldGpu before = was == told_gpus_.end() ? wire::ToldGpu() : *was;
      if (before.fenced.empty() && !trouble.told.fenced.empty())
        Tell(NotifyEvent::kGpuFenced, trouble.gpu, FencedText(trouble), effects.batch);
      if (before.unmanaged.empty() && !trouble.told.unmanaged.empty())
        Tell(NotifyEvent::kGpuUnmanaged, trouble.gpu, UnmanagedText(trouble), effects.batch);
      now.push_back(trouble.told);
    }
  }
  if (now == told_gpus_) return;
  told_gpus_ = std::move(now);
  effects.batch.settings.emplace_back(std::string(kToldGpusRow), told_gpus_.empty() ? "" : wire::Encode(told_gpus_));
}

void Notifier::OnWaste(const JobRecord& record, const std::string& text, const wire::NoticeWaste& lost) {
  Batch batch;
  const std::vector<std::string> to = registry_.For(NotifyEvent::kWaste, record);
  if (to.empty()) return;
  wire::Notice notice =
      NoticeOf(std::string(Name(NotifyEvent::kWaste)), JobText(record) + " " + text + "; " + LostText(lost));
  notice.job = NoticeJobOf(record);
  notice.waste = lost;
  Enqueue(to, notice, batch);
  Keep(std::move(batch.settings));
}

wire::Notice Notifier::NoticeOf(std::string event, std::string text) const {
  wire::Notice notice;
  notice.event = std::move(event);
  notice.time = ToSeconds(driver_->Now());
  notice.host = options_.host;
  notice.text = std::move(text);
  return notice;
}

void Notifier::Tell(NotifyEvent event, const JobRecord& record, std::string text, Batch& batch) {
  const std::vector<std::string> to = registry_.For(event, record);
  if (to.empty()) return;
  wire::Notice notice = NoticeOf(std::string(Name(event)), std::move(text));
  notice.job = NoticeJobOf(record);
  Enqueue(to, notice, batch);
}

void Notifier::Tell(NotifyEvent event, const wire::NoticeGpu& gpu, std::string text, Batch& batch) {
  wire::Notice notice = NoticeOf(std::string(Name(event)), std::move(text));
  notice.gpu = gpu;
  Enqueue(registry_.For(event), notice, batch);
}

void Notifier::Enqueue(const std::vector<std::string>& to, const wire::Notice& notice, Batch& batch) {
  for (const std::string& one : to) {
    if (!queue_.TakesFor(one)) {
      ports_.log("event=notice_lost to=\"" + one + "\" what=\"too many wait for it\"");
      continue;
    }
    wire::QueuedNotice queued{one, notice};
    queued.notice.id = ports_.new_id();
    batch.settings.push_back(NoticeQueue::RowOf(queued));
  }
}

// Delivers exactly the rows that are durable now.
void Notifier::Carried(const Effects& effects) {
  bool has_more = false;
  for (const auto& [key, text] : effects.batch.settings) {
    if (text.empty() || !key.starts_with(kNoticeRow)) continue;
    has_more = queue_.LoadSetting(key, text) || has_more;
  }
  if (has_more) Deliver();
}

void Notifier::Keep(std::vector<NoticeQueue::Setting> rows) {
  if (rows.empty()) return;
  for (auto& [key, text] : rows) driver_->controller().KeepSetting(key, std::move(text));
  driver_->Touch();
}

// --- Deliveries ------------------------------------------------------------------------------------------------------

void Notifier::Deliver() {
  if (!is_open_) return;
  for (const wire::QueuedNotice& queued : queue_.Take(driver_->Now())) {
    const auto known = registry_.Find(queued.to);
    const auto order = known ? OrderFor(*known, queued.notice)
                             : Result<wire::DeliveryOrder>(NotFound("this receiver no longer exists"));
    const auto done = [this, to = queued.to, id = queued.notice.id,
                       alive = is_alive_](const wire::DeliveryResult& result) {
      if (!*alive) return;
      if (!result.is_done)
        ports_.log("event=notice_not_delivered to=\"" + to + "\" id=" + id + " reason=" + LogQuoted(result.message));
      Keep(queue_.OnResult(to, id, result, driver_->Now()));
      Deliver();
    };
    if (order) {
      ports_.deliver(*order, done);
    } else {
      // Posted, because `done` changes the queue that this loop uses.
      ports_.after(Duration(0), [done, text = order.error().message] { done({false, false, 0, text}); });
    }
  }
  Arm();
}

void Notifier::Arm() {
  const Time now = driver_->Now();
  const Time due = queue_.NextDue(now);
  if (due == kNever || due >= armed_for_) return;
  armed_for_ = due;
  ports_.after(std::max(due - now, Duration(std::chrono::milliseconds(10))), [this, due, alive = is_alive_] {
    if (!*alive) return;
    if (armed_for_ == due) armed_for_ = kNever;
    Deliver();
  });
}

bool Notifier::MayGoInside(const NotifyRegistry::Known& known) const {
  const NotifySettings& settings = registry_.settings();
  if (known.owner.uid < 0) return true;
  if (settings.user_webhooks == NotifySettings::Webhooks::kAny) return true;
  if (settings.user_webhooks == NotifySettings::Webhooks::kAsDaemon && !options_.is_machine_wide) return true;
  return IsNamedHost(settings.webhook_hosts, known.receiver.target);
}

Status Notifier::CheckPolicy(const NotifyRegistry::Known& known) const {
  const NotifySettings& settings = registry_.settings();
  if (!settings.is_on) return FailedPrecondition("notifications are off; set on = true under [notify] in divvy.toml");
  if (known.owner.uid < 0) return {};
  switch (known.receiver.channel) {
    case NotifyChannel::kWebhook:
      if (settings.user_webhooks == NotifySettings::Webhooks::kOff)
        return PermissionDenied("webhooks of users are off here: user_webhooks in [notify] of divvy.toml");
      return {};
    case NotifyChannel::kMail:
      if (!settings.user_mail)
        return PermissionDenied("mail of users is off here: user_mail in [notify] of divvy.toml");
      return CheckDomain(settings.mail_domains, known.receiver.target);
    case NotifyChannel::kCommand:
      break;
  }
  if (!settings.user_commands.value_or(!options_.is_machine_wide || !options_.serves_others))
    return PermissionDenied(
        "commands of users are off here because they would run on the controller: user_commands in [notify] of "
        "divvy.toml");
  if (known.owner.uid == 0 && !options_.takes_root_commands)
    return PermissionDenied("commands of root are off here, as its jobs are (root_jobs in [jobs] of divvy.toml)");
  if (options_.own_uid != 0 && known.owner.uid != options_.own_uid)
    return PermissionDenied("this daemon belongs to one user and runs notification commands of that user only");
  return {};
}

Result<wire::DeliveryOrder> Notifier::OrderFor(const NotifyRegistry::Known& known, const wire::Notice& notice) const {
  DIVVY_CHECK(CheckPolicy(known));
  const NotifySettings& settings = registry_.settings();
  const Receiver& receiver = known.receiver;
  wire::DeliveryOrder order;
  order.channel = Name(receiver.channel);
  order.target = receiver.target;
  order.secret = receiver.secret;
  order.event = notice.event;
  order.id = notice.id;
  order.subject = "divvy: " + notice.text;
  order.body = receiver.channel == NotifyChannel::kMail ? MailBody(notice) : wire::Encode(notice);
  order.environment = EnvironmentOf(notice);
  order.may_go_inside = MayGoInside(known);
  order.ca_file = settings.ca_file;
  order.sendmail = settings.sendmail;
  order.from = settings.from;
  order.time_limit_s = ToSeconds(settings.time_limit);
  // Deliveries to a user's receiver run as that user. Mail runs as the daemon's user, whose sendmail is set up.
  const bool is_theirs = known.owner.uid >= 0 && receiver.channel != NotifyChannel::kMail;
  if (is_theirs && options_.own_uid == 0) {
    order.run_as = known.owner.name;
    order.uid = known.owner.uid;
  } else if (known.owner.uid < 0) {
    order.run_as = receiver.run_as;
  } else if (receiver.channel == NotifyChannel::kCommand) {
    order.run_as = known.owner.name;
    order.uid = known.owner.uid;
  }
  return order;
}

// --- For the routes --------------------------------------------------------------------------------------------------

Result<wire::ReceiverAnswer> Notifier::Add(const User& owner, const wire::ReceiverRequest& request) {
  const int said =
      (request.webhook.empty() ? 0 : 1) + (request.command.empty() ? 0 : 1) + (request.mail.empty() ? 0 : 1);
  if (said != 1) return InvalidArgument("give exactly one of webhook, command and mail");
  Receiver receiver;
  receiver.name = request.name;
  DIVVY_TRY(receiver.events, ParseNotifyEvents(request.events, false));
  if (receiver.events.empty()) return InvalidArgument("with events 'none' it would never receive anything");
  receiver.channel = !request.webhook.empty()   ? NotifyChannel::kWebhook
                     : !request.command.empty() ? NotifyChannel::kCommand
                                                : NotifyChannel::kMail;
  receiver.target = request.webhook + request.command + request.mail;
  receiver.secret = request.secret;
  DIVVY_CHECK(CheckReceiver(receiver));
  DIVVY_CHECK(CheckPolicy({"", receiver, owner}));
  wire::ReceiverAnswer answer;
  if (receiver.channel == NotifyChannel::kWebhook && receiver.secret.empty()) {
    DIVVY_TRY(answer.secret, MakeSecret());
    receiver.secret = answer.secret;
  }
  if (!receiver.secret.empty()) {
    const auto key = KeyOfSecret(receiver.secret);
    if (!key) return key.error();
  }
  answer.message = "receiver " + receiver.name + ": " + std::string(Name(receiver.channel)) + " " +
                   ShownTarget(receiver.channel, receiver.target) + " receives the events " + ToText(receiver.events) +
                   " of your jobs";
  DIVVY_TRY(auto row, registry_.Add(owner, std::move(receiver), request.replaces));
  Keep({std::move(row)});
  return answer;
}

Status Notifier::Remove(const User& owner, const std::string& name) {
  DIVVY_TRY(auto removed, registry_.Remove(owner, name));
  auto rows = queue_.Drop(removed.first);
  rows.push_back(std::move(removed.second));
  Keep(std::move(rows));
  return {};
}

void Notifier::Test(const std::optional<User>& owner, const std::string& name,
                    std::function<void(Result<wire::NotifyTestAnswer>)> done) {
  const auto all = registry_.Of(owner);
  const auto known = std::ranges::find(all, name, [](const NotifyRegistry::Known& one) { return one.receiver.name; });
  if (known == all.end())
    return done(NotFound("there is no receiver '" + name.substr(0, 40) + "'; divvy notify list shows all receivers"));
  if (tests_ >= kMostTests) return done(LimitExceeded("other tests are in progress; try again later"));
  wire::Notice notice = NoticeOf("test", "This is a test of receiver " + name + ": it works.");
  notice.id = ports_.new_id();
  const auto order = OrderFor(*known, notice);
  if (!order) return done(order.error());
  ++tests_;
  ports_.deliver(*order, [this, alive = is_alive_, done = std::move(done)](const wire::DeliveryResult& result) {
    if (!*alive) return;
    --tests_;
    done(wire::NotifyTestAnswer{result.is_done, result.message});
  });
}

wire::ReceiverView Notifier::ViewOf(const NotifyRegistry::Known& known, Time now) const {
  const NoticeQueue::Counts counts = queue_.Of(known.to);
  const Receiver& receiver = known.receiver;
  wire::ReceiverView view;
  view.name = receiver.name;
  view.user = known.owner.uid < 0 ? "" : known.owner.name;
  view.events = ToText(receiver.events);
  view.channel = Name(receiver.channel);
  view.target = ShownTarget(receiver.channel, receiver.target);
  view.is_signed = !receiver.secret.empty();
  view.waiting = static_cast<std::int64_t>(counts.waiting);
  view.sent = counts.kept.sent;
  view.lost = counts.kept.lost;
  view.last_success = counts.kept.last_success;
  view.last_failure = counts.kept.last_failure;
  view.failure = counts.kept.failure;
  if (counts.next_try != kNever) view.next_try = ToSeconds(std::max(counts.next_try, now));
  return view;
}

wire::NotifyAnswer Notifier::View(const User& user, bool has_admins) const {
  const Time now = driver_->Now();
  wire::NotifyAnswer answer;
  answer.is_on = registry_.settings().is_on;
  if (has_admins) {
    for (const auto& known : registry_.Of(std::nullopt)) answer.receivers.push_back(ViewOf(known, now));
  }
  for (const auto& known : registry_.Of(user)) {
    answer.receivers.push_back(ViewOf(known, now));
    answer.receivers.back().may_be_removed = true;
  }
  // Mail addresses that jobs named have no row of their own.
  const std::string own_mail = "mail/" + std::to_string(user.uid) + "/";
  for (const std::string& to : queue_.Receivers()) {
    if (!to.starts_with(own_mail)) continue;
    auto known = registry_.Find(to);
    if (!known) continue;
    known->owner.name = user.name;
    answer.receivers.push_back(ViewOf(*known, now));
    answer.receivers.back().events = "as its jobs say";
  }
  return answer;
}

}  // namespace divvy
