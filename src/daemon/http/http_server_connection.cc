#include "daemon/http/http_server_connection.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "platform/os/foreign_descriptor.h"
#include "wire/json/json.h"

namespace divvy {
namespace {

/// The number of reads from a TLS connection before other connections get their turn; each is at most 16 KiB.
constexpr int kTlsPiecesAtOnce = 16;
/// A larger output buffer is freed once it is sent.
constexpr std::size_t kKeptOutput = 64u << 10;

/// Receives bytes like recv(2), and also file descriptors that the client passes.
ssize_t Receive(int fd, std::string& into, PassedFds& fds) {
  ForeignMessage got;
  do {
    got = ReceiveForeign(fd, into.data(), into.size(), MSG_DONTWAIT);
  } while (got.size < 0 && errno == EINTR);
  for (ForeignDescriptor& one : got.descriptors) fds.Add(one.Release());
  return got.size;
}

bool HasHungUp(int fd) {
  pollfd poll_fd{fd, 0, 0};
  return ::poll(&poll_fd, 1, 0) > 0 && (poll_fd.revents & (POLLHUP | POLLERR)) != 0;
}

}  // namespace

HttpResponse ErrorResponse(int status, std::string_view code, std::string_view message) {
  HttpResponse response;
  response.status = status;
  JsonWriter writer(response.body);
  writer.BeginObject();
  writer.Key("code");
  writer.String(code);
  writer.Key("message");
  writer.String(message);
  writer.EndObject();
  return response;
}

HttpConnection::HttpConnection(HttpConnectionOwner& owner, int fd, const Peer& peer, HeldBytes held,
                               std::optional<TlsChannel> tls)
    : owner_(owner),
      fd_(fd),
      peer_(peer),
      tls_(std::move(tls)),
      reader_(is_remote() ? owner.options().remote_limits : owner.options().limits),
      held_(std::move(held)) {
  takes_nothing_since_ = std::chrono::steady_clock::now();
  if (is_remote()) owes_since_ = takes_nothing_since_;
}

HttpConnection::~HttpConnection() { Detach(); }

void HttpConnection::Detach() {
  // All slots are cleared before any callback is destroyed: a callback may hold the last copy of another answer of this
  // connection.
  for (auto& slot : slots_) {
    slot->connection = nullptr;
    slot->ticket = nullptr;
  }
  for (auto& slot : slots_) std::exchange(slot->on_closed, nullptr);
  slots_.clear();
  fds_.clear();
  static_cast<void>(LoseTaken());
  const int fd = std::exchange(fd_, -1);
  if (fd < 0) return;
  if (is_remote()) ::close(fd);
  else CloseAccepted(fd);
}

// ---- Bytes in -------------------------------------------------------------------------------------------------------

void HttpConnection::OnReadable() {
  if (tls_) return ReadTls();
  PassedFds fds(&CloseForeign);
  std::string& scratch = owner_.scratch();
  ssize_t n = Receive(fd_, scratch, fds);
  if (n < 0) {
    if (errno != EAGAIN && errno != EWOULDBLOCK) End();
    return;
  }
  if (n == 0) return OnEndOfInput();
  TakeBytes(std::string_view(scratch).substr(0, static_cast<std::size_t>(n)), std::move(fds));
}

// Reads while there is room, up to a limit: a client that sends as fast as we read would block all others. Data that
// the TLS channel has already taken from the socket does not make it readable again, so Flush continues.
void HttpConnection::ReadTls() {
  read_needs_write_ = waits_for_socket_ = false;
  for (int pieces = 0; pieces < kTlsPiecesAtOnce && !is_over() && !is_input_over_ && has_room(); ++pieces) {
    std::string& scratch = owner_.scratch();
    const TlsChannel::Outcome got = tls_->Read(scratch);
    switch (got.io) {
      case TlsChannel::Io::kDone:
        TakeBytes(std::string_view(scratch).substr(0, got.bytes), {});
        break;
      case TlsChannel::Io::kNeedsWrite:
        read_needs_write_ = true;
        [[fallthrough]];
      case TlsChannel::Io::kNeedsRead:
        waits_for_socket_ = true;
        return UpdateWatch();
      case TlsChannel::Io::kEnded:
        return OnEndOfInput();
      case TlsChannel::Io::kFailed:
        return End();
    }
  }
}

void HttpConnection::EndIfLate(std::chrono::steady_clock::time_point now) {
  if (unsent() == 0 || sent_in_all_ != sent_at_last_look_) takes_nothing_since_ = now;
  sent_at_last_look_ = sent_in_all_;
  const auto timeout = owner_.options().request_time;
  if ((owes_since_ && now - *owes_since_ > timeout) || now - takes_nothing_since_ > timeout) End();
}

void HttpConnection::TakeBytes(std::string_view bytes, PassedFds fds) {
  if (is_input_over_) return;
  if (taken_) return GiveBytes(bytes);
  reader_.Feed(bytes);
  // The kernel ends a read after the bytes that descriptors came with. So they belong to the request that contains the
  // last byte.
  if (!fds.empty()) fds_.push_back({reader_.fed(), std::move(fds)});
  Pump();
  owner_.FlushLater(*this);
}

void HttpConnection::OnEndOfInput() {
  if (taken_ || HasHungUp(fd_)) return End();
  // The client has closed only its sending side; it may still wait for its answers.
  is_input_over_ = true;
  ends_when_flushed_ = true;
  owner_.FlushLater(*this);
}

void HttpConnection::OnHangUp() {
  // While reading is enabled, the read finds the end after the last request.
  if (!watches_reads_) End();
}

bool HttpConnection::has_room() const {
  // The stream's owner controls how much is sent, and must receive from the peer to do so.
  if (taken_) return true;
  return slots_.size() < owner_.options().requests_in_flight && unsent() < owner_.options().output_bytes;
}

void HttpConnection::Pump() {
  while (!is_input_over_ && !is_broken_ && !taken_ && has_room()) {
    std::optional<HttpRequest> request = reader_.Next();
    if (!request) break;
    Dispatch(*std::move(request));
  }
  if (taken_) return;
  has_unread_ = !is_input_over_ && !has_room();
  if (has_unread_ || reader_.is_idle()) owes_since_.reset();
  else if (!owes_since_) owes_since_ = std::chrono::steady_clock::now();
  const bool has_budget = CountHeld();
  if (is_input_over_) return;
  if (!has_budget) {
    reader_ = HttpReader(owner_.options().limits);
    dispatched_ = 0;
    held_.Set(0);
    return Refuse({503, "the daemon holds too many bytes of unfinished requests; try again later"});
  }
  if (has_unread_) return;
  if (reader_.error()) return Refuse(*reader_.error());
  std::size_t waiting_fds = 0;
  for (const FdBatch& batch : fds_) waiting_fds += batch.fds.size();
  if (waiting_fds > owner_.options().fds_per_request) {
    return Refuse({400, "more than " + std::to_string(owner_.options().fds_per_request) +
                            " file descriptors came with one request"});
  }
  if (slots_.empty() && reader_.TakeExpectsContinue()) out_.append("HTTP/1.1 100 Continue\r\n\r\n");
}

/// Counts the bytes that the reader holds; returns false if its client, or all clients together, exceed the limit.
bool HttpConnection::CountHeld() {
  constexpr std::size_t kSmall = 64u << 10;
  const auto held = static_cast<std::size_t>(reader_.fed() - reader_.consumed());
  held_.Set(held);
  const HttpServerOptions& options = owner_.options();
  return held == 0 || (held_.of_client() <= options.held_bytes_of_a_user &&
                       (held <= kSmall || held_.of_all() <= options.held_bytes));
}

void HttpConnection::Dispatch(HttpRequest&& request) {
  AttachFds(request);
  if (request.fds.size() > owner_.options().fds_per_request) {
    return Refuse({400, "more than " + std::to_string(owner_.options().fds_per_request) +
                            " file descriptors came with one request"});
  }
  if (!request.keeps_alive) is_input_over_ = true;
  Reply reply(AddSlot(request));
  if (tls_ && peer_.fingerprint.empty()) peer_.fingerprint = tls_->peer_fingerprint();
  owner_.OnRequest(peer_, std::move(request), std::move(reply));
}

void HttpConnection::AttachFds(HttpRequest& request) {
  request.fds = PassedFds(&CloseForeign);
  std::size_t used = 0;
  while (used < fds_.size() && fds_[used].end <= reader_.consumed()) {
    for (int fd : fds_[used].fds.Take()) request.fds.Add(fd);
    ++used;
  }
  fds_.erase(fds_.begin(), fds_.begin() + static_cast<std::ptrdiff_t>(used));
}

std::shared_ptr<ReplySlot> HttpConnection::AddSlot(const HttpRequest& request) {
  auto slot = std::make_shared<ReplySlot>();
  slot->connection = this;
  slot->keeps_alive = request.keeps_alive;
  slot->is_head = request.method == "HEAD";
  slot->is_chunked = !request.is_http_1_0;
  slot->held = held_.Copy(static_cast<std::size_t>(reader_.consumed() - dispatched_));
  dispatched_ = reader_.consumed();
  slots_.push_back(slot);
  return slot;
}

void HttpConnection::Refuse(const HttpError& error) {
  HttpRequest last;
  last.keeps_alive = false;
  is_input_over_ = true;
  const bool is_full = error.status == 503;
  Reply(AddSlot(last))
      .Answer(ErrorResponse(error.status, is_full ? "limit_exceeded" : "invalid_argument", error.message));
}

// ---- Answers out ----------------------------------------------------------------------------------------------------

std::string& HttpConnection::OutputOf(ReplySlot& slot) {
  // The oldest answer need not wait for others, so its bytes go directly to the output.
  return !slots_.empty() && slots_.front().get() == &slot && slot.text.empty() ? out_ : slot.text;
}

void HttpConnection::OnProgress(ReplySlot& slot) {
  // Collected at once, so that the next answer can also be written directly to the output.
  if (!slots_.empty() && slots_.front().get() == &slot) CollectAnswers();
  owner_.FlushLater(*this);
}

void HttpConnection::CheckBacklog(ReplySlot& slot) {
  std::size_t backlog = slot.text.size() + unsent();
  if (backlog > owner_.options().stream_backlog_bytes) is_broken_ = true;
}

void HttpConnection::CollectAnswers() {
  while (!slots_.empty()) {
    ReplySlot& slot = *slots_.front();
    if (out_.empty()) {
      out_.swap(slot.text);
    } else {
      out_.append(slot.text);
    }
    slot.text.clear();
    if (slot.state != ReplySlot::State::kDone) return;
    if (!slot.keeps_alive) {
      is_input_over_ = true;
      ends_when_flushed_ = true;
    }
    slot.connection = nullptr;
    slots_.pop_front();
  }
}

// Returns and sets errno like send(2).
ssize_t HttpConnection::Send(std::string_view bytes) {
  if (!tls_) return ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  const TlsChannel::Outcome put = tls_->Write(bytes);
  if (put.io == TlsChannel::Io::kDone) return static_cast<ssize_t>(put.bytes);
  errno = put.io == TlsChannel::Io::kNeedsRead || put.io == TlsChannel::Io::kNeedsWrite ? EAGAIN : EPIPE;
  return -1;
}

void HttpConnection::Write() {
  is_write_blocked_ = false;
  while (unsent() > 0) {
    ssize_t n = Send(std::string_view(out_).substr(sent_));
    if (n > 0) {
      sent_ += static_cast<std::size_t>(n);
      sent_in_all_ += static_cast<std::uint64_t>(n);
    } else if (n < 0 && errno == EINTR) {
      continue;
    } else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      is_write_blocked_ = true;
      break;
    } else {
      is_broken_ = true;
      return;
    }
  }
  if (unsent() == 0) {
    sent_ = 0;
    out_.clear();
    if (out_.capacity() > kKeptOutput) out_ = std::string();
  } else if (sent_ > (1u << 20)) {
    out_.erase(0, sent_);
    sent_ = 0;
  }
}

