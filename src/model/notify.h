// Notification settings: which receivers get which events, from divvy.toml ([notify]) and from users.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace divvy {

enum class NotifyEvent : std::uint8_t {
  kStart,
  kEnd,          // Any end, including failures.
  kFail,         // Failed, timed out or lost.
  kRequeue,      // The run ended, and the job waits again.
  kWaste,        // The job wastes GPUs, or an action was taken because of that.
  kGpuFenced,    // A GPU is broken and accepts no jobs. For administrators.
  kGpuUnmanaged  // A GPU is used without divvy. For administrators.
};
inline constexpr NotifyEvent kNotifyEvents[] = {NotifyEvent::kStart,       NotifyEvent::kEnd,   NotifyEvent::kFail,
                                                NotifyEvent::kRequeue,     NotifyEvent::kWaste, NotifyEvent::kGpuFenced,
                                                NotifyEvent::kGpuUnmanaged};
/// "start", "end", "fail", "requeue", "waste", "gpu_fenced", "gpu_unmanaged".
std::string_view Name(NotifyEvent event);
constexpr bool IsOfJobs(NotifyEvent event) { return event < NotifyEvent::kGpuFenced; }

class NotifyEvents {
 public:
  constexpr void Insert(NotifyEvent event) { bits_ |= Bit(event); }
  /// Returns true if a receiver with these events gets this one. A receiver that gets kEnd also gets kFail.
  constexpr bool Contains(NotifyEvent event) const {
    return (bits_ & Bit(event)) != 0 || (event == NotifyEvent::kFail && (bits_ & Bit(NotifyEvent::kEnd)) != 0);
  }
  constexpr bool empty() const { return bits_ == 0; }
  friend bool operator==(const NotifyEvents&, const NotifyEvents&) = default;

 private:
  static constexpr std::uint32_t Bit(NotifyEvent event) { return std::uint32_t{1} << static_cast<unsigned>(event); }
  std::uint32_t bits_ = 0;
};
/// Parses "end,fail". "all": all events of jobs; "none": no event. `has_gpus`: GPU events are allowed too, and are part
/// of "all".
Result<NotifyEvents> ParseNotifyEvents(std::string_view text, bool has_gpus);
/// Returns the events as ParseNotifyEvents reads them: "end,waste"; "none" if there are none.
std::string ToText(const NotifyEvents& events);

enum class NotifyChannel { kWebhook, kCommand, kMail };
std::string_view Name(NotifyChannel channel);  // "webhook", "command", "mail"

/// A destination for notifications.
struct Receiver {
  std::string name;
  NotifyEvents events;
  NotifyChannel channel = NotifyChannel::kWebhook;
  std::string target;  // A URL, a shell command or a mail address.
  std::string secret;  // For webhooks: the key that signs requests. Empty: requests are not signed.
  std::string run_as;  // For an administrator's command: the user that runs it. Empty: the daemon's user.
  // For an administrator's receiver: only jobs of these. Both empty: all jobs.
  std::vector<std::string> users;
  std::vector<std::string> teams;

  friend bool operator==(const Receiver&, const Receiver&) = default;
};
/// Fails if a field is invalid, with a one-line message.
Status CheckReceiver(const Receiver& receiver);
Status CheckReceiverName(std::string_view name);
/// Whether `text` is a single mail address: no blanks, no control characters, one '@' or only a user name, and not
/// something that sendmail takes for an option.
bool IsMailAddress(std::string_view text);
/// The part of a target that may be shown: for a URL only its host, because the rest may contain a secret.
std::string ShownTarget(NotifyChannel channel, std::string_view target);

/// [notify]
struct NotifySettings {
  /// Where users' webhooks may connect to.
  enum class Webhooks {
    kAsDaemon,  // Anywhere for a user's own daemon, otherwise only public addresses.
    kPublic,    // Only public addresses: no loopback, no private network.
    kAny,
    kOff
  };

  bool is_on = true;
  std::vector<Receiver> receivers;  // Receivers configured by administrators.
  Webhooks user_webhooks = Webhooks::kAsDaemon;
  std::vector<std::string> webhook_hosts;  // Users' webhooks may go to these hosts, whatever their address. "*.lab":
                                           // every host with that suffix.
  std::optional<bool> user_commands;       // Default: allowed on a user's own daemon, and on a daemon that serves no
                                           // other machines.
  bool user_mail = true;
  std::vector<std::string> mail_domains;  // Users' mail may go only to these domains. Empty: to any.
  std::string sendmail = "/usr/sbin/sendmail";
  std::string from;     // The sender address of mail. Empty: sendmail's default.
  std::string ca_file;  // Additional certificate authorities for webhooks.
  int most_per_minute = 20;
  Duration retry_after = std::chrono::seconds(5);  // The first delay. It doubles with each retry, up to one hour.
  Duration give_up_after = std::chrono::hours(24);
  Duration time_limit = std::chrono::seconds(30);  // For one delivery.

  friend bool operator==(const NotifySettings&, const NotifySettings&) = default;
};

/// The notification settings of a job, from labels that were submitted with it (--notify, Slurm's --mail-type).
struct NotifyWish {
  NotifyEvents events;
  bool of_elements = false;  // For an array: one notification per element. False: one for the whole array.
  bool is_mail = false;      // `to` has mail addresses; empty: the user's address. False: `to` has names of the user's
                             // receivers, or addresses; empty: all receivers of the user.
  std::vector<std::string> to;

  friend bool operator==(const NotifyWish&, const NotifyWish&) = default;
};
inline constexpr std::string_view kNotifyLabel = "notify";
inline constexpr std::string_view kNotifyToLabel = "notify-to";

}  // namespace divvy
