#include "dialect/config/config_notify.h"

#include <algorithm>

#include "dialect/config/config_values.h"
#include "dialect/options/quantities.h"

namespace divvy::dialect {
namespace {

constexpr std::string_view kNotify = "notify";
constexpr std::string_view kReceivers = "notify.";
constexpr std::string_view kNotifyKeys[] = {
    "on",   "user_webhooks", "webhook_hosts", "user_commands",  "user_mail",     "mail_domains", "sendmail",
    "from", "ca_file",       "retry_after",   "max_per_minute", "give_up_after", "time_limit"};
constexpr std::string_view kReceiverKeys[] = {"events", "webhook", "command", "mail",
                                              "secret", "run_as",  "users",   "teams"};

Result<Duration> Span(const ConfigValue& value, std::string_view example, Duration least, Duration most) {
  DIVVY_TRY(const Duration span, ConfigSpan(value, example));
  if (span < least || span > most)
    return InvalidArgument("is " + FormatDuration(span) + "; allowed are " + FormatDuration(least) + " to " +
                           FormatDuration(most));
  return span;
}

Result<std::string> Path(const ConfigValue& value, std::string_view example) {
  DIVVY_TRY(const std::string text, ConfigText(value, example));
  if (!text.starts_with('/')) return InvalidArgument(Quoted(text) + " is not an absolute path; begin it with /");
  return text;
}

Result<std::vector<std::string>> Hosts(const ConfigValue& value) {
  DIVVY_TRY(auto names, ConfigNames(value));
  for (std::string& name : names) {
    name = ToLower(name);
    if (name.empty() || name.find_first_of("/@ \t") != std::string::npos)
      return InvalidArgument(Quoted(name) + " is not a host name; write it like \"hooks.lab\" or \"*.lab\"");
  }
  return names;
}

Status ReadSetting(const ConfigEntry& entry, NotifySettings& settings) {
  const ConfigValue& value = entry.value;
  const std::string& key = entry.key;
  using Webhooks = NotifySettings::Webhooks;
  if (key == "on") {
    DIVVY_TRY(settings.is_on, ConfigYesOrNo(value));
  } else if (key == "user_webhooks") {
    DIVVY_TRY(settings.user_webhooks,
              ConfigOneOf<Webhooks>(value,
                                    {{"public", Webhooks::kPublic}, {"any", Webhooks::kAny}, {"off", Webhooks::kOff}}));
  } else if (key == "webhook_hosts") {
    DIVVY_TRY(settings.webhook_hosts, Hosts(value));
  } else if (key == "user_commands") {
    DIVVY_TRY(settings.user_commands, ConfigYesOrNo(value));
  } else if (key == "user_mail") {
    DIVVY_TRY(settings.user_mail, ConfigYesOrNo(value));
  } else if (key == "mail_domains") {
    DIVVY_TRY(settings.mail_domains, Hosts(value));
  } else if (key == "sendmail") {
    DIVVY_TRY(settings.sendmail, Path(value, "/usr/sbin/sendmail"));
  } else if (key == "from") {
    DIVVY_TRY(settings.from, ConfigText(value, "divvy@example.org"));
    if (!IsMailAddress(settings.from)) return InvalidArgument(Quoted(settings.from) + " is not a mail address");
  } else if (key == "ca_file") {
    DIVVY_TRY(settings.ca_file, Path(value, "/etc/ssl/lab.pem"));
  } else if (key == "max_per_minute") {
    DIVVY_TRY(const std::int64_t count, ConfigCount(value, 1, 6000));
    settings.most_per_minute = static_cast<int>(count);
  } else if (key == "retry_after") {
    DIVVY_TRY(settings.retry_after, Span(value, "5s", 1s, 1h));
  } else if (key == "give_up_after") {
    DIVVY_TRY(settings.give_up_after, Span(value, "24h", 1min, 24h * 30));
  } else if (key == "time_limit") {
    DIVVY_TRY(settings.time_limit, Span(value, "30s", 1s, 10min));
  } else {
    return UnknownConfigKey(entry, kNotifyKeys);
  }
  return {};
}

Status SetTarget(Receiver& receiver, NotifyChannel channel, const ConfigValue& value, std::string_view example) {
  DIVVY_TRY(std::string target, ConfigText(value, example));
  if (!receiver.target.empty())
    return InvalidArgument("[notify." + receiver.name + "] has a " + std::string(Name(receiver.channel)) +
                           " already; a receiver has only one of webhook, command and mail");
  receiver.channel = channel;
  receiver.target = std::move(target);
  return {};
}

Status ReadReceiver(const ConfigEntry& entry, Receiver& receiver) {
  const ConfigValue& value = entry.value;
  const std::string& key = entry.key;
  if (key == "events") {
    std::string list;
    if (const auto* text = std::get_if<std::string>(&value)) {
      list = *text;
    } else {
      DIVVY_TRY(const auto names, ConfigNames(value));
      for (const std::string& name : names) list += (list.empty() ? "" : ",") + name;
    }
    DIVVY_TRY(receiver.events, ParseNotifyEvents(list, true));
  } else if (key == "webhook") {
    return SetTarget(receiver, NotifyChannel::kWebhook, value, "https://hooks.example.org/divvy");
  } else if (key == "command") {
    return SetTarget(receiver, NotifyChannel::kCommand, value, "/usr/local/bin/tell-us");
  } else if (key == "mail") {
    return SetTarget(receiver, NotifyChannel::kMail, value, "ops@example.org");
  } else if (key == "secret") {
    DIVVY_TRY(receiver.secret, ConfigText(value, "whsec_..."));
  } else if (key == "run_as") {
    DIVVY_TRY(receiver.run_as, ConfigText(value, "ops"));
  } else if (key == "users") {
    DIVVY_TRY(receiver.users, ConfigNames(value));
  } else if (key == "teams") {
    DIVVY_TRY(receiver.teams, ConfigNames(value));
  } else {
    return UnknownConfigKey(entry, kReceiverKeys);
  }
  return {};
}

}  // namespace

bool IsOfNotify(const ConfigEntry& entry) { return entry.section == kNotify || entry.section.starts_with(kReceivers); }

Status ReadNotifyEntry(const ConfigEntry& entry, NotifySettings& settings) {
  if (entry.section == kNotify) {
    const Status read = entry.key.empty() ? Status() : ReadSetting(entry, settings);
    return read ? read : AboutConfigKey(entry, read.error());
  }
  const std::string_view name = std::string_view(entry.section).substr(kReceivers.size());
  DIVVY_CHECK(CheckReceiverName(name));
  Receiver& receiver = ConfigRow(settings.receivers, &Receiver::name, name);
  const Status read = entry.key.empty() ? Status() : ReadReceiver(entry, receiver);
  return read ? read : AboutConfigKey(entry, read.error());
}

// Reports missing keys at the table's own line.
Status CheckNotifyEntry(const ConfigEntry& entry, const NotifySettings& settings) {
  if (!entry.section.starts_with(kReceivers) || !entry.key.empty()) return {};
  const std::string_view name = std::string_view(entry.section).substr(kReceivers.size());
  const auto receiver = std::ranges::find(settings.receivers, name, &Receiver::name);
  const std::string which = "[" + entry.section + "]: ";
  if (const Status good = CheckReceiver(*receiver); !good) return InvalidArgument(which + good.error().message);
  if (receiver->events.empty())
    return InvalidArgument(which + "it has no events; write events = [\"fail\", \"waste\", \"gpu_fenced\"]");
  if (!receiver->run_as.empty() && receiver->channel != NotifyChannel::kCommand)
    return InvalidArgument(which + "run_as needs a command");
  return {};
}

}  // namespace divvy::dialect
