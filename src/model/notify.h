// Who is told of what happens to jobs and GPUs, and how: what is set in divvy.toml ([notify]) and by users.
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
  kEnd,          // However; a failure is an end too.
  kFail,         // Failed, out of time, or lost.
  kRequeue,      // Ended, and waits again.
  kWaste,        // It wastes its GPUs, or something is done about that.
  kGpuFenced,    // A GPU does not work and takes no jobs; for administrators.
  kGpuUnmanaged  // Somebody uses a GPU past divvy; for administrators.
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
  /// Who hears of ends hears of failures.
  constexpr bool Contains(NotifyEvent event) const {
    return (bits_ & Bit(event)) != 0 || (event == NotifyEvent::kFail && (bits_ & Bit(NotifyEvent::kEnd)) != 0);
  }
  constexpr bool empty() const { return bits_ == 0; }
  friend bool operator==(const NotifyEvents&, const NotifyEvents&) = default;

 private:
  static constexpr std::uint32_t Bit(NotifyEvent event) { return std::uint32_t{1} << static_cast<unsigned>(event); }
  std::uint32_t bits_ = 0;
};
/// "end,fail"; "all" is all that there are of jobs; "none" is none. `has_gpus`: those of GPUs are known too, and part
/// of "all".
Result<NotifyEvents> ParseNotifyEvents(std::string_view text, bool has_gpus);
/// What ParseNotifyEvents reads back.
std::string ToText(const NotifyEvents& events);

enum class NotifyChannel { kWebhook, kCommand, kMail };
std::string_view Name(NotifyChannel channel);  // "webhook", "command", "mail"

/// Somebody, or something, that is told.
struct Receiver {
  std::string name;
  NotifyEvents events;
  NotifyChannel channel = NotifyChannel::kWebhook;
  std::string target;  // A URL, a command of the shell, or an address for mail.
  std::string secret;  // Of a webhook, what its requests are signed with; empty: they are not.
  std::string run_as;  // Of an administrator's command: the user's name; empty: the daemon's.
  // Of an administrator's: whose jobs it hears of. Both empty: everybody's.
  std::vector<std::string> users;
  std::vector<std::string> teams;

  friend bool operator==(const Receiver&, const Receiver&) = default;
};
/// Fails where it is no such target: one line that says what is wrong.
Status CheckReceiver(const Receiver& receiver);
Status CheckReceiverName(std::string_view name);
/// One address: no blanks, no control characters, one '@' or a user's bare name, nothing that sendmail takes for an
/// option.
bool IsMailAddress(std::string_view text);
/// What may be shown of a target: of a URL no more than its host, for the rest may be as good as a password.
std::string ShownTarget(NotifyChannel channel, std::string_view target);

/// [notify]
struct NotifySettings {
  /// Where users' webhooks may go.
  enum class Webhooks {
    kAsDaemon,  // On a daemon of one's own anywhere, else to public addresses.
    kPublic,    // Nowhere inside: no loopback, no private network.
    kAny,
    kOff
  };

  bool is_on = true;
  std::vector<Receiver> receivers;  // Of administrators.
  Webhooks user_webhooks = Webhooks::kAsDaemon;
  std::vector<std::string> webhook_hosts;  // Users' webhooks may go there, whatever address that is; "*.lab" ends so.
  std::optional<bool> user_commands;       // Nothing: where the daemon serves no other machines.
  bool user_mail = true;
  std::vector<std::string> mail_domains;  // Users' mail goes to these alone; empty: to any.
  std::string sendmail = "/usr/sbin/sendmail";
  std::string from;     // Of mail; empty: as sendmail has it.
  std::string ca_file;  // Further authorities for webhooks' certificates.
  int most_per_minute = 20;
  Duration retry_after = std::chrono::seconds(5);  // Doubles, up to an hour.
  Duration give_up_after = std::chrono::hours(24);
  Duration time_limit = std::chrono::seconds(30);  // Of one delivery.

  friend bool operator==(const NotifySettings&, const NotifySettings&) = default;
};

/// What a job says of its own notifications, in labels that came with it (--notify, Slurm's --mail-type).
struct NotifyWish {
  NotifyEvents events;
  bool of_elements = false;  // Of an array: of each element; else of the array as a whole.
  bool is_mail = false;      // `to` are addresses for mail; empty: that of the user. Else they are names of the user's
                             // receivers, or addresses; empty: all receivers of the user.
  std::vector<std::string> to;

  friend bool operator==(const NotifyWish&, const NotifyWish&) = default;
};
inline constexpr std::string_view kNotifyLabel = "notify";
inline constexpr std::string_view kNotifyToLabel = "notify-to";

}  // namespace divvy
