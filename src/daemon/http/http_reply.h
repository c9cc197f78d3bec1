// A request's client, and the answer to it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "daemon/runtime/byte_stream.h"
#include "wire/http/http.h"

namespace divvy {

/// The client of a connection, as of the moment when it connected.
struct Peer {
  std::int64_t uid = -1;
  std::int64_t gid = -1;
  std::int64_t pid = 0;
  std::uint64_t connection = 0;  // Unique during the server's life, counted from 1.
  // Set for TCP only: "10.0.0.9"; uid, gid and pid are unknown then. Empty on the Unix socket.
  std::string address;
  // The fingerprint of the client certificate whose key the client proved; empty if there is none.
  std::string fingerprint;
  bool is_plain = false;  // True for plain TCP, which only this machine can use.
  // Optional. The agent's node on which the client runs; `uid` is then the controller's uid for that user.
  std::string node;

  bool is_remote() const { return !address.empty(); }
};

struct ReplySlot;

/// The pending answer to one request. Copies share the same answer. A Reply may be kept for any time, even after the
/// end of the connection or of the server; it does nothing then. When the last copy is destroyed without an answer, the
/// client gets status 500; a stream is ended.
class Reply {
 public:
  Reply() = default;
  explicit Reply(std::shared_ptr<ReplySlot> slot);
  /// A reply whose complete answer goes to `on_answer` instead of to a client. It cannot stream. Its copies may be used
  /// on any one thread.
  static Reply To(std::function<void(const HttpResponse&)> on_answer);
  Reply(const Reply& other);
  Reply(Reply&& other) noexcept : slot_(std::move(other.slot_)) {}
  Reply& operator=(Reply other) noexcept {
    slot_.swap(other.slot_);
    return *this;
  }
  ~Reply();

  /// Sends a complete answer. Only the first call counts.
  void Answer(const HttpResponse& response);

  /// Used instead of Answer: starts a body of unknown length that is sent in pieces.
  void BeginStream(std::string_view content_type);
  /// Returns false if the client is gone.
  bool Send(std::string_view piece);
  void EndStream();

  /// Used instead of Answer: the connection switches to another protocol for as long as the stream lives. It no longer
  /// counts as one of the server's connections, and the stream's owner decides how slow its reader may be. Returns null
  /// if the client is gone or has sent more than this request.
  std::unique_ptr<ByteStream> TakeOver(std::string_view protocol);

  /// Calls `callback` once if the client goes away before the answer (or stream) is complete. The call comes from the
  /// loop, never from inside a call on this object, and never because the server stops. Returns false if the client is
  /// already gone; `callback` is then never called.
  bool OnClosed(std::function<void()> callback);

  /// For a reply of To: returns a function that drops the answer, as if a client had gone away. It does nothing once
  /// the answer is complete, and does not keep this reply alive.
  std::function<void()> Canceller() const;

  /// Keeps `ticket` until the answer is complete or the client is gone, and then destroys it. The ticket is any object
  /// whose destructor has an effect, such as ending the count of a request.
  void Keep(std::shared_ptr<void> ticket);

  /// Returns true while the client is connected and the answer is not complete.
  bool is_open() const;

 private:
  std::shared_ptr<ReplySlot> slot_;
};

/// Returns {"code": ..., "message": ...}, the form of every API error.
HttpResponse ErrorResponse(int status, std::string_view code, std::string_view message);

}  // namespace divvy
