#include "control/books/node_registry.h"

#include <algorithm>
#include <set>

#include "base/text.h"

namespace divvy {
namespace {

constexpr std::size_t kMostLabels = 64;
constexpr std::size_t kLongestLabel = 128;

std::string NodeKey(std::string_view name) { return std::string(kNodePrefix) + std::string(name); }

bool IsPlain(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) >= ' ' && c != '\x7f'; });
}

Status CheckLabels(const std::map<std::string, std::string>& labels) {
  if (labels.size() > kMostLabels) {
    return LimitExceeded("a node has at most " + std::to_string(kMostLabels) + " labels; these are " +
                         std::to_string(labels.size()));
  }
  for (const auto& [name, value] : labels) {
    const bool is_good = !name.empty() && name.size() <= kLongestLabel && value.size() <= kLongestLabel &&
                         std::ranges::all_of(name, IsNameChar) && IsPlain(value);
    if (!is_good) {
      return InvalidArgument("'" + name.substr(0, kLongestLabel) +
                             "' is not a valid label: use letters, digits, '.', '_' and '-', " +
                             "then '=' and one line, each of at most " + std::to_string(kLongestLabel) + " characters");
    }
    if (name != "pool") continue;
    for (const std::string_view pool : Split(value, ',')) {
      if (!std::ranges::all_of(pool, IsNameChar))
        return InvalidArgument("pool=" + value + ": a pool name has letters, digits, '.', '_' and '-' only");
    }
  }
  return {};
}

Status CheckFacts(const MachineFacts& facts) {
  DIVVY_CHECK(CheckLabels(facts.labels));
  if (facts.gpus.size() > static_cast<std::size_t>(GpuSet::kCapacity)) {
    return InvalidArgument("a node has at most " + std::to_string(GpuSet::kCapacity) + " GPUs; this one reports " +
                           std::to_string(facts.gpus.size()));
  }
  std::set<std::string> uuids;
  for (std::size_t i = 0; i < facts.gpus.size(); ++i) {
    const GpuFacts& gpu = facts.gpus[i];
    if (gpu.index != i || gpu.memory_total < Bytes(0) || gpu.uuid.find(' ') != std::string::npos) {
      return InvalidArgument("GPU " + std::to_string(i) + " is reported with index " + std::to_string(gpu.index) +
                             " and the UUID '" + gpu.uuid.substr(0, kLongestLabel) + "'");
    }
    // A GPU that is lost when its node starts has no UUID, but keeps its index.
    if (!gpu.uuid.empty() && !uuids.insert(gpu.uuid).second)
      return InvalidArgument("it reports the GPU " + gpu.uuid + " twice");
  }
  if (facts.cpus < 0 || facts.memory < Bytes(0)) return InvalidArgument("it reports negative CPUs or memory");
  return {};
}

/// The guarantees that hold whichever of the two terms a node follows.
LeaseTerms WeakerOf(const LeaseTerms& a, const LeaseTerms& b) {
  LeaseTerms weaker = a.lease > b.lease ? a : b;
  weaker.stops_jobs = a.stops_jobs && b.stops_jobs;
  return weaker;
}

/// Removes the GPUs of the node from `owners`, which has the name of the owner by UUID.
void Disown(std::map<std::string, std::string, std::less<>>& owners, const NodeRow& row) {
  for (const GpuFacts& gpu : row.facts.gpus) {
    const auto owner = owners.find(gpu.uuid);
    if (owner != owners.end() && owner->second == row.name) owners.erase(owner);
  }
}

std::vector<std::string> ChangesBetween(const MachineFacts& before, const MachineFacts& after) {
  std::vector<std::string> changes;
  const auto uuids_of = [](const MachineFacts& facts) {
    std::set<std::string> uuids;
    for (const GpuFacts& gpu : facts.gpus) uuids.insert(gpu.uuid);
    return uuids;
  };
  const auto old_uuids = uuids_of(before), new_uuids = uuids_of(after);
  if (old_uuids != new_uuids) {
    std::string text = "has " + Plural(static_cast<std::int64_t>(after.gpus.size()), "GPU") + " now, had " +
                       std::to_string(before.gpus.size());
    for (const std::string& uuid : old_uuids) {
      if (!new_uuids.contains(uuid)) text += "; " + uuid + " is gone";
    }
    for (const std::string& uuid : new_uuids) {
      if (!old_uuids.contains(uuid)) text += "; " + uuid + " is new";
    }
    changes.push_back(std::move(text));
  }
  if (before.cpus != after.cpus) {
    changes.push_back("has " + Plural(after.cpus, "CPU") + " now, had " + std::to_string(before.cpus));
  }
  if (before.boot_id != after.boot_id) changes.push_back("was rebooted");
  if (before.agent_version != after.agent_version)
    changes.push_back("runs version " + after.agent_version + " now, ran " + before.agent_version);
  return changes;
}

}  // namespace

