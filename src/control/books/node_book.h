// The nodes that agents brought in: who each is (a certificate), what it is (facts, learned), and whether it takes work
// (what an administrator said). A name belongs to one certificate and a GPU to one node: who claims what another has is
// refused, whatever the other does just now.
//
// Pure: what is to be kept comes back as rows for the store. Whether a node is connected is not kept here.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "model/lease_terms.h"
#include "model/machine_facts.h"

namespace divvy {

inline constexpr std::string_view kNodePrefix = "node.of.";

/// What an administrator wants of a node. Kept as words.
enum class NodeWork {
  kTakes,     // New work goes there.
  kCordoned,  // No new work; what runs goes on.
  kDraining,  // No new work, and what runs is to end: by itself, or stopped at the deadline.
};
std::string_view Name(NodeWork work);  // "up", "cordoned", "draining"

struct NodeRow {
  std::string name;
  std::string fingerprint;       // Of its agent's certificate.
  std::string next_fingerprint;  // Of the one that it will come with; empty: none is announced.
  Time joined = kNoTime;
  NodeWork work = NodeWork::kTakes;
  Time drain_deadline = kNever;               // When draining: what runs then is stopped.
  std::string reason;                         // Why it takes no work, as the administrator said; with by whom.
  Time work_since = kNoTime;                  // When that was said; kNoTime: nobody knows.
  std::map<std::string, std::string> labels;  // Given by administrators; they win over learned ones.
  std::string accounted_boot;                 // The boot in which its runs were last accounted for.
  /// What the node does when it is cut off, at the least: it may hold stricter terms that it has not confirmed yet.
  LeaseTerms terms;
  MachineFacts facts;  // As of its last connection.

  /// Learned and given together.
  std::map<std::string, std::string> AllLabels() const;
  friend bool operator==(const NodeRow&, const NodeRow&) = default;
};

class NodeBook {
 public:
  using Setting = std::pair<std::string, std::string>;  // A row for the store; an empty text removes it.
  static constexpr std::size_t kMostNodes = 10'000;

  /// The controller's own machine has a name and GPUs as well, which no agent may claim.
  void SetOwn(std::string name, const std::vector<GpuFacts>& gpus);

  const std::string& own_name() const { return own_name_; }

  struct Joined {
    Setting setting;
    bool is_new = false;
    std::vector<std::string> changes;  // "has 3 GPUs now, had 4: GPU-... is gone"; for the log.
  };
  /// The agent that owns the certificate `fingerprint` connects as `name`. `may_be_new`: it brought a token that lets a
  /// node join. Refuses with kPermissionDenied who is not known and has no token, with kAlreadyExists whose name or GPU
  /// is another's, with kInvalidArgument what can be no node; each says what to do.
  /// `terms`: what it is about to be told.
  Result<Joined> Join(const std::string& name, const std::string& fingerprint, const MachineFacts& facts,
                      const LeaseTerms& terms, bool may_be_new, Time now);
  /// Whether Join may succeed for this certificate without a token.
  bool Knows(std::string_view fingerprint) const { return FindByFingerprint(fingerprint) != nullptr; }

  // Each says what to keep; kNotFound for a name that is none.
  Result<Setting> Cordon(const std::string& name, const std::string& reason, Time now);
  Result<Setting> Drain(const std::string& name, Time deadline, const std::string& reason, Time now);
  Result<Setting> Resume(const std::string& name);
  Result<Setting> Remove(const std::string& name);
  /// "rack" -> "r1"; an empty value takes the label away.
  Result<Setting> Label(const std::string& name, const std::map<std::string, std::string>& labels);
  /// It will come with the certificate of this fingerprint; until it does, either is taken.
  Result<Setting> Renew(const std::string& name, const std::string& next_fingerprint);
  /// It has given a sign of life under these terms.
  Result<Setting> Agree(const std::string& name, const LeaseTerms& terms);
  /// All of its runs are known as of this boot.
  Result<Setting> AccountFor(const std::string& name, const std::string& boot_id);

  const NodeRow* Find(std::string_view name) const;
  const std::map<std::string, NodeRow, std::less<>>& nodes() const { return nodes_; }

  /// True if the key is one of this book's. A row that cannot be read is left out: its node has to join again.
  bool LoadSetting(std::string_view key, std::string_view text);

 private:
  const NodeRow* FindByFingerprint(std::string_view fingerprint) const;
  Status CheckGpus(const std::string& name, const std::vector<GpuFacts>& gpus) const;
  Result<NodeRow*> Edit(const std::string& name);
  static void SetOut(NodeRow& row, NodeWork work, const std::string& reason, Time now);

  std::map<std::string, NodeRow, std::less<>> nodes_;
  std::string own_name_;
  std::map<std::string, std::string, std::less<>> owner_of_gpu_;  // UUID -> name.
};

/// A letter or digit, then up to 62 letters, digits, '.', '_' and '-'.
Status CheckNodeName(std::string_view name);

}  // namespace divvy
