// Starts a process for each notification to deliver, and receives its result. Runs on the loop's thread, which never
// waits for such a process.
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
  /// Starts the process for an order with `end` as its standard input and output. It runs as the user that the order
  /// names (DeliveryOrder::run_as), or as the daemon's user if it names none. Used where the launcher is needed: for
  /// users and for mail.
  using StartAs = std::function<Result<StartedProgram>(const wire::DeliveryOrder& order, int end)>;

  /// `command`: {"/path/of/divvy", "internal-deliver"}.
  Courier(boost::asio::io_context& loop, std::vector<std::string> command, StartAs start_as = nullptr);
  /// Deliveries that are under way continue, but their results are lost.
  ~Courier();

  using Done = std::function<void(const wire::DeliveryResult&)>;
  /// Calls back once, later; at most some seconds after the order's time limit.
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