void NodeRegistry::SetOwn(std::string name, const std::vector<GpuFacts>& gpus) {
  own_name_ = std::move(name);
  for (const GpuFacts& gpu : gpus) {
    if (!gpu.uuid.empty()) owner_of_gpu_.insert_or_assign(gpu.uuid, own_name_);
  }
}

const NodeRow* NodeRegistry::Find(std::string_view name) const {
  const auto found = nodes_.find(name);
  return found == nodes_.end() ? nullptr : &found->second;
}

const NodeRow* NodeRegistry::FindByFingerprint(std::string_view fingerprint) const {
  if (fingerprint.empty()) return nullptr;
  const auto found = certificates_.lower_bound({std::string(fingerprint), ""});
  return found == certificates_.end() || found->first != fingerprint ? nullptr : Find(found->second);
}

void NodeRegistry::SetCertificates(NodeRow& row, std::string present, std::string next) {
  for (const std::string& old : {row.fingerprint, row.next_fingerprint}) certificates_.erase({old, row.name});
  row.fingerprint = std::move(present);
  row.next_fingerprint = std::move(next);
  for (const std::string& valid : {row.fingerprint, row.next_fingerprint}) {
    if (!valid.empty()) certificates_.emplace(valid, row.name);
  }
}

Status NodeRegistry::CheckGpus(const std::string& name, const std::vector<GpuFacts>& gpus) const {
  for (const GpuFacts& gpu : gpus) {
    const auto owner = owner_of_gpu_.find(gpu.uuid);
    if (gpu.uuid.empty() || owner == owner_of_gpu_.end() || owner->second == name) continue;
    const std::string repair = owner->second == own_name_
                                   ? "it is the controller's own"
                                   : "if it was moved here, divvy node remove " + owner->second + " first";
    return Error{ErrorCode::kAlreadyExists,
                 name + " reports the GPU " + gpu.uuid + ", which node " + owner->second + " has; " + repair};
  }
  return {};
}

Result<NodeRegistry::Joined> NodeRegistry::Join(const std::string& name, const std::string& fingerprint,
                                                const MachineFacts& facts, const LeaseTerms& terms, bool may_be_new,
                                                Time now) {
  DIVVY_CHECK(CheckNodeName(name));
  if (fingerprint.empty()) return PermissionDenied("a node must present a certificate, but this one presented none");
  const auto found = nodes_.find(name);
  const auto is_its = [&](const NodeRow& row) {
    return row.fingerprint == fingerprint || row.next_fingerprint == fingerprint;
  };
  const bool is_back = found != nodes_.end() && is_its(found->second);
  const NodeRow* owner = is_back ? &found->second : FindByFingerprint(fingerprint);
  if (name == own_name_ || (found != nodes_.end() && !is_back)) {
    return Error{ErrorCode::kAlreadyExists,
                 "there is a node " + name + " already, and it is " +
                     (name == own_name_ ? "the controller's own node; divvy agent --name chooses another name"
                                        : "another machine (or it lost its key); divvy agent --name chooses another " +
                                              ("name, divvy node remove " + name) + " forgets the one there is")};
  }
  if (owner != nullptr && owner->name != name) {
    return Error{ErrorCode::kAlreadyExists,
                 "this certificate is that of node " + owner->name + ", which cannot also be called " + name};
  }
  const bool is_new = found == nodes_.end();
  if (is_new && !may_be_new) {
    return PermissionDenied("node " + name + " is not known here, or was removed; divvy token create --node on the " +
                            "controller prints the line that lets it join");
  }
  if (is_new && nodes_.size() >= kMostNodes)
    return LimitExceeded("there are " + std::to_string(kMostNodes) + " nodes, which is the limit");
  DIVVY_CHECK(CheckFacts(facts));
  DIVVY_CHECK(CheckGpus(name, facts.gpus));
  Joined joined;
  joined.is_new = is_new;
  NodeRow& row = nodes_[name];
  if (is_new) {
    row.name = name;
    row.joined = now;
    row.accounted_boot = facts.boot_id;  // No run of ours was there before.
  } else {
    joined.changes = ChangesBetween(row.facts, facts);
  }
  // The first use of the new certificate invalidates the old one.
  SetCertificates(row, fingerprint, row.next_fingerprint == fingerprint ? "" : row.next_fingerprint);
  Disown(owner_of_gpu_, row);
  for (const GpuFacts& gpu : facts.gpus) {
    if (!gpu.uuid.empty()) owner_of_gpu_.insert_or_assign(gpu.uuid, name);
  }
  row.facts = facts;
  row.terms = WeakerOf(is_new ? terms : row.terms, terms);
  joined.setting = {NodeKey(name), FormatNode(row)};
  return joined;
}