void HttpConnection::OnWritable() {
  if (read_needs_write_) ReadTls();
  Flush();
}

void HttpConnection::Flush() {
  if (is_over()) return;
  if (!is_broken_) CollectAnswers();
  const bool had_output = unsent() > 0;
  if (!is_broken_) Write();
  if (!is_broken_ && taken_ && had_output && unsent() == 0) SayDrained();
  if (is_broken_ || (ends_when_flushed_ && slots_.empty() && unsent() == 0)) return End();
  if (has_unread_ && has_room()) {
    Pump();
    owner_.FlushLater(*this);  // For requests that were answered at once.
  }
  // A partial TLS record also counts as unread; its rest has to arrive first.
  if (tls_ && !waits_for_socket_ && tls_->has_unread() && has_room() && !is_input_over_) {
    ReadTls();
    if (is_over()) return;
    if (tls_->has_unread() && !waits_for_socket_) owner_.FlushLater(*this);
  }
  UpdateWatch();
}

void HttpConnection::UpdateWatch() {
  const bool reads = !is_input_over_ && has_room();
  const bool writes = is_write_blocked_ || read_needs_write_;
  if (reads == watches_reads_ && writes == watches_writes_) return;
  watches_reads_ = reads;
  watches_writes_ = writes;
  owner_.Watch(*this, watches_reads_, watches_writes_);
}

