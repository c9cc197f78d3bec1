// One client of the HTTP server: parses received bytes into requests and sends answers in the order of the requests.
// Private to http_server*.cc.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/http/http_reply.h"
#include "daemon/http/http_server_options.h"
#include "daemon/runtime/byte_stream.h"
#include "platform/net/tls.h"
#include "platform/os/unique_fd.h"
#include "wire/http/http.h"

namespace divvy {

class HttpConnection;
struct TakenConnection;

/// Counts bytes of requests that the server holds, per client and for all clients, until this object is destroyed.
class HeldBytes {
 public:
  using Sum = std::shared_ptr<std::size_t>;

  HeldBytes() = default;
  HeldBytes(Sum of_client, Sum of_all) : of_client_(std::move(of_client)), of_all_(std::move(of_all)) {}
  HeldBytes(HeldBytes&& other) noexcept { *this = std::move(other); }
  HeldBytes& operator=(HeldBytes&& other) noexcept {
    std::swap(of_client_, other.of_client_);
    std::swap(of_all_, other.of_all_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~HeldBytes() { Set(0); }

  void Set(std::size_t bytes) {
    if (!of_client_) return;
    *of_client_ += bytes - bytes_;
    *of_all_ += bytes - bytes_;
    bytes_ = bytes;
  }
  /// Returns a counter of `bytes` for the same client.
  HeldBytes Copy(std::size_t bytes) const {
    HeldBytes copy(of_client_, of_all_);
    copy.Set(bytes);
    return copy;
  }
  std::size_t bytes() const { return bytes_; }
  std::size_t of_client() const { return of_client_ ? *of_client_ : 0; }
  std::size_t of_all() const { return of_all_ ? *of_all_ : 0; }

 private:
  Sum of_client_;
  Sum of_all_;
  std::size_t bytes_ = 0;
};

/// The place of one answer in the sequence of its connection. Owned by the connection and by the Reply copies.
struct ReplySlot {
  enum class State { kPending, kStreaming, kDone };

  HttpConnection* connection = nullptr;                // Null once the connection is gone.
  std::function<void(const HttpResponse&)> on_answer;  // Gets the answer instead of a connection; see Reply::To.
  // Counts the request's bytes, which stay in memory until the last Reply copy is destroyed.
  HeldBytes held;
  std::function<void()> on_closed;
  std::shared_ptr<void> ticket;  // Set by Reply::Keep.
  std::string text;              // The finished answer while an earlier one is pending, or a stream's next bytes.
  State state = State::kPending;
  int handles = 0;  // The number of Reply copies.
  bool keeps_alive = true;
  bool is_head = false;
  bool is_chunked = true;
};

/// The server's interface for a connection.
class HttpConnectionOwner {
 public:
  virtual ~HttpConnectionOwner() = default;
  virtual const HttpServerOptions& options() const = 0;
  virtual void OnRequest(const Peer& peer, HttpRequest&& request, Reply reply) = 0;
  /// Requests a call to Flush() at the end of this loop iteration. One call per iteration is enough.
  virtual void FlushLater(HttpConnection& connection) = 0;
  /// Sets whether the event loop reports that the connection is readable (`reads`) and writable (`writes`).
  virtual void Watch(HttpConnection& connection, bool reads, bool writes) = 0;
  /// Called when the connection is closed. The object must stay alive until the end of this loop iteration.
  virtual void Remove(HttpConnection& connection) = 0;
  /// Called when the connection has switched to another protocol (Reply::TakeOver), so that it is no longer a client of
  /// the server.
  virtual void OnTakenOver(HttpConnection& connection) = 0;
  /// A receive buffer, shared by all connections.
  virtual std::string& scratch() = 0;
};

class HttpConnection {
 public:
  /// `fd` is the connected socket; if `tls` is set, it is a TLS channel over this socket. `held` counts the bytes of
  /// the client's requests; a default-constructed `held` means that they have no limit.
  HttpConnection(HttpConnectionOwner& owner, int fd, const Peer& peer, HeldBytes held,
                 std::optional<TlsChannel> tls = std::nullopt);
  ~HttpConnection();
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  int fd() const { return fd_; }
  bool is_over() const { return fd_ < 0; }
  /// True if the limits of remote clients apply: the connection came over TCP, or from an agent's node.
  bool is_remote() const { return peer_.is_remote() || is_on_node(); }
  bool is_on_node() const { return !peer_.node.empty(); }
  bool is_taken() const { return was_taken_; }
  /// True if no request is waiting for an answer and all answers have been sent.
  bool is_idle() const { return slots_.empty() && unsent() == 0 && !is_taken(); }
  /// True if the client has not completed a request yet.
  bool is_silent() const { return dispatched_ == 0; }
  const Peer& peer() const { return peer_; }

  // Called by the event loop.
  void OnReadable();
  void OnWritable();
  void OnHangUp();
  void Flush();
  /// Closes the connection without calling any callback.
  void Detach();
  /// Closes the connection if the client has not completed a request, or has not taken any bytes of its answers, for
  /// too long.
  void EndIfLate(std::chrono::steady_clock::time_point now);
  /// Closes the connection and calls the waiting callbacks.
  void End();

  // Called by Reply.
  std::string& OutputOf(ReplySlot& slot);
  void OnProgress(ReplySlot& slot);
  void CheckBacklog(ReplySlot& slot);

  // http_server_takeover.cc: called by Reply, and by the stream that the connection has become.
  std::unique_ptr<ByteStream> TakeOver(ReplySlot& slot, std::string_view protocol);
  void SendRaw(std::string_view bytes);
  void FinishRaw();
  void Abandon();
  std::size_t unsent() const { return out_.size() - sent_; }

  bool is_flush_due = false;  // Set and cleared by the owner.

 private:
  struct FdBatch {
    std::uint64_t end;  // The descriptors belong to the request that holds the byte before this offset.
    PassedFds fds;
  };

  void ReadTls();
  void TakeBytes(std::string_view bytes, PassedFds fds);
  void OnEndOfInput();
  void Pump();
  void Dispatch(HttpRequest&& request);
  void Refuse(const HttpError& error);
  std::shared_ptr<ReplySlot> AddSlot(const HttpRequest& request);
  void AttachFds(HttpRequest& request);
  void CollectAnswers();
  ssize_t Send(std::string_view bytes);
  void Write();
  void UpdateWatch();
  bool has_room() const;
  bool CountHeld();
  void GiveBytes(std::string_view bytes);
  void SayDrained();
  std::function<void()> LoseTaken();

  HttpConnectionOwner& owner_;
  int fd_;
  Peer peer_;
  std::optional<TlsChannel> tls_;
  std::optional<std::chrono::steady_clock::time_point> owes_since_;  // Since when the client's request is incomplete.
  HttpReader reader_;
  HeldBytes held_;                                // Counts the bytes that the reader holds.
  std::uint64_t dispatched_ = 0;                  // The number of bytes of all dispatched requests.
  std::deque<std::shared_ptr<ReplySlot>> slots_;  // Oldest request first.
  std::shared_ptr<TakenConnection> taken_;        // Null while the connection speaks HTTP.
  bool was_taken_ = false;
  std::vector<FdBatch> fds_;
  std::string out_;
  std::size_t sent_ = 0;        // How much of out_ has been sent.
  bool is_input_over_ = false;  // Nothing more is read or parsed.
  bool has_unread_ = false;     // The reader may hold requests that had to wait for room.
  bool ends_when_flushed_ = false;
  bool is_broken_ = false;  // To be closed at the next flush.
  bool is_write_blocked_ = false;
  bool read_needs_write_ = false;  // TLS cannot read before it has sent something.
  bool waits_for_socket_ = false;  // TLS cannot read before the socket is ready again.
  std::uint64_t sent_in_all_ = 0;
  std::uint64_t sent_at_last_look_ = 0;
  // Since when the client has taken nothing, while there are answers to take.
  std::chrono::steady_clock::time_point takes_nothing_since_{};
  bool watches_reads_ = true;
  bool watches_writes_ = false;
};

}  // namespace divvy
