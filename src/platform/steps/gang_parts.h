// The other machines' parts of one step, on the machine where the step was called: a connection for each. What they say
// comes out as events; what they are to do goes in as calls.
#pragma once

#include <poll.h>

#include <cstddef>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/time.h"
#include "model/seat.h"
#include "platform/records/gang_wire.h"
#include "platform/steps/gang_link.h"

namespace divvy {

struct PartPlan {
  std::string host;  // In messages.
  SeatAddress address;
  std::vector<std::size_t> ranks;
};

struct PartEvent {
  enum class Kind {
    kSaid,  // `frame` is one of kWaits, kGranted, kRefused, kMap, kSay, kOutput, kTaken, kEnded.
    kLost,  // `why`; the last word of this part,
    kOver,  // or this, after all that its tasks wrote.
  };
  Kind kind = Kind::kSaid;
  std::size_t part = 0;
  GangFrame frame;
  std::string why;
};

class GangParts {
 public:
  /// `call`: EncodePartCall(). `context` must live as long.
  GangParts(std::vector<PartPlan> plans, std::string call, const TlsContext& context);

  std::size_t size() const { return parts_.size(); }
  const PartPlan& plan(std::size_t part) const { return parts_[part].plan; }
  /// Dials it and asks for what its part needs. What comes of it is an event.
  void Ask(std::size_t part);
  bool was_asked(std::size_t part) const { return parts_[part].was_asked; }
  bool has_granted(std::size_t part) const { return parts_[part].has_granted; }
  bool have_all_granted() const;
  /// Of one that has granted: "0,3", the GPUs that the step has there.
  const std::string& gpus(std::size_t part) const { return parts_[part].gpus; }
  /// `line`: what the step's list says of it. Requires: have_all_granted().
  void Go(std::string_view line);
  /// All is over everywhere, with this exit code: for their lists.
  void Done(int code);
  void Signal(int signal);
  void Input(std::size_t rank, std::string_view bytes);
  /// Whether output is wanted at the moment.
  void SetReading(bool is_reading);
  /// What an event means for what is said below: to be called for each of them, in their order, when it is looked at.
  void Apply(const PartEvent& event);
  const std::set<std::size_t>& alive_on(std::size_t part) const { return parts_[part].alive; }

  /// Ranks that have not ended, once they go.
  std::set<std::size_t> Alive() const;
  std::size_t alive() const { return alive_; }
  bool are_over() const { return over_ == parts_.size(); }

  void AddPolls(std::vector<pollfd>& polls) const;
  /// `polls`: as AddPolls made them.
  std::vector<PartEvent> OnPolls(std::span<const pollfd> polls);
  Duration due() const;

 private:
  struct Part {
    PartPlan plan;
    std::unique_ptr<GangLink> link;  // Null: not asked yet, or lost. One that is over is kept for Done().
    std::set<std::size_t> alive;
    std::string gpus;
    std::string failure;  // It could not even be dialled.
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