Result<NodeRow*> NodeRegistry::Edit(const std::string& name) {
  const auto found = nodes_.find(name);
  if (found == nodes_.end()) {
    return NotFound("there is no node '" + name.substr(0, kLongestNodeName) + "'" +
                    (name == own_name_ ? " that joined: it is the controller's own node"
                     : nodes_.empty()
                         ? "; none has joined yet: divvy token create --node prints the line by which one does"
                         : "; divvy nodes lists all nodes"));
  }
  return &found->second;
}

// Repeating the same reason on a node that takes no work keeps the original time.
void NodeRegistry::SetOut(NodeRow& row, NodeWork work, const std::string& reason, Time now) {
  if (row.work == NodeWork::kTakes || row.reason != reason) row.work_since = now;
  row.work = work;
  row.reason = reason;
}

Result<NodeRegistry::Setting> NodeRegistry::Cordon(const std::string& name, const std::string& reason, Time now) {
  DIVVY_TRY(NodeRow * row, Edit(name));
  SetOut(*row, NodeWork::kCordoned, reason, now);
  row->drain_deadline = kNever;
  return Setting{NodeKey(name), FormatNode(*row)};
}

Result<NodeRegistry::Setting> NodeRegistry::Drain(const std::string& name, Time deadline, const std::string& reason,
                                                  Time now) {
  DIVVY_TRY(NodeRow * row, Edit(name));
  SetOut(*row, NodeWork::kDraining, reason, now);
  row->drain_deadline = deadline;
  return Setting{NodeKey(name), FormatNode(*row)};
}

Result<NodeRegistry::Setting> NodeRegistry::Resume(const std::string& name) {
  DIVVY_TRY(NodeRow * row, Edit(name));
  row->work = NodeWork::kTakes;
  row->drain_deadline = kNever;
  row->reason.clear();
  row->work_since = kNoTime;
  return Setting{NodeKey(name), FormatNode(*row)};
}

Result<NodeRegistry::Setting> NodeRegistry::Remove(const std::string& name) {
  DIVVY_TRY(NodeRow * row, Edit(name));
  Disown(owner_of_gpu_, *row);
  SetCertificates(*row, "", "");
  nodes_.erase(nodes_.find(name));
  return Setting{NodeKey(name), ""};
}

Result<NodeRegistry::Setting> NodeRegistry::Label(const std::string& name,
                                                  const std::map<std::string, std::string>& labels) {
  DIVVY_TRY(NodeRow * row, Edit(name));
  auto all = row->labels;
  for (const auto& [key, value] : labels) {
    if (value.empty()) all.erase(key);
    else all.insert_or_assign(key, value);
  }
  DIVVY_CHECK(CheckLabels(all));
  row->labels = std::move(all);
  return Setting{NodeKey(name), FormatNode(*row)};
}

Result<NodeRegistry::Setting> NodeRegistry::Renew(const std::string& name, const std::string& next_fingerprint) {
  DIVVY_TRY(NodeRow * row, Edit(name));
  const NodeRow* owner = FindByFingerprint(next_fingerprint);
  if (next_fingerprint.empty() || next_fingerprint.find_first_not_of("0123456789abcdef") != std::string::npos)
    return InvalidArgument("a certificate's fingerprint is hexadecimal digits");
  if (owner != nullptr && owner != row)
    return Error{ErrorCode::kAlreadyExists, "this certificate is that of node " + owner->name};
  SetCertificates(*row, row->fingerprint, next_fingerprint == row->fingerprint ? "" : next_fingerprint);
  return Setting{NodeKey(name), FormatNode(*row)};
}

Result<NodeRegistry::Setting> NodeRegistry::Agree(const std::string& name, const LeaseTerms& terms) {
  DIVVY_TRY(NodeRow * row, Edit(name));
  row->terms = terms;
  return Setting{NodeKey(name), FormatNode(*row)};
}

Result<NodeRegistry::Setting> NodeRegistry::AccountFor(const std::string& name, const std::string& boot_id) {
  DIVVY_TRY(NodeRow * row, Edit(name));
  row->accounted_boot = boot_id;
  return Setting{NodeKey(name), FormatNode(*row)};
}

bool NodeRegistry::LoadSetting(std::string_view key, std::string_view text) {
  if (!key.starts_with(kNodePrefix)) return false;
  auto row = ParseNode(key.substr(kNodePrefix.size()), text);
  if (!row) return true;
  for (const GpuFacts& gpu : row->facts.gpus) {
    if (!gpu.uuid.empty()) owner_of_gpu_.insert_or_assign(gpu.uuid, row->name);
  }
  NodeRow& kept = nodes_[row->name];
  SetCertificates(kept, "", "");  // Those of an earlier row of this node.
  kept = *std::move(row);
  SetCertificates(kept, kept.fingerprint, kept.next_fingerprint);
  return true;
}

}  // namespace divvy
