// Waits on the event loop until a pidfd (the descriptor of a process) becomes readable, which means that the process
// has ended; without false alarms.
#pragma once

#include <poll.h>

#include <memory>
#include <utility>

#include <boost/asio/posix/stream_descriptor.hpp>

namespace divvy {

/// Calls `done` once, on the loop, when `stream` is readable. Never calls it if `stream` is closed or destroyed before.
///
/// Asio alone may report a new descriptor as readable at once: if a handler closes descriptors and opens others, an
/// event of a closed one can reach a new one. So the descriptor is checked, and if necessary the wait begins again.
template <class Done>
void AwaitReadable(const std::shared_ptr<boost::asio::posix::stream_descriptor>& stream, Done done) {
  stream->async_wait(
      boost::asio::posix::stream_descriptor::wait_read,
      [known = std::weak_ptr(stream), done = std::move(done)](const boost::system::error_code& error) mutable {
        const auto open = known.lock();
        if (error || open == nullptr || !open->is_open()) return;
        pollfd state{open->native_handle(), POLLIN, 0};
        if (::poll(&state, 1, 0) == 0) return AwaitReadable(open, std::move(done));
        done();
      });
}

}  // namespace divvy
