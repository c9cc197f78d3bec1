#include "daemon/notify/deliver.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>

#include "base/base64.h"
#include "base/text.h"
#include "model/notify.h"
#include "platform/net/web_post.h"
#include "platform/os/clock.h"
#include "platform/os/hook_program.h"
#include "platform/users/signature.h"
#include "version.h"
#include "wire/messages/codec.h"

namespace divvy {
namespace {

using wire::DeliveryOrder;
using wire::DeliveryResult;

constexpr int kTryAgainCode = 75;  // EX_TEMPFAIL of sysexits.h.
constexpr std::size_t kMostOrder = 1 << 20;

std::string SecondsText(Duration span) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", ToSeconds(span));
  return text;
}

Duration LimitOf(const DeliveryOrder& order) {
  return std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(std::clamp(order.time_limit_s, 1.0, 3600.0)));
}

DeliveryResult Failed(const Error& error) {
  const bool may_try_again = error.code == ErrorCode::kUnreachable || error.code == ErrorCode::kTimedOut;
  return {false, may_try_again, 0, error.message};
}

DeliveryResult ToWebhook(const DeliveryOrder& order, Time now) {
  auto url = ParseWebUrl(order.target);
  if (!url) return Failed(url.error());
  WebPost post;
  post.url = *std::move(url);
  post.body = order.body;
  post.may_go_inside = order.may_go_inside;
  post.ca_file = order.ca_file;
  post.time_limit = LimitOf(order);
  const std::string timestamp = std::to_string(static_cast<std::int64_t>(ToSeconds(now)));
  post.headers = {{"User-Agent", "divvy/" + std::string(kVersion)},
                  {"Content-Type", "application/json"},
                  {"webhook-id", order.id},
                  {"webhook-timestamp", timestamp},
                  {"Divvy-Event", order.event}};
  if (!order.secret.empty()) {
    auto signature = SignRequest(order.secret, order.id, timestamp, order.body);
    if (!signature) return Failed(signature.error());
    post.headers.emplace_back("webhook-signature", *std::move(signature));
  }
  const auto began = std::chrono::steady_clock::now();
  const auto answer = Post(post);
  if (!answer) return Failed(answer.error());
  const auto took = std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - began);
  DeliveryResult result;
  result.is_done = answer->status >= 200 && answer->status < 300;
  result.may_try_again = MayTryAgain(answer->status);
  result.try_after_s = ToSeconds(answer->retry_after);
  result.message = post.url.host + " answered " + answer->status_line + " in " + SecondsText(took);
  if (answer->status >= 300 && answer->status < 400) result.message += "; redirections are not followed";
  return result;
}

std::string LastWords(std::string text) { return std::string(Trim(OneLine(std::move(text)))); }

DeliveryResult ResultOf(const Result<HookEnd>& end, const std::string& what) {
  if (!end) return {false, false, 0, end.error().message};
  DeliveryResult result;
  result.is_done = end->code == 0 && !end->was_too_slow;
  result.may_try_again = end->was_too_slow || end->code == kTryAgainCode;
  result.message = end->was_too_slow ? what + " took too long and was killed"
                                     : what + " ended with exit code " + std::to_string(end->code);
  if (const std::string words = LastWords(end->output); !words.empty()) result.message += ": " + words;
  return result;
}

DeliveryResult ToCommand(const DeliveryOrder& order, const HookUser& user) {
  HookRun run;
  run.words = {"/bin/sh", "-c", order.target};
  run.environment = {"HOME=" + user.home,
                     "USER=" + user.name,
                     "LOGNAME=" + user.name,
                     "SHELL=" + user.shell,
                     "PATH=/usr/local/bin:/usr/bin:/bin",
                     "CUDA_VISIBLE_DEVICES=",  // Hides the GPUs, which are for jobs.
                     "DIVVY_EVENT=" + order.event,
                     "DIVVY_NOTICE_ID=" + order.id};
  run.environment.insert(run.environment.end(), order.environment.begin(), order.environment.end());
  run.directory = user.home;
  run.input = order.body + "\n";
  run.time_limit = LimitOf(order);
  return ResultOf(RunHook(run), "the command");
}

DeliveryResult ToMail(const DeliveryOrder& order, Time now) {
  HookRun run;
  // sendmail reads the addresses from the message (-t), and a line with a single dot does not end the message (-i).
  run.words = {order.sendmail, "-t", "-i"};
  if (!order.from.empty()) run.words.insert(run.words.end(), {"-f", order.from});
  run.environment = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/", "LANG=C.UTF-8"};
  run.input = MailText(order, now);
  run.time_limit = LimitOf(order);
  // On a mail server, sendmail queues the message, and a process that it leaves behind sends it (the default of exim4).
  // Without that process the message would wait until the server's next queue run, half an hour later.
  run.may_leave_processes = true;
  if (::access(order.sendmail.c_str(), X_OK) != 0)
    return {false, true, 0,
            "there is no " + order.sendmail + " (sendmail in [notify] of divvy.toml) to send mail with"};
  return ResultOf(RunHook(run), order.sendmail);
}

