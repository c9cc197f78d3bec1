#include "daemon/agent/dialled_stream.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <utility>

#include "platform/net/tcp.h"
#include "wire/http/http.h"
#include "wire/messages/agent_messages.h"
#include "wire/messages/codec.h"

namespace divvy {
namespace {

namespace asio = boost::asio;
using Io = TlsChannel::Io;

constexpr std::size_t kRoom = std::size_t{64} << 10;
constexpr std::size_t kLongestRefusal = std::size_t{64} << 10;
/// The number of reads before other streams get their turn.
constexpr int kPiecesAtOnce = 16;

Error FailureOf(const TlsChannel& channel, const ControllerAddress& controller) {
  if (channel.is_stranger()) {
    return FailedPrecondition("the server at " + ToString(controller.at) +
                              " is not the controller that the token line " +
                              "names (its certificate differs); if the controller was set up again, join it again");
  }
  return Unreachable("talking to " + ToString(controller.at) + ": " +
                     (channel.error().empty() ? "it closed the connection" : channel.error()));
}

Status WriteAll(TlsChannel& channel, std::string_view text, const ControllerAddress& controller) {
  while (!text.empty()) {
    const TlsChannel::Outcome put = channel.Write(text);
    if (put.io == Io::kNeedsRead || put.io == Io::kNeedsWrite)
      return Unreachable(ToString(controller.at) + " does not answer");
    if (put.io != Io::kDone) return FailureOf(channel, controller);
    text.remove_prefix(put.bytes);
  }
  return {};
}

Error RefusalIn(const HttpResponse& response, const ControllerAddress& controller) {
  const auto view = wire::Decode<wire::ErrorView>(response.body);
  const std::string said = view && !view->message.empty() ? view->message : "status " + std::to_string(response.status);
  if (response.status == 401 || response.status == 403) return PermissionDenied(said);
  if (response.status >= 500) return Unreachable(ToString(controller.at) + ": " + said);
  return FailedPrecondition(ToString(controller.at) + " does not admit agents: " + said);
}

/// Waits for "101 Switching Protocols".
Status AwaitAgreement(TlsChannel& channel, const ControllerAddress& controller) {
  constexpr std::string_view kAgreed = "HTTP/1.1 101 ";
  std::string text;
  std::array<char, 4096> room{};
  while (true) {
    const TlsChannel::Outcome got = channel.Read(room);
    if (got.io == Io::kNeedsRead || got.io == Io::kNeedsWrite)
      return Unreachable(ToString(controller.at) + " does not answer");
    if (got.io != Io::kDone) return FailureOf(channel, controller);
    text.append(room.data(), got.bytes);
    if (text.starts_with(kAgreed)) {
      if (text.ends_with("\r\n\r\n")) return {};
      if (text.size() > room.size()) return FailedPrecondition(ToString(controller.at) + " is not a divvy controller");
      continue;
    }
    if (text.size() < kAgreed.size()) continue;
    // The answer is not 101: a refusal. Reads it to its end, because its body says why.
    HttpResponseReader reader;
    reader.Feed(text);
    if (const auto response = reader.Next()) return RefusalIn(*response, controller);
    if (reader.error() || text.size() > kLongestRefusal)
      return FailedPrecondition(ToString(controller.at) + " is not a divvy controller");
  }
}

class DialledStream final : public ByteStream {
 public:
  DialledStream(asio::io_context& loop, Dialled dialled) : inner_(std::make_shared<Inner>(loop, std::move(dialled))) {
    inner_->Arm();
  }
  ~DialledStream() override { inner_->Close(); }
  void Listen(Listener listener) override { inner_->listener = std::make_shared<const Listener>(std::move(listener)); }
  void Send(std::string_view bytes) override { inner_->Send(bytes); }
  std::size_t unsent() const override { return inner_->out.size() - inner_->sent; }
  void Finish() override {
    inner_->is_finishing = true;
    inner_->FlushLater();
  }

 private:
  struct Inner : std::enable_shared_from_this<Inner> {
    Inner(asio::io_context& io, Dialled dialled)
        : loop(io), channel(std::move(dialled.channel)), socket(io, dialled.socket.Release()) {}
    ~Inner() { Close(); }

