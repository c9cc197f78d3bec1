// The keeper of a node's shared GPUs, as the node has it (src/keeper, docs/sharing.md).
#pragma once

#include <functional>

#include "base/result.h"
#include "wire/messages/share_messages.h"

namespace divvy {

class KeeperPort {
 public:
  virtual ~KeeperPort() = default;
  /// Starts the keeper if none is there, and stays joined to one from now on: after one has gone, to the next.
  virtual void Open() = 0;
  /// `answered` is called once: with what the keeper said, or kFailedPrecondition and why it would not; or, where it
  /// has gone before it answered, with kUnreachable: whoever still wants it asks the next one.
  using Answered = std::function<void(const Result<wire::KeeperAnswer>&)>;
  virtual void Ask(wire::KeeperRequest request, Answered answered) = 0;
  /// Why the last one that was started has ended, in its words; empty: none has.
  virtual std::string Trouble() const = 0;
};

/// What a keeper says of itself. From the loop.
class KeeperListener {
 public:
  virtual ~KeeperListener() = default;
  /// There is one, which knows nothing of what was asked of an earlier one.
  virtual void OnKeeper() = 0;
  virtual void OnKept(const wire::KeeperState& state) = 0;
  virtual void OnRequeue(const wire::KeeperRequeue& requeue) = 0;
};

}  // namespace divvy