void HttpConnection::End() {
  if (is_over()) return;
  std::vector<std::function<void()>> callbacks;
  for (auto& slot : slots_) {
    slot->connection = nullptr;
    slot->ticket = nullptr;
    if (slot->on_closed) callbacks.push_back(std::exchange(slot->on_closed, nullptr));
  }
  if (auto on_closed = LoseTaken()) callbacks.push_back(std::move(on_closed));
  owner_.Remove(*this);
  if (tls_) tls_->Close();
  Detach();
  for (auto& callback : callbacks) callback();
}

// ---- Reply ----------------------------------------------------------------------------------------------------------

Reply::Reply(std::shared_ptr<ReplySlot> slot) : slot_(std::move(slot)) { ++slot_->handles; }

Reply Reply::To(std::function<void(const HttpResponse&)> on_answer) {
  const auto slot = std::make_shared<ReplySlot>();
  slot->on_answer = std::move(on_answer);
  return Reply(slot);
}

std::function<void()> Reply::Canceller() const {
  return [weak = std::weak_ptr(slot_)] {
    const auto slot = weak.lock();
    if (slot == nullptr || !slot->on_answer) return;
    slot->state = ReplySlot::State::kDone;
    slot->ticket = nullptr;
    slot->on_answer = nullptr;
    if (const auto on_closed = std::exchange(slot->on_closed, nullptr)) on_closed();
  };
}

