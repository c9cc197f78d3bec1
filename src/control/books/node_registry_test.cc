#include "control/books/node_registry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace divvy {
namespace node_registry_test {

constexpr Time kNow = Time(std::chrono::hours(500'000));
constexpr LeaseTerms kTerms = {5s, 30s, true};

MachineFacts Machine(const std::vector<std::string>& uuids) {
  MachineFacts facts;
  facts.hostname = "host";
  facts.boot_id = "boot-1";
  facts.agent_version = "0.1.0";
  facts.gpu_source = "emulated: 2xH100-80GB";
  facts.cpus = 64;
  facts.memory = Bytes(std::int64_t{1} << 40);
  facts.labels = {{"arch", "x86_64"}, {"rack", "r 1"}};
  for (std::size_t i = 0; i < uuids.size(); ++i) {
    GpuFacts gpu;
    gpu.index = static_cast<GpuIndex>(i);
    gpu.uuid = uuids[i];
    gpu.model = "NVIDIA H100 80GB HBM3";
    gpu.memory_total = Bytes(std::int64_t{80} << 30);
    gpu.numa_node = 1;
    gpu.compute_capability = 90;
    gpu.is_mig_capable = gpu.is_only_sliced = true;
    gpu.slices = {{"1g.10gb", 1, 1, Bytes(std::int64_t{9} << 30)}, {"7g.80gb", 7, 8, Bytes(std::int64_t{79} << 30)}};
    gpu.pci_address = "00000000:17:00.0";
    gpu.links = {"X", "NV18"};
    facts.gpus.push_back(std::move(gpu));
  }
  return facts;
}

class NodeRegistryTest : public testing::Test {
 protected:
  NodeRegistryTest() { registry_.SetOwn("head", Machine({"GPU-own"}).gpus); }
  std::string Refused(const std::string& name, const std::string& fingerprint, const MachineFacts& facts,
                      bool may_be_new = true) {
    const auto joined = registry_.Join(name, fingerprint, facts, kTerms, may_be_new, kNow);
    return joined ? "joined" : joined.error().message;
  }
  void Join(const std::string& name, const std::string& fingerprint, const std::vector<std::string>& uuids) {
    const auto joined = registry_.Join(name, fingerprint, Machine(uuids), kTerms, true, kNow);
    ASSERT_TRUE(joined) << joined.error().message;
    kept_[joined->setting.first] = joined->setting.second;
  }
  NodeRegistry registry_;
  std::map<std::string, std::string> kept_;
};

TEST_F(NodeRegistryTest, AJoinedNodeIsKnownByItsCertificateAndNeedsNoTokenAgain) {
  EXPECT_EQ(Refused("n1", "aa", Machine({"GPU-1"}), false),
            "node n1 is not known here, or was removed; divvy token create --node on the controller prints the line "
            "that lets it join");
  Join("n1", "aa", {"GPU-1", "GPU-2"});
  EXPECT_TRUE(registry_.Knows("aa"));
  EXPECT_FALSE(registry_.Knows(""));
  EXPECT_EQ(Refused("n1", "aa", Machine({"GPU-1", "GPU-2"}), false), "joined");
  EXPECT_EQ(registry_.Find("n1")->joined, kNow);
}

TEST_F(NodeRegistryTest, ANameBelongsToOneCertificateAndACertificateToOneName) {
  Join("n1", "aa", {"GPU-1"});
  EXPECT_EQ(Refused("n1", "bb", Machine({"GPU-2"})),
            "there is a node n1 already, and it is another machine (or it lost its key); divvy agent --name chooses "
            "another name, divvy node remove n1 forgets the one there is");
  EXPECT_EQ(Refused("n2", "aa", Machine({"GPU-1"})),
            "this certificate is that of node n1, which cannot also be called n2");
  EXPECT_EQ(
      Refused("head", "cc", Machine({"GPU-3"})),
      "there is a node head already, and it is the controller's own node; divvy agent --name chooses another name");
  EXPECT_NE(Refused("n3", "", Machine({})).find("must present a certificate"), std::string::npos);
  EXPECT_EQ(registry_.nodes().size(), 1u);
}

TEST_F(NodeRegistryTest, TheLaterOfTwoNodesThatClaimOneGpuIsRefused) {
  Join("n1", "aa", {"GPU-1", "GPU-2"});
  EXPECT_EQ(Refused("n2", "bb", Machine({"GPU-3", "GPU-2"})),
            "n2 reports the GPU GPU-2, which node n1 has; if it was moved here, divvy node remove n1 first");
  EXPECT_EQ(Refused("n2", "bb", Machine({"GPU-own"})),
            "n2 reports the GPU GPU-own, which node head has; it is the controller's own");
  EXPECT_EQ(Refused("n2", "bb", Machine({"GPU-3", "GPU-3"})), "it reports the GPU GPU-3 twice");
  EXPECT_EQ(registry_.Find("n2"), nullptr);
  // Once n1 has given it up, n2 may claim it.
  Join("n1", "aa", {"GPU-1"});
  EXPECT_EQ(Refused("n2", "bb", Machine({"GPU-3", "GPU-2"})), "joined");
}

TEST_F(NodeRegistryTest, AChangedGpuCountIsAcceptedAndReportedAndDrainsNothing) {
  Join("n1", "aa", {"GPU-1", "GPU-2"});
  MachineFacts fewer = Machine({"GPU-1"});
  fewer.boot_id = "boot-2";
  const auto joined = registry_.Join("n1", "aa", fewer, kTerms, false, kNow + 1h);
  ASSERT_TRUE(joined);
  EXPECT_FALSE(joined->is_new);
  EXPECT_EQ(joined->changes, (std::vector<std::string>{"has 1 GPU now, had 2; GPU-2 is gone", "was rebooted"}));
  EXPECT_EQ(registry_.Find("n1")->work, NodeWork::kTakes);
  EXPECT_EQ(registry_.Find("n1")->facts.gpus.size(), 1u);
  EXPECT_EQ(registry_.Find("n1")->accounted_boot, "boot-1");  // It stays until its runs are reconciled.
}

TEST_F(NodeRegistryTest, AdministratorsSettingsSurviveReconnectsAndRestarts) {
  Join("n1", "aa", {"GPU-1"});
  kept_.insert_or_assign("node.of.n1", registry_.Drain("n1", kNow + 2h, "new fan, by root", kNow)->second);
  kept_.insert_or_assign("node.of.n1", registry_.Label("n1", {{"rack", "r7"}, {"zone", "a b"}})->second);
  Join("n1", "aa", {"GPU-1"});
  NodeRegistry again;
  for (const auto& [key, text] : kept_) EXPECT_TRUE(again.LoadSetting(key, text));
  EXPECT_FALSE(again.LoadSetting("token.x", ""));
  ASSERT_NE(again.Find("n1"), nullptr);
  EXPECT_EQ(*again.Find("n1"), *registry_.Find("n1"));
  EXPECT_EQ(again.Find("n1")->work, NodeWork::kDraining);
  EXPECT_EQ(again.Find("n1")->drain_deadline, kNow + 2h);
  EXPECT_EQ(again.Find("n1")->AllLabels().at("rack"), "r7");
  EXPECT_EQ(again.Find("n1")->AllLabels().at("arch"), "x86_64");
  // Its GPUs are registered there as well.
  EXPECT_FALSE(again.Join("n2", "bb", Machine({"GPU-1"}), kTerms, true, kNow));
  const auto resumed = registry_.Resume("n1");
  EXPECT_EQ(resumed->second, FormatNode(*registry_.Find("n1")));
  EXPECT_EQ(registry_.Find("n1")->reason, "");
  EXPECT_EQ(registry_.Label("n1", {{"zone", ""}})->second.find("zone"), std::string::npos);
  EXPECT_EQ(registry_.Cordon("n9", "", kNow).error().message, "there is no node 'n9'; divvy nodes lists all nodes");
}

TEST_F(NodeRegistryTest, ErrorsWithoutJoinedNodesExplainHowANodeJoins) {
  EXPECT_EQ(registry_.Cordon("n1", "", kNow).error().message,
            "there is no node 'n1'; none has joined yet: divvy token create --node prints the line by which one does");
}

TEST_F(NodeRegistryTest, RepeatingACordonKeepsItsTimestamp) {
  Join("n1", "aa", {"GPU-1"});
  ASSERT_TRUE(registry_.Cordon("n1", "fan, by root", kNow));
  ASSERT_TRUE(registry_.Drain("n1", kNow + 3h, "fan, by root", kNow + 1h));
  EXPECT_EQ(registry_.Find("n1")->work, NodeWork::kDraining);
  EXPECT_EQ(registry_.Find("n1")->work_since, kNow);
  ASSERT_TRUE(registry_.Cordon("n1", "disk, by root", kNow + 2h));
  EXPECT_EQ(registry_.Find("n1")->work_since, kNow + 2h);
  ASSERT_TRUE(registry_.Resume("n1"));
  ASSERT_TRUE(registry_.Cordon("n1", "disk, by root", kNow + 3h));
  EXPECT_EQ(registry_.Find("n1")->work_since, kNow + 3h);
}

TEST_F(NodeRegistryTest, ARenewedCertificateReplacesTheOldOneOnFirstUse) {
  Join("n1", "aa", {"GPU-1"});
  Join("n2", "bb", {"GPU-2"});
  ASSERT_TRUE(registry_.Renew("n1", "cc"));
  EXPECT_EQ(registry_.Renew("n2", "cc").error().message, "this certificate is that of node n1");
  EXPECT_FALSE(registry_.Renew("n2", "not hex"));
  EXPECT_TRUE(registry_.Knows("aa"));
  EXPECT_TRUE(registry_.Knows("cc"));
  EXPECT_EQ(Refused("n1", "cc", Machine({"GPU-1"}), false), "joined");
  EXPECT_FALSE(registry_.Knows("aa"));
  EXPECT_NE(Refused("n1", "aa", Machine({"GPU-1"}), false), "joined");
}

TEST_F(NodeRegistryTest, ANodeCanBeRemovedAndJoinUnderAnotherName) {
  Join("n1", "aa", {"GPU-1"});
  ASSERT_TRUE(registry_.Renew("n1", "bb"));
  ASSERT_TRUE(registry_.Remove("n1"));
  EXPECT_FALSE(registry_.Knows("aa"));
  EXPECT_FALSE(registry_.Knows("bb"));
  Join("n2", "bb", {"GPU-1"});
  EXPECT_EQ(Refused("n1", "bb", Machine({"GPU-2"})),
            "this certificate is that of node n2, which cannot also be called n1");
  Join("n1", "aa", {"GPU-2"});
  EXPECT_TRUE(registry_.Knows("aa"));
}

// The index of certificates is compared with a walk over all nodes.
TEST_F(NodeRegistryTest, CertificatesAreFoundAfterAnySequenceOfChanges) {
  const std::vector<std::string> names = {"n1", "n2", "n3"}, certificates = {"aa", "bb", "cc", "dd", "ee"};
  std::mt19937_64 random(26);
  const auto one_of = [&](const std::vector<std::string>& words) { return words[random() % words.size()]; };
  std::string earlier;  // A row of n1, as the store had it once.
  int known = 0, unknown = 0;
  for (int step = 0; step < 5'000; ++step) {
    const std::string name = one_of(names), certificate = one_of(certificates);
    const std::uint64_t kind = random() % 8;
    if (kind < 4) {
      static_cast<void>(registry_.Join(name, certificate, Machine({}), kTerms, kind < 3, kNow));
    } else if (kind < 6) {
      static_cast<void>(registry_.Renew(name, certificate));
    } else if (kind == 6) {
      static_cast<void>(registry_.Remove(name));
    } else if (earlier.empty() || random() % 2 == 0) {
      if (const NodeRow* row = registry_.Find("n1")) earlier = FormatNode(*row);
    } else {
      ASSERT_TRUE(registry_.LoadSetting("node.of.n1", earlier));
    }
    for (const std::string& one : certificates) {
      const bool is_known = std::ranges::any_of(registry_.nodes(), [&](const auto& node) {
        return node.second.fingerprint == one || node.second.next_fingerprint == one;
      });
      ASSERT_EQ(registry_.Knows(one), is_known) << one << " at step " << step;
      ++(is_known ? known : unknown);
    }
  }
  EXPECT_GT(known, 1'000);
  EXPECT_GT(unknown, 1'000);
}

TEST_F(NodeRegistryTest, ARemovedNodeHasToJoinAgain) {
  Join("n1", "aa", {"GPU-1"});
  EXPECT_EQ(registry_.Remove("n1")->second, "");
  EXPECT_NE(Refused("n1", "aa", Machine({"GPU-1"}), false), "joined");
  EXPECT_EQ(Refused("n2", "bb", Machine({"GPU-1"})), "joined");
}

// Assumptions about a lost node's jobs must hold whether or not the node has received its latest terms.
TEST_F(NodeRegistryTest, LeaseTermsCountOnceConfirmedUnlessTheyAreWeaker) {
  Join("n1", "aa", {"GPU-1"});
  EXPECT_EQ(registry_.Find("n1")->terms, kTerms);
  const LeaseTerms longer = {5s, 60s, true}, shorter = {5s, 10s, true}, stays = {5s, 30s, false};
  const auto told = [&](const LeaseTerms& terms) {
    EXPECT_TRUE(registry_.Join("n1", "aa", Machine({"GPU-1"}), terms, false, kNow));
    return registry_.Find("n1")->terms;
  };
  EXPECT_EQ(told(longer), longer);
  EXPECT_EQ(told(shorter), longer);
  ASSERT_TRUE(registry_.Agree("n1", shorter));
  EXPECT_EQ(registry_.Find("n1")->terms, shorter);
  EXPECT_FALSE(told(stays).stops_jobs);
  EXPECT_FALSE(told(kTerms).stops_jobs);
  ASSERT_TRUE(registry_.Agree("n1", kTerms));
  EXPECT_TRUE(registry_.Find("n1")->terms.stops_jobs);
}

TEST_F(NodeRegistryTest, RefusesInvalidNodes) {
  for (const std::string& name : std::vector<std::string>{"", "-x", ".x", "a b", "a/b", "a\nb", std::string(64, 'a')})
    EXPECT_NE(Refused(name, "aa", Machine({})), "joined") << name;
  MachineFacts facts = Machine({"GPU-1"});
  facts.gpus[0].index = 3;
  EXPECT_NE(Refused("n1", "aa", facts), "joined");
  facts = Machine({});
  facts.cpus = -1;
  EXPECT_NE(Refused("n1", "aa", facts), "joined");
  facts = Machine({});
  facts.labels["a b"] = "c";
  EXPECT_NE(Refused("n1", "aa", facts), "joined");
  facts.labels = {{"pool", "train,a b"}};
  EXPECT_NE(Refused("n1", "aa", facts), "joined") << "no pool is called so";
  EXPECT_TRUE(registry_.nodes().empty());
  // Text from an agent cannot add lines.
  facts = Machine({"GPU-1"});
  facts.hostname = "x\nwork draining";
  EXPECT_EQ(Refused("n1", "aa", facts), "joined");
  EXPECT_EQ(ParseNode("n1", FormatNode(*registry_.Find("n1")))->work, NodeWork::kTakes);
}

}  // namespace node_registry_test
}  // namespace divvy
