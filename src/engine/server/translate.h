// What one server says, in the words of the engine for many nodes: GPU models as kinds, requests as
// asks, caps as indices. Pure values; nothing here decides.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/cluster.h"
#include "engine/policy.h"
#include "engine/server/facts.h"

namespace divvy {

/// The kinds of GPUs that a request can tell apart (model and memory), and of nodes that mix them.
class Kinds {
 public:
  /// Makes the kinds of these nodes. At most placement::kMaxModels kinds, mixtures included.
  explicit Kinds(const std::vector<const NodeCapacity*>& nodes = {});

  /// What core knows of a node: `kind`, `gpu_kinds`, `gpu_model`, `gpu_models`, GPUs, CPUs, memory.
  core::NodeFacts FactsOf(const NodeCapacity& capacity) const;
  /// The kinds that `request` accepts; all of them where it accepts every GPU there is.
  placement::ModelSet Accepted(const Request& request) const;
  /// The kind of each GPU.
  std::vector<std::uint8_t> KindsOf(const NodeCapacity& capacity) const;
  /// GPUs on which a job is equally fast.
  struct AtSpeed {
    placement::ModelSet models = 0;
    int speed = 1000;  // In thousandths of the fastest that it accepts here; 1000 also where it is not known.
  };
  /// The same as Accepted, in parts of one speed each, the fastest first, where it is known how fast it runs on which:
  /// by what the request says, else by what was `learned`. What is only learned makes nobody wait: models that it does
  /// not know come last, and then any mix of models.
  std::vector<AtSpeed> FastestFirst(const Request& request, const std::vector<ModelSpeed>& learned = {}) const;

 private:
  using Kind = std::pair<std::string, Bytes>;  // Model and memory.
  placement::ModelSet WithMixtures(placement::ModelSet kinds) const;
  /// In thousandths; 0: not known. Nothing where the request does not accept it.
  std::optional<int> SpeedOn(const Kind& kind, const Request& request, const std::vector<ModelSpeed>& learned) const;

  std::vector<Kind> kinds_;
  std::vector<std::vector<std::uint8_t>> mixtures_;  // Ascending, each once; numbered behind the kinds.
};

/// One task with `gpus` GPUs and the rest of `request`. CPUs and memory are rounded up to what core counts in.
core::Ask AskOf(const Kinds& kinds, const Request& request, PlacementStrategy placement, int gpus,
                const std::vector<ModelSpeed>& learned = {});
/// Which alternative of such an ask GPUs of these kinds are; the first where they are none.
std::uint8_t AlternativeOf(const core::Ask& ask, const std::vector<std::uint8_t>& kinds);

std::int32_t CpuMilli(int cpus);
std::int32_t MebibytesUp(Bytes bytes);
std::int32_t MebibytesDown(Bytes bytes);

core::Rules RulesOf(const Policy& policy);

/// How people are told of the cap of a group: "array 7", "user ada", "team vision", "group train".
std::string CapText(const std::string& group);

/// GroupCaps by name. An index that nobody uses any more is given to the next name, so that a server that has seen a
/// million arrays knows as many caps as it has arrays.
class GroupCaps {
 public:
  /// One more user of `name`.
  core::CapIndex Use(core::Cluster& core, const std::string& name);
  void Leave(const std::string& name);
  void SetLimits(core::Cluster& core, const std::string& name, GroupLimits limits);
  /// Those that have one.
  std::map<std::string, GroupLimits> limits() const;

 private:
  struct Slot {
    core::CapIndex index = 0;
    int users = 0;
    GroupLimits limits;
  };
  Slot& SlotOf(core::Cluster& core, const std::string& name);
  void ForgetIfUnused(std::map<std::string, Slot>::iterator at);

  std::map<std::string, Slot> slots_;
  std::vector<core::CapIndex> free_;
};

}  // namespace divvy
