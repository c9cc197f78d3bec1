// A connection that has left HTTP: after "101 Switching Protocols" its bytes belong to another owner.
#include <utility>

#include "daemon/http/http_server_connection.h"

namespace divvy {

/// The link between stream and connection; either may be destroyed first.
struct TakenConnection {
  HttpConnection* connection = nullptr;
  /// Shared with a running call, which may replace it.
  std::shared_ptr<const ByteStream::Listener> listener = std::make_shared<ByteStream::Listener>();
};

namespace {

class TakenStream final : public ByteStream {
 public:
  explicit TakenStream(std::shared_ptr<TakenConnection> taken) : taken_(std::move(taken)) {}
  ~TakenStream() override {
    if (taken_->connection != nullptr) taken_->connection->Abandon();
  }
  void Listen(Listener listener) override {
    taken_->listener = std::make_shared<const ByteStream::Listener>(std::move(listener));
  }
  void Send(std::string_view bytes) override {
    if (taken_->connection != nullptr) taken_->connection->SendRaw(bytes);
  }
  std::size_t unsent() const override { return taken_->connection == nullptr ? 0 : taken_->connection->unsent(); }
  void Finish() override {
    if (taken_->connection != nullptr) taken_->connection->FinishRaw();
  }

 private:
  std::shared_ptr<TakenConnection> taken_;
};

}  // namespace

std::unique_ptr<ByteStream> Reply::TakeOver(std::string_view protocol) {
  if (!is_open() || slot_->connection == nullptr || slot_->state != ReplySlot::State::kPending) return nullptr;
  auto stream = slot_->connection->TakeOver(*slot_, protocol);
  if (stream) slot_->on_closed = nullptr;
  return stream;
}

std::unique_ptr<ByteStream> HttpConnection::TakeOver(ReplySlot& slot, std::string_view protocol) {
  // No bytes may follow the request: the client waits for the answer before it uses the other protocol.
  const bool is_alone = slots_.size() == 1 && slots_.front().get() == &slot && reader_.fed() == reader_.consumed();
  if (!is_alone || is_input_over_ || taken_) return nullptr;
  out_.append("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ").append(protocol);
  out_.append("\r\n\r\n");
  slot.state = ReplySlot::State::kDone;
  slot.connection = nullptr;
  slot.ticket = nullptr;
  slots_.clear();
  owes_since_.reset();
  taken_ = std::make_shared<TakenConnection>();
  taken_->connection = this;
  owner_.OnTakenOver(*this);
  was_taken_ = true;
  owner_.FlushLater(*this);
  return std::make_unique<TakenStream>(taken_);
}

void HttpConnection::GiveBytes(std::string_view bytes) {
  const auto listener = taken_->listener;
  if (listener->on_bytes) listener->on_bytes(bytes);
}

void HttpConnection::SayDrained() {
  const auto listener = taken_->listener;
  if (listener->on_drained) listener->on_drained();
}

std::function<void()> HttpConnection::LoseTaken() {
  const auto taken = std::exchange(taken_, nullptr);
  if (!taken) return nullptr;
  taken->connection = nullptr;
  return taken->listener->on_closed;
}

void HttpConnection::SendRaw(std::string_view bytes) {
  out_.append(bytes);
  owner_.FlushLater(*this);
}

void HttpConnection::FinishRaw() {
  is_input_over_ = true;
  ends_when_flushed_ = true;
  owner_.FlushLater(*this);
}

void HttpConnection::Abandon() {
  taken_->connection = nullptr;
  taken_ = nullptr;
  is_input_over_ = true;
  is_broken_ = true;
  owner_.FlushLater(*this);
}

}  // namespace divvy
