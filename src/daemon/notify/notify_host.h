// Assembles notifications for the daemon process: the registry, the queue, and the processes that deliver.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>

#include "daemon/notify/notifier.h"
#include "daemon/runtime/log.h"
#include "dialect/config/config.h"
#include "platform/os/runtime_paths.h"
#include "platform/supervisor/root_errand.h"

namespace divvy {

struct NotifyHost {
  boost::asio::io_context& loop;
  Log& log;
  std::function<void(Duration, std::function<void()>)> after;
  bool serves_others = false;
  bool takes_root_commands = false;
  // Optional. A launcher that acts as users on our behalf; `right_of` returns the right that it requires.
  std::shared_ptr<RootErrands> errands;
  std::function<UserRight(const User& user)> right_of;
};
std::shared_ptr<Notifier> MakeNotifier(const dialect::Config& config, const RuntimePaths& places,
                                       const NotifyHost& host);

}  // namespace divvy
