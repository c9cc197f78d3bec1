// Starts a process for each notification that is to be delivered, and hears how it went. On the loop's thread, which
// never waits for one.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "wire/notify_messages.h"

namespace divvy {

class Courier {
 public:
  /// `command`: {"/path/of/divvy", "internal-deliver"}.
  Courier(boost::asio::io_context& loop, std::vector<std::string> command);
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
  std::shared_ptr<bool> is_alive_ = std::make_shared<bool>(true);
};

}  // namespace divvy