    void Arm() {
      if (is_closed) return;
      if (!waits_read) {
        waits_read = true;
        socket.async_wait(asio::posix::stream_descriptor::wait_read,
                          [self = shared_from_this()](const boost::system::error_code& error) {
                            self->waits_read = false;
                            if (error || self->is_closed) return;
                            self->OnReady();
                          });
      }
      if (wants_write && !waits_write) {
        waits_write = true;
        socket.async_wait(asio::posix::stream_descriptor::wait_write,
                          [self = shared_from_this()](const boost::system::error_code& error) {
                            self->waits_write = false;
                            if (error || self->is_closed) return;
                            self->OnReady();
                          });
      }
    }
    void OnReady() {
      wants_write = false;
      Write();
      if (!is_closed) Read();
      Arm();
    }
    void FlushLater() {
      if (std::exchange(is_flush_due, true) || is_closed) return;
      asio::post(loop, [self = shared_from_this()] {
        self->is_flush_due = false;
        if (self->is_closed) return;
        self->Write();
        self->Arm();
      });
    }
    void Send(std::string_view bytes) {
      out.append(bytes);
      FlushLater();
    }
    void Write() {
      const bool had_output = sent < out.size();
      while (sent < out.size()) {
        const TlsChannel::Outcome put = channel.Write(std::string_view(out).substr(sent));
        if (put.io == Io::kNeedsWrite) wants_write = true;
        if (put.io == Io::kNeedsRead || put.io == Io::kNeedsWrite) return;
        if (put.io != Io::kDone) return Lose();
        sent += put.bytes;
      }
      out.clear();
      sent = 0;
      if (is_finishing) return Lose();
      if (had_output) {
        const auto told = listener;
        told->on_drained();
      }
    }
    void Read() {
      std::array<char, kRoom> room;
      for (int pieces = 0; pieces < kPiecesAtOnce; ++pieces) {
        const TlsChannel::Outcome got = channel.Read(room);
        if (got.io == Io::kNeedsWrite) wants_write = true;
        if (got.io == Io::kNeedsRead || got.io == Io::kNeedsWrite) return;
        if (got.io != Io::kDone) return Lose();
        const auto told = listener;
        told->on_bytes({room.data(), got.bytes});
        if (is_closed) return;
      }
      // Data that the channel has already read does not make the socket readable again.
      asio::post(loop, [self = shared_from_this()] {
        if (!self->is_closed) self->OnReady();
      });
    }
    void Lose() {
      if (is_closed) return;
      const auto told = listener;
      Close();
      told->on_closed();
    }
    void Close() {
      if (std::exchange(is_closed, true)) return;
      channel.Close();
      boost::system::error_code ignored;
      socket.close(ignored);
    }

    asio::io_context& loop;
    TlsChannel channel;
    asio::posix::stream_descriptor socket;
    std::shared_ptr<const Listener> listener;
    std::string out;
    std::size_t sent = 0;
    bool waits_read = false;
    bool waits_write = false;
    bool wants_write = false;
    bool is_flush_due = false;
    bool is_finishing = false;
    bool is_closed = false;
  };

  std::shared_ptr<Inner> inner_;
};

}  // namespace

Result<Dialled> DialController(const ControllerAddress& controller, const TlsIdentity& identity,
                               const std::string& bearer, const DialPatience& patience) {
  DIVVY_TRY(const int fd, DialTcp(controller.at, patience.connect));
  Descriptor socket(fd);
  const timeval timeout{std::chrono::duration_cast<std::chrono::seconds>(patience.answer).count(), 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
  DIVVY_TRY(const TlsContext context, TlsContext::Client(controller.fingerprint, identity));
  DIVVY_TRY(TlsChannel channel, context.Begin(fd));
  std::string request = "GET " + std::string(wire::kAgentPath) + " HTTP/1.1\r\nHost: " + ToString(controller.at) +
                        "\r\nConnection: Upgrade\r\nUpgrade: " + std::string(wire::kAgentProtocol) + "\r\n";
  if (!bearer.empty()) request += "Authorization: Bearer " + bearer + "\r\n";
  request += "\r\n";
  DIVVY_CHECK(WriteAll(channel, request, controller));
  DIVVY_CHECK(AwaitAgreement(channel, controller));
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  return Dialled{controller.at, std::move(socket), std::move(channel)};
}

std::unique_ptr<ByteStream> MakeStream(asio::io_context& loop, Dialled dialled) {
  return std::make_unique<DialledStream>(loop, std::move(dialled));
}

}  // namespace divvy
