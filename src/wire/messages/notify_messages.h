// The messages of notifications: what receivers get, the settings and views of receivers, and what the delivery process
// reads and writes. See messages.h for the conventions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/job.h"

namespace divvy::wire {

struct NoticeJob {
  JobId id;
  std::string display_id;
  std::string name;
  std::string user;
  std::string team;
  std::string state;
  std::string reason;
  std::string node;  // Empty: the controller's own node, or the job has not started.
  double gpus = 0;
  std::int64_t attempt = 0;
  std::optional<std::int64_t> exit_code;
  double submit_time = 0;
  double start_time = 0;  // 0: it never started.
  double end_time = 0;    // 0: it has not ended.
};
struct NoticeGpu {
  std::string node;
  std::int64_t index = 0;
  std::string uuid;
  std::string model;
  std::string reason;
};
/// For event "waste": what the run has lost so far.
struct NoticeWaste {
  double lost_gpu_hours = 0;
  std::optional<double> lost_cost;  // Set where GPU prices are configured.
};
/// One event. Webhooks get it as their body, and commands on standard input.
struct Notice {
  std::string id;     // The same at each retry.
  std::string event;  // "start", "end", "fail", "requeue", "waste", "gpu_fenced", "gpu_unmanaged", "test".
  double time = 0;
  std::string host;  // The daemon's host.
  std::string text;  // One line for people.
  std::optional<NoticeJob> job;
  std::optional<NoticeGpu> gpu;
  std::optional<NoticeWaste> waste;
};
/// A notice that waits for its delivery.
struct QueuedNotice {
  std::string to;  // "admin/ops", "user/1000/phone", "mail/1000/ada@example.org"
  Notice notice;
};

struct ReceiverRequest {
  std::string name;
  std::string events = "end";  // "start,fail", "all".
  std::string webhook;         // Exactly one of webhook, command and mail is set.
  std::string command;
  std::string mail;
  std::string secret;     // For webhooks. Empty: the daemon generates one.
  bool replaces = false;  // Replaces a receiver of the same name. False: an existing name is an error.
};
struct ReceiverAnswer {
  std::string message;
  std::string secret;  // For webhooks: the generated secret. Shown only once.
};
struct ReceiverView {
  std::string name;
  std::string user;  // The owner. Empty: configured by administrators in divvy.toml.
  std::string events;
  std::string channel;  // "webhook", "command", "mail"
  std::string target;   // The part that may be shown: for a URL, only its host.
  bool is_signed = false;
  bool may_be_removed = false;  // The caller may remove it, because it is their own.
  std::int64_t waiting = 0;
  std::int64_t sent = 0;
  std::int64_t lost = 0;  // Notices that were not delivered: given up, rejected permanently, or over the queue limit.
  double last_success = 0;
  double last_failure = 0;
  std::string failure;  // The last error. Empty: none since the last success.
  double next_try = 0;  // 0: no notice waits.
};
struct NotifyAnswer {
  bool is_on = true;
  std::vector<ReceiverView> receivers;
};
struct ReceiverName {
  std::string name;
};
struct NotifyTestAnswer {
  bool is_done = false;
  std::string message;  // "204 No Content in 0.1 s", "exit code 3: no such host".
};

/// A user's receiver, as stored.
struct KeptReceiver {
  std::string name;
  std::string user;
  std::int64_t gid = -1;
  std::string events;
  std::string channel;
  std::string target;
  std::string secret;
};
/// Delivery statistics of a receiver, as stored.
struct KeptDeliveries {
  std::int64_t sent = 0;
  std::int64_t lost = 0;
  double last_success = 0;
  double last_failure = 0;
  std::string failure;
};
/// A job's own notification settings.
struct KeptWish {
  std::string events;  // Empty: not set.
  bool of_elements = false;
  bool is_mail = false;
  std::vector<std::string> to;
  std::string on_waste;
};
/// A GPU that administrators were notified about.
struct ToldGpu {
  std::string node;
  std::int64_t index = 0;
  std::string fenced;     // Why it is fenced. Empty: it is not.
  std::string unmanaged;  // The user that uses it without divvy.

  friend bool operator==(const ToldGpu&, const ToldGpu&) = default;
};

/// The work of the process that delivers one notice, read from its standard input.
struct DeliveryOrder {
  std::string channel;
  std::string target;
  std::string secret;
  std::string run_as;     // A user's name. Empty: runs as the daemon.
  std::int64_t uid = -1;  // The uid that this user had. -1: any.
  std::string event;
  std::string id;
  std::string subject;                   // For mail.
  std::string body;                      // The notice as JSON; for mail, the text.
  std::vector<std::string> environment;  // For commands, in addition to a login environment.
  bool may_go_inside = true;             // Requests may go to loopback and private addresses.
  std::string ca_file;
  std::string sendmail;
  std::string from;
  double time_limit_s = 30;
};
struct DeliveryResult {
  bool is_done = false;
  bool may_try_again = false;  // The error may be temporary.
  double try_after_s = 0;      // Delay that the receiver requested. 0: none.
  std::string message;
};

}  // namespace divvy::wire
