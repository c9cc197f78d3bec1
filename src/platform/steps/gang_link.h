// One connection between the step processes of a job on two machines: TCP, TLS 1.3 with the job's key, frames
// (platform/records/gang_wire.h). It never waits but for the look-up of a name: whoever has it polls its descriptor for
// its events, and calls Progress() when there are some, or when due() has come.
//
// Whoever connects and does not prove within kGreetingMost to know the key is cut off without having been heard. The
// dialling end pings, so that both notice a machine that is gone: the listening one by silence, the dialling one
// because what it sends is not acknowledged.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "model/seat.h"
#include "platform/net/tls.h"
#include "platform/os/launch_descriptor.h"
#include "platform/records/gang_wire.h"

namespace divvy {

class GangLink {
 public:
  static constexpr Duration kGreetingMost = std::chrono::seconds(10);  // To be connected, and the handshake.
  static constexpr Duration kPingEvery = std::chrono::seconds(10);
  static constexpr Duration kSilenceMost = std::chrono::seconds(60);

  /// `context` must live as long. Fails where the host has no address.
  static Result<std::unique_ptr<GangLink>> Dial(const SeatAddress& address, const TlsContext& context);
  /// `socket` has just been accepted.
  static Result<std::unique_ptr<GangLink>> Accept(Descriptor socket, const TlsContext& context);

  int fd() const { return socket_.get(); }
  short events() const;
  Duration due() const;
  /// Does what can be done now. Afterwards Next() may have frames, and is_lost() may hold. To be called again at once
  /// while has_more().
  void Progress();
  bool has_more() const { return has_more_ && is_reading_ && !is_lost(); }
  std::optional<GangFrame> Next();

  void Send(GangWord word, int value = 0, std::string_view body = {});
  std::size_t unsent() const { return unsent_.size() - sent_; }
  /// False: what comes is left in the connection, and the other end waits when it is full.
  void SetReading(bool is_reading) { is_reading_ = is_reading; }
  /// True once the other end has proved to know the key.
  bool is_open() const { return state_ == State::kOpen; }
  bool is_lost() const { return state_ == State::kLost; }
  /// Why it is lost, for people: "Connection refused".
  const std::string& why() const { return why_; }

 private:
  enum class State { kConnecting, kGreeting, kOpen, kLost };
  explicit GangLink(const TlsContext& context) : context_(&context) {}
  void TryNextAddress(std::string why);
  void FinishConnecting();
  void Greet();
  void Flush();
  void Receive();
  void Lose(std::string why);

  struct Address {
    std::vector<char> bytes;
    int family = 0;
  };
  const TlsContext* context_;
  std::vector<Address> addresses_;  // Not tried yet, the next one last.
  Descriptor socket_;
  std::optional<TlsChannel> channel_;
  GangFrameReader reader_;
  std::string unsent_;
  std::size_t sent_ = 0;  // Of `unsent_`.
  State state_ = State::kGreeting;
  bool is_dialler_ = false;
  bool is_reading_ = true;
  bool has_more_ = false;
  bool needs_write_ = false;  // For the handshake.
  bool is_ending_ = false;    // The other end has said goodbye.
  Duration greeted_by_{0};
  Duration heard_at_{0};
  Duration ping_at_{0};
  std::string why_;
};

}  // namespace divvy