/// Encodes by RFC 2047 if the text is not plain ASCII.
std::string HeaderText(std::string_view text) {
  std::string plain = LastWords(std::string(text.substr(0, 200)));
  const bool is_ascii = std::ranges::none_of(plain, [](char c) { return static_cast<unsigned char>(c) >= 128; });
  if (is_ascii) return plain;
  std::string words;
  // 45 bytes become 60 characters; multi-byte characters are not split.
  for (std::size_t at = 0; at < plain.size();) {
    std::size_t size = std::min<std::size_t>(45, plain.size() - at);
    while (at + size < plain.size() && size > 1 && (static_cast<unsigned char>(plain[at + size]) & 0xc0) == 0x80)
      --size;
    words += (words.empty() ? "=?UTF-8?B?" : "\n =?UTF-8?B?") + Base64(plain.substr(at, size)) + "?=";
    at += size;
  }
  return words;
}

Result<std::string> ReadAll(int fd) {
  std::string text;
  std::array<char, 16'384> room{};
  for (;;) {
    const ssize_t got = ::read(fd, room.data(), room.size());
    if (got == 0) return text;
    if (got < 0 || text.size() > kMostOrder) return Internal("the order cannot be read");
    text.append(room.data(), static_cast<std::size_t>(got));
  }
}

void BeModest() {
  ::setpriority(PRIO_PROCESS, 0, 10);
  if (const int fd = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC); fd >= 0) {
    static_cast<void>(!::write(fd, "900", 3));
    ::close(fd);
  }
}

Result<HookUser> UserOf(const DeliveryOrder& order) {
  if (!order.run_as.empty()) return BecomeUser(order.run_as, order.uid);
  return HookUser{"", "/", "/bin/sh"};
}

}  // namespace

bool MayTryAgain(int status) { return status == 408 || status == 425 || status == 429 || status >= 500; }

std::string MailText(const DeliveryOrder& order, Time now) {
  const auto seconds = static_cast<std::time_t>(ToSeconds(now));
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  char date[64];
  // Names of days and months by RFC 5322, independent of the locale.
  constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  std::snprintf(date, sizeof date, "%s, %02d %s %04d %02d:%02d:%02d +0000", kDays[utc.tm_wday], utc.tm_mday,
                kMonths[utc.tm_mon], utc.tm_year + 1900, utc.tm_hour, utc.tm_min, utc.tm_sec);
  std::string text = "To: " + order.target + "\nSubject: " + HeaderText(order.subject) + "\nDate: " + date + "\n";
  if (!order.from.empty()) text += "From: " + order.from + "\n";
  text += "Message-ID: <" + order.id + "@divvy.invalid>\n";
  text +=
      "Auto-Submitted: auto-generated\nMIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\n"
      "Content-Transfer-Encoding: 8bit\nX-Divvy-Event: " +
      order.event + "\n\n" + order.body;
  return text;
}

DeliveryResult Deliver(const DeliveryOrder& order, Time now) {
  const auto user = UserOf(order);
  if (!user) return {false, false, 0, user.error().message};
  if (order.channel == Name(NotifyChannel::kWebhook)) return ToWebhook(order, now);
  if (order.channel == Name(NotifyChannel::kCommand)) return ToCommand(order, *user);
  return ToMail(order, now);
}

int DeliverMain(const std::vector<std::string>& words) {
  BeModest();
  const auto text = ReadAll(STDIN_FILENO);
  const auto order = text ? wire::Decode<DeliveryOrder>(*text) : Result<DeliveryOrder>(text.error());
  const bool is_allowed =
      !order || words.empty() || (order->channel == Name(NotifyChannel::kMail) && order->sendmail == words.front());
  const std::string refusal = words.empty() ? "" : "only mail by " + words.front() + " is sent from this machine";
  const DeliveryResult result = !order       ? DeliveryResult{false, false, 0, order.error().message}
                                : is_allowed ? Deliver(*order, RealClock().Now())
                                             : DeliveryResult{false, false, 0, refusal};
  const std::string answer = wire::Encode(result);
  std::string_view rest = answer;
  while (!rest.empty()) {
    const ssize_t put = ::write(STDOUT_FILENO, rest.data(), rest.size());
    if (put <= 0) return 1;
    rest.remove_prefix(static_cast<std::size_t>(put));
  }
  return 0;
}

}  // namespace divvy
