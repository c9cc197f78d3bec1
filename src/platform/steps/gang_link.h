// One connection between the step processes of a job on two nodes: TCP, TLS 1.3 with the job's key, and frames
// (platform/records/gang_wire.h). It blocks only while it resolves a name. The owner polls fd() for events(), and calls
// Progress() when there are some or when due() has passed.
//
// A peer that connects but does not prove within kGreetingMost that it knows the key is disconnected before any of its
// frames is read. The dialling end sends pings, so that both ends detect a node that is gone: the listening end by
// silence, the dialling end because its data is not acknowledged.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "model/node_allocation.h"
#include "platform/net/tls.h"
#include "platform/os/unique_fd.h"
#include "platform/records/gang_wire.h"

namespace divvy {

class GangLink {
 public:
  // Limit for connecting and the handshake together.
  static constexpr Duration kGreetingMost = std::chrono::seconds(10);
  static constexpr Duration kPingEvery = std::chrono::seconds(10);
  static constexpr Duration kSilenceMost = std::chrono::seconds(60);

  /// Connects to the step process of another node. `context` must live longer than the link. Fails if the host has no
  /// address.
  static Result<std::unique_ptr<GangLink>> Dial(const AllocationAddress& address, const TlsContext& context);
  /// Makes a link of a connection that another node has opened. `socket` was just accepted.
  static Result<std::unique_ptr<GangLink>> Accept(Descriptor socket, const TlsContext& context);

  int fd() const { return socket_.get(); }
  short events() const;
  Duration due() const;
  /// Sends and receives as much as possible without blocking. Afterwards Next() may return frames, and is_lost() may be
  /// true. Call it again at once while has_more() returns true.
  void Progress();
  bool has_more() const { return has_more_ && is_reading_ && !is_lost(); }
  std::optional<GangFrame> Next();

  void Send(GangWord word, int value = 0, std::string_view body = {});
  std::size_t unsent() const { return unsent_.size() - sent_; }
  /// Sets whether incoming data is read. Otherwise it stays in the connection, and the peer blocks when the connection
  /// is full.
  void SetReading(bool is_reading) { is_reading_ = is_reading; }
  /// True once the peer has proved that it knows the secret key of the job's nodes.
  bool is_open() const { return state_ == State::kOpen; }
  bool is_lost() const { return state_ == State::kLost; }
  /// Returns why the link was lost, for messages: "Connection refused".
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
  std::vector<Address> addresses_;  // Not tried yet; the next one is last.
  Descriptor socket_;
  std::optional<TlsChannel> channel_;
  GangFrameReader reader_;
  std::string unsent_;
  std::size_t sent_ = 0;  // How many bytes of `unsent_` were sent.
  State state_ = State::kGreeting;
  bool is_dialler_ = false;
  bool is_reading_ = true;
  bool has_more_ = false;
  bool needs_write_ = false;  // The handshake waits until the socket is writable.
  bool is_ending_ = false;    // The peer has closed the connection properly.
  Duration greeted_by_{0};
  Duration heard_at_{0};
  Duration ping_at_{0};
  std::string why_;
};

}  // namespace divvy
