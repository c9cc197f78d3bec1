#include "wire/messages/share_messages.h"
#include "wire/messages/share_codec.h"

#include <gtest/gtest.h>

#include <boost/describe/members.hpp>
#include <boost/mp11.hpp>
#include <type_traits>
#include <utility>

#include "wire/messages/share_messages_describe.h"

namespace divvy::wire {
namespace share_messages_test {

template <typename T>
struct IsOptional : std::false_type {};
template <typename T>
struct IsOptional<std::optional<T>> : std::true_type {};

// As in messages_describe_test.cc: checks that the description has every field of its struct.
struct Anything {
  template <typename T>
  requires(!IsOptional<T>::value) operator T() const;
};

template <typename T, std::size_t... I>
constexpr bool TakesFields(std::index_sequence<I...>) {
  return requires { T{(static_cast<void>(I), Anything{})...}; };
}

template <typename... T>
constexpr bool AreDescribedFully() {
  return ([] {
    constexpr std::size_t kDescribed =
        boost::mp11::mp_size<boost::describe::describe_members<T, boost::describe::mod_public>>::value;
    return TakesFields<T>(std::make_index_sequence<kDescribed>()) &&
           !TakesFields<T>(std::make_index_sequence<kDescribed + 1>());
  }() && ...);
}
static_assert(AreDescribedFully<KeeperGpu, KeeperHello, ShareTerms, KeeperAdd, KeeperRemove, KeeperAcquireExclusive>());
static_assert(AreDescribedFully<KeeperRequest, KeptShare, KeptTenant, KeptMechanism, KeeperState, KeeperAdded>());
static_assert(AreDescribedFully<KeeperAnswer, KeeperRequeue, KeeperLine, KeeperMove, KeeperResize>());

TEST(ShareMessages, ATenantIsReadBackUnchanged) {
  KeeperRequest request;
  request.id = 7;
  KeeperAdd& add = request.add.emplace();
  add.job = JobId(12);
  add.attempt = 2;
  add.paper = {3, 1};
  add.share = {Bytes(20), Bytes(40), GpuShare(2500), GpuShare(8000)};
  add.idle_park = Duration(std::chrono::minutes(10));
  add.may_requeue = true;
  const auto back = DecodeShare<KeeperRequest>(EncodeShare(request));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->id, 7u);
  ASSERT_TRUE(back->add);
  EXPECT_EQ(back->add->paper, (std::vector<int>{3, 1}));
  EXPECT_EQ(back->add->share, add.share);
  EXPECT_EQ(back->add->idle_park, add.idle_park);
  EXPECT_TRUE(back->add->may_requeue);
  EXPECT_FALSE(back->remove);
}

TEST(ShareMessages, KeeperMessagesAreReadBack) {
  KeeperLine line;
  KeptTenant tenant;
  tenant.job = JobId(12);
  tenant.state = ShareState::kParking;
  tenant.shares.resize(1);
  tenant.shares[0].compute = GpuShare(3333);
  line.state.emplace().tenants = {tenant};
  const std::string text = EncodeShare(line);
  EXPECT_EQ(text, R"({"state":{"tenants":[{"job":12,"state":"parking","shares":[{"compute":0.3333}]}]}})");
  const auto back = DecodeShare<KeeperLine>(text);
  ASSERT_TRUE(back && back->state);
  EXPECT_EQ(back->state->tenants.at(0).state, ShareState::kParking);
  EXPECT_EQ(back->state->tenants.at(0).shares.at(0).compute, GpuShare(3333));
}

TEST(ShareMessages, ErrorsNameThePlace) {
  const auto request = DecodeShare<KeeperRequest>(R"({"id":1,"add":{"share":{"compute_limit":"half"}}})");
  ASSERT_FALSE(request);
  EXPECT_EQ(request.error().message, "add.share.compute_limit: expected a number, got a string");
}

}  // namespace share_messages_test
}  // namespace divvy::wire