Reply::Reply(const Reply& other) : slot_(other.slot_) {
  if (slot_) ++slot_->handles;
}

Reply::~Reply() {
  if (!slot_ || --slot_->handles > 0 || (slot_->connection == nullptr && !slot_->on_answer)) return;
  ++slot_->handles;  // The answer below uses the slot once more.
  if (slot_->state == ReplySlot::State::kPending) {
    Answer(ErrorResponse(500, "internal", "the daemon gave this request no answer"));
  } else if (slot_->state == ReplySlot::State::kStreaming) {
    EndStream();
  }
  --slot_->handles;
}

bool Reply::is_open() const {
  return slot_ && (slot_->connection != nullptr || slot_->on_answer) && slot_->state != ReplySlot::State::kDone;
}

void Reply::Answer(const HttpResponse& response) {
  if (!is_open() || slot_->state != ReplySlot::State::kPending) return;
  if (slot_->on_answer) {
    slot_->state = ReplySlot::State::kDone;
    slot_->ticket = nullptr;
    return std::exchange(slot_->on_answer, nullptr)(response);
  }
  if (response.ends_connection) slot_->keeps_alive = false;
  SerialiseOptions options{.keeps_alive = slot_->keeps_alive, .is_head = slot_->is_head};
  Serialise(response, options, slot_->connection->OutputOf(*slot_));
  slot_->state = ReplySlot::State::kDone;
  slot_->connection->OnProgress(*slot_);
  slot_->ticket = nullptr;
  // Done last, because the callback may hold a copy of this reply.
  std::exchange(slot_->on_closed, nullptr);
}

void Reply::BeginStream(std::string_view content_type) {
  if (!is_open() || slot_->connection == nullptr || slot_->state != ReplySlot::State::kPending) return;
  if (!slot_->is_chunked) slot_->keeps_alive = false;
  HttpResponse head;
  head.content_type = std::string(content_type);
  head.headers = {{"Cache-Control", "no-store"}};
  std::string& out = slot_->connection->OutputOf(*slot_);
  SerialiseOptions options{.keeps_alive = slot_->keeps_alive, .is_chunked = true};
  if (slot_->is_chunked) {
    Serialise(head, options, out);
  } else {
    out.append("HTTP/1.0 200 OK\r\nContent-Type: ").append(content_type).append("\r\n\r\n");
  }
  slot_->state = ReplySlot::State::kStreaming;
  slot_->connection->OnProgress(*slot_);
}

bool Reply::Send(std::string_view piece) {
  if (!is_open() || slot_->state != ReplySlot::State::kStreaming) return false;
  if (piece.empty() || slot_->is_head) return true;
  std::string& out = slot_->connection->OutputOf(*slot_);
  if (slot_->is_chunked) {
    SerialiseChunk(piece, out);
  } else {
    out.append(piece);
  }
  slot_->connection->CheckBacklog(*slot_);
  slot_->connection->OnProgress(*slot_);
  return true;
}

void Reply::EndStream() {
  if (!is_open() || slot_->state != ReplySlot::State::kStreaming) return;
  if (slot_->is_chunked && !slot_->is_head) SerialiseChunk("", slot_->connection->OutputOf(*slot_));
  slot_->state = ReplySlot::State::kDone;
  slot_->ticket = nullptr;
  slot_->connection->OnProgress(*slot_);
  std::exchange(slot_->on_closed, nullptr);
}

void Reply::Keep(std::shared_ptr<void> ticket) {
  if (is_open()) slot_->ticket = std::move(ticket);
}

bool Reply::OnClosed(std::function<void()> callback) {
  if (!is_open()) return false;
  slot_->on_closed = std::move(callback);
  return true;
}

}  // namespace divvy
