// The keeper of a node's shared GPUs, as seen by the node (src/keeper, docs/sharing.md).
#pragma once

#include <functional>

#include "base/result.h"
#include "wire/messages/share_messages.h"

namespace divvy {

class KeeperPort {
 public:
  virtual ~KeeperPort() = default;
  /// Starts a keeper (the process that shares this node's GPUs among jobs) if none runs, and connects to it. When the
  /// keeper ends, this object connects to the next one.
  virtual void Open() = 0;
  /// `answered` is called once with the keeper's answer, or with kFailedPrecondition and the reason for a refusal. If
  /// the keeper is gone before it has answered, the error is kUnreachable; the caller may then ask the next keeper.
  using Answered = std::function<void(const Result<wire::KeeperAnswer>&)>;
  virtual void Ask(wire::KeeperRequest request, Answered answered) = 0;
  /// The error message of the last keeper that was started and has ended; empty if none has.
  virtual std::string Trouble() const = 0;
};

/// Messages that a keeper sends unasked. Called from the loop.
class KeeperListener {
 public:
  virtual ~KeeperListener() = default;
  /// A new keeper is connected. It knows nothing about requests to an earlier one.
  virtual void OnKeeper() = 0;
  virtual void OnKept(const wire::KeeperState& state) = 0;
  virtual void OnRequeue(const wire::KeeperRequeue& requeue) = 0;
};

}  // namespace divvy
