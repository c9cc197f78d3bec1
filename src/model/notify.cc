#include "model/notify.h"

#include <algorithm>

#include "base/text.h"

namespace divvy {
namespace {

constexpr std::size_t kLongestTarget = 2000;

/// "hooks.lab:8000" of "https://ada@hooks.lab:8000/x".
std::string_view HostOf(std::string_view url) {
  const auto scheme = url.find("://");
  if (scheme == std::string_view::npos) return "";
  const std::string_view rest = url.substr(scheme + 3);
  const std::string_view host = rest.substr(0, rest.find_first_of("/?#"));
  const auto at = host.rfind('@');
  return at == std::string_view::npos ? host : host.substr(at + 1);
}

bool HasControl(std::string_view text) {
  return std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 127; });
}

std::string EventList(bool has_gpus) {
  std::string list;
  for (const NotifyEvent event : kNotifyEvents) {
    if (has_gpus || IsOfJobs(event)) list += std::string(Name(event)) + ", ";
  }
  return list + "all and none";
}

}  // namespace

std::string_view Name(NotifyEvent event) {
  switch (event) {
    case NotifyEvent::kStart:
      return "start";
    case NotifyEvent::kEnd:
      return "end";
    case NotifyEvent::kFail:
      return "fail";
    case NotifyEvent::kRequeue:
      return "requeue";
    case NotifyEvent::kWaste:
      return "waste";
    case NotifyEvent::kGpuFenced:
      return "gpu_fenced";
    case NotifyEvent::kGpuUnmanaged:
      break;
  }
  return "gpu_unmanaged";
}

std::string_view Name(NotifyChannel channel) {
  return channel == NotifyChannel::kWebhook ? "webhook" : channel == NotifyChannel::kCommand ? "command" : "mail";
}

Result<NotifyEvents> ParseNotifyEvents(std::string_view text, bool has_gpus) {
  NotifyEvents events;
  bool is_none = false;
  for (std::string_view word : Split(text, ',')) {
    word = Trim(word);
    is_none = is_none || word == "none";
    bool is_known = word == "none" || word == "all";
    for (const NotifyEvent event : kNotifyEvents) {
      if (!has_gpus && !IsOfJobs(event)) continue;
      if (word != "all" && word != Name(event)) continue;
      events.Insert(event);
      is_known = true;
    }
    if (!is_known)
      return InvalidArgument("'" + std::string(word.substr(0, 40)) + "' is not an event: expected " +
                             EventList(has_gpus));
  }
  if (is_none && !events.empty()) return InvalidArgument("'none' cannot be combined with other events");
  return events;
}

std::string ToText(const NotifyEvents& events) {
  std::string text;
  for (const NotifyEvent event : kNotifyEvents) {
    NotifyEvents one;
    one.Insert(event);
    // Prints the events as they were configured. kEnd includes kFail, so "fail" is not printed next to "end".
    const bool is_said = events.Contains(event) && !(event == NotifyEvent::kFail && events.Contains(NotifyEvent::kEnd));
    if (is_said) text += (text.empty() ? "" : ",") + std::string(Name(event));
  }
  return text.empty() ? "none" : text;
}

Status CheckReceiverName(std::string_view name) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  if (!name.empty() && name.size() <= 40 && std::ranges::all_of(name, is_plain) && name.front() != '-') return {};
  return InvalidArgument("'" + std::string(name.substr(0, 40)) +
                         "' is not a valid receiver name: use letters, digits, '_' and '-', 40 at most");
}

bool IsMailAddress(std::string_view text) {
  if (text.empty() || text.size() > 254 || text.front() == '-') return false;
  const auto is_odd = [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte <= ' ' || byte >= 127 || std::string_view("\"(),:;<>[]\\|!/`$&").find(c) != std::string_view::npos;
  };
  if (std::ranges::any_of(text, is_odd)) return false;
  const auto at = text.find('@');
  if (at == std::string_view::npos) return true;
  return at > 0 && at + 1 < text.size() && text.find('@', at + 1) == std::string_view::npos;
}

Status CheckReceiver(const Receiver& receiver) {
  DIVVY_CHECK(CheckReceiverName(receiver.name));
  const std::string& target = receiver.target;
  if (target.empty()) return InvalidArgument("the target is missing: give a webhook, a command or a mail address");
  if (target.size() > kLongestTarget)
    return InvalidArgument("its " + std::string(Name(receiver.channel)) + " is longer than " +
                           std::to_string(kLongestTarget) + " characters");
  if (receiver.channel == NotifyChannel::kMail && !IsMailAddress(target))
    return InvalidArgument("'" + target.substr(0, 100) + "' is not a mail address; write it like ada@example.org");
  if (receiver.channel == NotifyChannel::kCommand && target.find('\0') != std::string::npos)
    return InvalidArgument("the command contains a zero byte");
  const bool is_url = target.starts_with("https://") || target.starts_with("http://");
  if (receiver.channel == NotifyChannel::kWebhook &&
      (!is_url || HasControl(target) || target.find(' ') != std::string::npos))
    return InvalidArgument("a webhook is a URL such as https://hooks.example.org/divvy");
  if (receiver.channel == NotifyChannel::kWebhook && (HostOf(target).empty() || HostOf(target).front() == ':'))
    return InvalidArgument("the webhook URL has no host; write it like https://hooks.example.org/divvy");
  if (!receiver.secret.empty() && receiver.channel != NotifyChannel::kWebhook)
    return InvalidArgument("only webhooks take a secret, which signs their requests");
  if (!receiver.secret.empty() && receiver.secret.size() < 16)
    return InvalidArgument("the secret has fewer than 16 characters");
  return {};
}

std::string ShownTarget(NotifyChannel channel, std::string_view target) {
  if (channel == NotifyChannel::kCommand) {
    // Shows only the first word of a command, because its arguments may contain a token.
    const auto blank = target.find_first_of(" \t\n");
    return std::string(target.substr(0, blank)) + (blank == std::string_view::npos ? "" : " ...");
  }
  if (channel == NotifyChannel::kMail) return std::string(target);
  const auto scheme = target.find("://");
  if (scheme == std::string_view::npos) return "...";
  const bool has_more = target.find_first_of("/?#", scheme + 3) != std::string_view::npos;
  return std::string(target.substr(0, scheme + 3)) + std::string(HostOf(target)) + (has_more ? "/..." : "");
}

}  // namespace divvy
