// The parts of one step on other nodes, seen from the node where the step was called, with one connection each. Reports
// of the other nodes come out as events; the functions here tell the nodes what to do.
#pragma once

#include <poll.h>

#include <cstddef>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/time.h"
#include "model/node_allocation.h"
#include "platform/records/gang_wire.h"
#include "platform/steps/gang_link.h"

namespace divvy {

struct PartPlan {
  std::string host;  // Used in messages.
  AllocationAddress address;
  std::vector<std::size_t> ranks;
};

struct PartEvent {
  enum class Kind {
    kSaid,  // `frame` is one of kWaits, kGranted, kRefused, kMap, kSay, kOutput, kTaken, kEnded.
    kLost,  // The connection is lost; `why` says why. The last event of this part.
    kOver,  // All tasks have ended and their output was delivered. The last event of this part.
  };
  Kind kind = Kind::kSaid;
  std::size_t part = 0;
  GangFrame frame;
  std::string why;
};

class GangParts {
 public:
  /// `plans`: one part of the step for each other node. `call`: the text of EncodePartCall(), which these nodes get.
  /// `context` must live longer than this object.
  GangParts(std::vector<PartPlan> plans, std::string call, const TlsContext& context);

  std::size_t size() const { return parts_.size(); }
  const PartPlan& plan(std::size_t part) const { return parts_[part].plan; }
  /// Connects to the node of this part and requests the GPUs and cores that the part needs. The result arrives as an
  /// event.
  void Ask(std::size_t part);
  bool was_asked(std::size_t part) const { return parts_[part].was_asked; }
  bool has_granted(std::size_t part) const { return parts_[part].has_granted; }
  bool have_all_granted() const;
  /// The GPUs that the step got on the node of this part, such as "0,3". Requires: has_granted(part).
  const std::string& gpus(std::size_t part) const { return parts_[part].gpus; }
  /// Starts the step on all nodes. `line`: the step's line in the list of steps. Requires: have_all_granted().
  void Go(std::string_view line);
  /// Tells the nodes that the whole step has ended with this exit code, for their lists.
  void Done(int code);
  void Signal(int signal);
  void Input(std::size_t rank, std::string_view bytes);
  /// Sets whether output of the tasks on other nodes is accepted at present.
  void SetReading(bool is_reading);
  /// Updates the state below with an event. Call it for each event in order, when it is handled.
  void Apply(const PartEvent& event);
  const std::set<std::size_t>& alive_on(std::size_t part) const { return parts_[part].alive; }

  /// The ranks that have not ended, after Go().
  std::set<std::size_t> Alive() const;
  std::size_t alive() const { return alive_; }
  bool are_over() const { return over_ == parts_.size(); }

  void AddPolls(std::vector<pollfd>& polls) const;
  /// Handles the results of poll(2) and returns the events of the parts. `polls`: the entries that AddPolls added.
  std::vector<PartEvent> OnPolls(std::span<const pollfd> polls);
  Duration due() const;

 private:
  struct Part {
    PartPlan plan;
    std::unique_ptr<GangLink> link;  // Null: not dialled yet, or lost. The link of a finished part is kept for Done().
    std::set<std::size_t> alive;
    std::string gpus;
    std::string failure;  // Why it could not be dialled.
    bool was_asked = false;
    bool has_granted = false;
    bool has_said_all = false;
    bool is_over = false;
  };
  void Read(std::size_t part, std::vector<PartEvent>& events);
  void Over(Part& part);

  std::vector<Part> parts_;
  std::string call_;
  const TlsContext& context_;
  std::size_t alive_ = 0;
  std::size_t over_ = 0;
};

}  // namespace divvy
