// A connection that carries bytes both ways, whatever is underneath: one that the HTTP server gave away
// (Reply::TakeOver), or one that an agent dialled (daemon/agent/dialled_stream.h). Belongs to the loop's thread.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace divvy {

class ByteStream {
 public:
  /// Called from the loop, never from inside a call on the stream. Each may drop the stream. All must be set.
  struct Listener {
    std::function<void(std::string_view bytes)> on_bytes;
    /// All that was sent has left.
    std::function<void()> on_drained;
    /// The other end is gone, or cannot be understood; nothing is called after it.
    std::function<void()> on_closed;
  };

  ByteStream() = default;
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;
  /// Cuts it; calls nothing.
  virtual ~ByteStream() = default;

  /// In the turn in which the stream came to be, and again when it is somebody else's.
  virtual void Listen(Listener listener) = 0;
  virtual void Send(std::string_view bytes) = 0;
  virtual std::size_t unsent() const = 0;
  /// Closes it when what was sent has left; then on_closed.
  virtual void Finish() = 0;
};

}  // namespace divvy
