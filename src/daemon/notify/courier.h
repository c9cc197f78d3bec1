// Starts a process for each notification that is to be delivered, and hears how it went. On the loop's thread, which
// never waits for one.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "platform/supervisor/root_errand.h"
#include "wire/messages/notify_messages.h"

namespace divvy {

class Courier {
 public:
  /// Starts the process for an order as the user that it names (DeliveryOrder::run_as) or, where it names none, as the
  /// daemon's, with `end` as its standard input and output, where it takes the launcher: for users and for mail.
  using StartAs = std::function<Result<StartedProgram>(const wire::DeliveryOrder& order, int end)>;

  /// `command`: {"/path/of/divvy", "internal-deliver"}.
  Courier(boost::asio::io_context& loop, std::vector<std::string> command, StartAs start_as = nullptr);
  /// Deliveries under way go on by themselves; nobody hears how they went.
  ~Courier();

  using Done = std::function<void(const wire::DeliveryResult&)>;
  /// Calls back once, later; at the latest some seconds after the order's time limit.
  void Send(const wire::DeliveryOrder& order, Done done);

 private:
  struct Errand;
  void Finish(const std::shared_ptr<Errand>& errand);

  boost::asio::io_context& loop_;
  std::vector<std::string> command_;
  StartAs start_as_;
  std::shared_ptr<bool> is_alive_ = std::make_shared<bool>(true);
};

}  // namespace divvy
