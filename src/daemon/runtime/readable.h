// Waiting until a descriptor is readable.
#pragma once

#include <poll.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <utility>

namespace divvy {

/// Calls `then` once the stream is readable, which for a pidfd means that its process has ended. Asio's own wait may
/// end early: a handler that closes one stream and opens another can pass the events of the first to the second.
/// `then` is not called if the wait is cancelled. The stream must live until then or be closed.
template <typename Then>
void AwaitReadable(boost::asio::posix::stream_descriptor& stream, Then then) {
  stream.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                    [&stream, then = std::move(then)](const boost::system::error_code& error) mutable {
                      if (error) return;
                      pollfd readable{stream.native_handle(), POLLIN, 0};
                      if (::poll(&readable, 1, 0) == 0) return AwaitReadable(stream, std::move(then));
                      then();
                    });
}

}  // namespace divvy
