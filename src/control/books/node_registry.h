// The registry of agent nodes: identity (certificate), properties (reported facts) and whether the node takes work (set
// by an administrator). A name belongs to one certificate and a GPU to one node. An agent that claims a name or GPU of
// another node is refused, whatever the other node's state.
//
// Pure: rows to persist are returned to the caller. Connection state is not tracked here.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "control/books/node_row.h"

namespace divvy {

inline constexpr std::string_view kNodePrefix = "node.of.";

class NodeRegistry {
 public:
  using Setting = std::pair<std::string, std::string>;  // A row for the store; an empty text removes it.
  static constexpr std::size_t kMostNodes = 10'000;

  /// Registers the name and the GPUs of the controller's own machine; no agent may join with these.
  void SetOwn(std::string name, const std::vector<GpuFacts>& gpus);

  const std::string& own_name() const { return own_name_; }

  struct Joined {
    Setting setting;
    bool is_new = false;
    std::vector<std::string> changes;  // "has 3 GPUs now, had 4: GPU-... is gone"; for the log.
  };
  /// Handles an agent that connects as `name` with the certificate of this fingerprint. Returns the node, or why it is
  /// refused. `may_be_new`: it presented a token that allows a node to join. `terms`: the lease terms that it will be
  /// sent. Fails with kPermissionDenied if the node is unknown and has no token, with kAlreadyExists if the name or a
  /// GPU belongs to another node, and with kInvalidArgument for an invalid name or facts. Each error says what to do.
  Result<Joined> Join(const std::string& name, const std::string& fingerprint, const MachineFacts& facts,
                      const LeaseTerms& terms, bool may_be_new, Time now);
  /// Returns true if the certificate belongs to a known node, so that Join may succeed without a token.
  bool Knows(std::string_view fingerprint) const { return FindByFingerprint(fingerprint) != nullptr; }

  // Each returns the row to persist; kNotFound for an unknown name.
  Result<Setting> Cordon(const std::string& name, const std::string& reason, Time now);
  Result<Setting> Drain(const std::string& name, Time deadline, const std::string& reason, Time now);
  Result<Setting> Resume(const std::string& name);
  Result<Setting> Remove(const std::string& name);
  /// Sets labels of a node, such as "rack" -> "r1". An empty value removes the label; labels that are not named stay.
  /// Returns the row to store. Fails if the node is unknown or a label is not valid.
  Result<Setting> Label(const std::string& name, const std::map<std::string, std::string>& labels);
  /// Records the fingerprint of the certificate that the node will use next. Until it uses it, the old and the new
  /// certificate are accepted. Returns the row to store.
  Result<Setting> Renew(const std::string& name, const std::string& next_fingerprint);
  /// Records that the node has sent a heartbeat under these lease terms, so that it follows them. Returns the row to
  /// store.
  Result<Setting> Agree(const std::string& name, const LeaseTerms& terms);
  /// Records that the controller knows all runs that the node has had since this boot. Returns the row to store.
  Result<Setting> AccountFor(const std::string& name, const std::string& boot_id);

  const NodeRow* Find(std::string_view name) const;
  const std::map<std::string, NodeRow, std::less<>>& nodes() const { return nodes_; }

  /// Loads a row of the store. Returns false if its key is not one of this registry. A row that cannot be read is
  /// skipped; its node must join again.
  bool LoadSetting(std::string_view key, std::string_view text);

 private:
  const NodeRow* FindByFingerprint(std::string_view fingerprint) const;
  Status CheckGpus(const std::string& name, const std::vector<GpuFacts>& gpus) const;
  Result<NodeRow*> Edit(const std::string& name);
  /// Sets the fingerprints of the node's certificates; "": none.
  void SetCertificates(NodeRow& row, std::string present, std::string next);
  static void SetOut(NodeRow& row, NodeWork work, const std::string& reason, Time now);

  std::map<std::string, NodeRow, std::less<>> nodes_;
  std::string own_name_;
  std::map<std::string, std::string, std::less<>> owner_of_gpu_;  // UUID -> name.
  /// The fingerprint and the node's name, for the present and the next certificate of each node.
  std::set<std::pair<std::string, std::string>> certificates_;
};

}  // namespace divvy
