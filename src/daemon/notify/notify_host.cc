#include "daemon/notify/notify_host.h"

#include <unistd.h>

#include <cmath>

#include "daemon/auth/accounts.h"
#include "daemon/node/machine.h"
#include "daemon/notify/courier.h"
#include "platform/net/tls.h"

namespace divvy {
namespace {

constexpr std::size_t kNoticeIdBytes = 12;

}  // namespace

std::shared_ptr<Notifier> MakeNotifier(const dialect::Config& config, const RuntimePaths& places,
                                       const NotifyHost& host) {
  Notifier::Options options;
  options.settings = config.notify;
  options.host = HostName();
  options.is_machine_wide = places.is_machine_wide;
  options.serves_others = host.serves_others;
  options.takes_root_commands = host.takes_root_commands;
  // With a launcher (a helper process with root's rights), this daemon can deliver as other users, as if it were root.
  options.own_uid = host.errands ? 0 : static_cast<std::int64_t>(::geteuid());
  Notifier::Ports ports;
  ports.after = host.after;
  Courier::StartAs start_as;
  if (host.errands) {
    start_as = [errands = host.errands, right_of = host.right_of](const wire::DeliveryOrder& order,
                                                                  int end) -> Result<StartedProgram> {
      if (order.run_as.empty()) return errands->Start({::geteuid(), ::getegid(), {}}, UserProgram::kDeliver, "", end);
      const auto user = FindAccount(order.run_as);
      if (!user) return NotFound("this machine has no user " + order.run_as);
      const std::string limit = std::to_string(static_cast<std::int64_t>(std::ceil(order.time_limit_s)));
      return errands->Start({user->uid, user->gid, right_of(*user)}, UserProgram::kDeliver, limit, end);
    };
  }
  auto courier = std::make_shared<Courier>(host.loop, std::vector<std::string>{OwnPath(), "internal-deliver"},
                                           std::move(start_as));
  ports.deliver = [courier](const wire::DeliveryOrder& order, std::function<void(const wire::DeliveryResult&)> done) {
    courier->Send(order, std::move(done));
  };
  ports.new_id = [count = std::uint64_t{0}]() mutable {
    // Without random bytes (which never happens in practice), the id is at least unique in this process.
    const auto chance = RandomHex(kNoticeIdBytes);
    return "ntc_" + (chance ? *chance : std::to_string(::getpid()) + "_" + std::to_string(++count));
  };
  ports.log = [&log = host.log](const std::string& line) { log.Write(LogLevel::kInfo, line); };
  return std::make_shared<Notifier>(std::move(options), std::move(ports));
}

}  // namespace divvy
