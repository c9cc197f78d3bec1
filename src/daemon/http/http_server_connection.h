// One client of the HTTP server: bytes in to requests, answers in their order to bytes out. Private to http_server*.cc.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/http/http_server.h"

namespace divvy {

class HttpConnection;
struct TakenConnection;

/// Bytes of requests that the server holds, counted for their client and for all clients until this object is gone.
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
  /// As many bytes of the same client.
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

/// The place of one answer in the order of its connection. Kept by the connection and by the Reply copies.
struct ReplySlot {
  enum class State { kPending, kStreaming, kDone };

  HttpConnection* connection = nullptr;  // Null once it is gone.
  HeldBytes held;                        // Counts the request, which lives as long as the last copy of the reply.
  std::function<void()> on_closed;
  std::shared_ptr<void> ticket;  // Reply::Keep.
  std::string text;              // Ready, but an earlier answer is not; or a stream's next bytes.
  State state = State::kPending;
  int handles = 0;  // Reply copies.
  bool keeps_alive = true;
  bool is_head = false;
  bool is_chunked = true;
};

/// What a connection needs of its server.
class HttpConnectionOwner {
 public:
  virtual ~HttpConnectionOwner() = default;
  virtual const HttpServerOptions& options() const = 0;
  virtual void OnRequest(const Peer& peer, HttpRequest&& request, Reply reply) = 0;
  /// Flush() is to be called at the end of this turn. Once per turn is enough.
  virtual void FlushLater(HttpConnection& connection) = 0;
  /// Read and write readiness are to be reported from now on, or no longer.
  virtual void Watch(HttpConnection& connection, bool reads, bool writes) = 0;
  /// The connection is over; it lives until the end of this turn.
  virtual void Remove(HttpConnection& connection) = 0;
  /// It is none of the server's clients any more, and its bytes are somebody else's.
  virtual void OnTakenOver(HttpConnection& connection) = 0;
  /// Room to receive into, shared by all connections.
  virtual std::string& scratch() = 0;
};

class HttpConnection {
 public:
  /// Over TLS where `tls` is given, which is a channel over `fd`. `held` counts the bytes of its client's requests;
  /// without sums they have no bound.
  HttpConnection(HttpConnectionOwner& owner, int fd, const Peer& peer, HeldBytes held,
                 std::optional<TlsChannel> tls = std::nullopt);
  ~HttpConnection();
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  int fd() const { return fd_; }
  bool is_over() const { return fd_ < 0; }
  /// Held to what is asked of other machines: it came over TLS, or from an agent's.
  bool is_remote() const { return peer_.is_remote() || is_on_node(); }
  bool is_on_node() const { return !peer_.node.empty(); }
  bool is_taken() const { return was_taken_; }
  /// It waits for no answer.
  bool is_idle() const { return slots_.empty() && unsent() == 0 && !is_taken(); }
  /// It has sent no request yet.
  bool is_silent() const { return dispatched_ == 0; }
  const Peer& peer() const { return peer_; }

  // From the event loop.
  void OnReadable();
  void OnWritable();
  void OnHangUp();
  void Flush();
  /// Ends it without telling anyone.
  void Detach();
  /// Ends it if it has owed us the rest of a request, or taken nothing of its answers, for too long.
  void EndIfLate(std::chrono::steady_clock::time_point now);
  /// Ends it, and tells whoever waits for that.
  void End();

  // From Reply.
  std::string& OutputOf(ReplySlot& slot);
  void OnProgress(ReplySlot& slot);
  void CheckBacklog(ReplySlot& slot);

  // http_server_takeover.cc: from Reply, and from the stream that it became.
  std::unique_ptr<ByteStream> TakeOver(ReplySlot& slot, std::string_view protocol);
  void SendRaw(std::string_view bytes);
  void FinishRaw();
  void Abandon();
  std::size_t unsent() const { return out_.size() - sent_; }

  bool is_flush_due = false;  // The owner's mark.

 private:
  struct FdBatch {
    std::uint64_t end;  // The byte before this one belongs to their request.
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
  std::optional<std::chrono::steady_clock::time_point> owes_since_;  // Since when a request is incomplete.
  HttpReader reader_;
  HeldBytes held_;                                // Of what the reader holds.
  std::uint64_t dispatched_ = 0;                  // Bytes of the requests that were.
  std::deque<std::shared_ptr<ReplySlot>> slots_;  // Oldest request first.
  std::shared_ptr<TakenConnection> taken_;        // Null while it speaks HTTP.
  bool was_taken_ = false;
  std::vector<FdBatch> fds_;
  std::string out_;
  std::size_t sent_ = 0;        // Of out_.
  bool is_input_over_ = false;  // Nothing more is read or parsed.
  bool has_unread_ = false;     // Requests may lie in the reader since there was no room for them.
  bool ends_when_flushed_ = false;
  bool is_broken_ = false;  // To be ended at the next flush.
  bool is_write_blocked_ = false;
  bool read_needs_write_ = false;  // TLS: nothing can be read before something was sent.
  bool waits_for_socket_ = false;  // TLS: nothing can be read before the socket is ready again.
  std::uint64_t sent_in_all_ = 0;
  std::uint64_t sent_at_last_look_ = 0;
  std::chrono::steady_clock::time_point takes_nothing_since_{};  // While there are answers to take.
  bool watches_reads_ = true;
  bool watches_writes_ = false;
};

/// {"code": ..., "message": ...}, as every error of the API looks.
HttpResponse ErrorResponse(int status, std::string_view code, std::string_view message);

}  // namespace divvy
