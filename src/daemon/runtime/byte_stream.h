// A bidirectional byte connection, independent of the transport: a connection that the HTTP server handed over
// (Reply::TakeOver), or one that an agent dialled (daemon/agent/dialled_stream.h). Used on the loop's thread only.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace divvy {

class ByteStream {
 public:
  /// The callbacks run from the loop, never from inside a call on the stream. Each of them may destroy the stream. All
  /// of them must be set.
  struct Listener {
    std::function<void(std::string_view bytes)> on_bytes;
    /// All sent bytes have been written.
    std::function<void()> on_drained;
    /// The peer is gone or violates the protocol. No callback runs after this one.
    std::function<void()> on_closed;
  };

  ByteStream() = default;
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;
  /// Closes the connection without calling any callback.
  virtual ~ByteStream() = default;

  /// Must be called in the same loop iteration in which the stream was created, and again after each change of
  /// ownership.
  virtual void Listen(Listener listener) = 0;
  virtual void Send(std::string_view bytes) = 0;
  /// Returns the number of bytes that were passed to Send and are not written yet.
  virtual std::size_t unsent() const = 0;
  /// Closes the connection once all sent bytes have been written; then calls on_closed.
  virtual void Finish() = 0;
};

}  // namespace divvy
