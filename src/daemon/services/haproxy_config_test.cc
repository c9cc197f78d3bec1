#include "daemon/services/haproxy_config.h"

#include <gtest/gtest.h>

namespace divvy {
namespace {

FrontService Service(std::string name, std::int64_t port) {
  FrontService service;
  service.settings.name = std::move(name);
  service.settings.port = port;
  service.slots = SlotsOf(service.settings);
  return service;
}

TEST(HaproxyConfig, HasAFrontAndSlotsForEachService) {
  const std::string text =
      HaproxyConfig({"/state", "127.0.0.1", 100}, "/state/s.sock", {Service("chat", 8000), Service("code", 8001)});
  EXPECT_NE(text.find("frontend f_chat\n  bind 127.0.0.1:8000\n"), std::string::npos);
  EXPECT_NE(text.find("backend s_code\n"), std::string::npos);
  EXPECT_NE(text.find("  server r4 127.0.0.1:1 disabled maxconn 1 check"), std::string::npos);
  EXPECT_EQ(text.find("  server r5 "), std::string::npos);
}

TEST(HaproxyConfig, ChecksTokensAndSpeaksTls) {
  FrontService service = Service("chat", 8000);
  const std::string open = HaproxyConfig({"/state", "127.0.0.1", 100}, "s", {service});
  EXPECT_EQ(open.find("authorization"), std::string::npos) << "without tokens, the header is the replica's own matter";
  EXPECT_EQ(open.find("ssl"), std::string::npos);
  service.tokens = "/state/tokens-chat-1";
  service.certificate = "/state/cert-chat-1";
  const std::string text = HaproxyConfig({"/state", "127.0.0.1", 100}, "s", {service});
  EXPECT_NE(text.find("  bind 127.0.0.1:8000 ssl crt /state/cert-chat-1 ssl-min-ver TLSv1.2\n"), std::string::npos);
  EXPECT_NE(text.find("unless { http_auth_bearer,sha2(256),hex -m str -f /state/tokens-chat-1 }\n"), std::string::npos);
  EXPECT_NE(text.find("http-request del-header authorization"), std::string::npos);
  EXPECT_NE(text.find("server next 127.0.0.1:8000 disabled ssl verify none\n"), std::string::npos);
}

TEST(HaproxyConfig, ListensAtIpv6Too) {
  FrontPlace place{"/state", "0.0.0.0", 100, "::"};
  FrontService service = Service("chat", 8000);
  service.certificate = "/c";
  const std::string text = HaproxyConfig(place, "s", {service});
  EXPECT_NE(text.find("  bind 0.0.0.0:8000 ssl crt /c ssl-min-ver TLSv1.2\n"
                      "  bind [::]:8000 ssl crt /c ssl-min-ver TLSv1.2 v6only\n"),
            std::string::npos);
}

TEST(HaproxyConfig, UsersShareTheConnectionsAndServicesOfAUserShareHis) {
  std::vector<FrontService> services;
  for (std::int64_t user = 0; user < 2; ++user) {
    services.push_back(Service("chat" + std::to_string(user), 8000 + user));
    services.back().uid = 1000 + user;
  }
  const auto has = [&](std::string_view text) {
    return HaproxyConfig({"/state", "127.0.0.1", 20'000}, "s", services).find(text) != std::string::npos;
  };
  EXPECT_TRUE(
      has("  maxconn 5000\n  tcp-request connection track-sc0 int(1001) table users\n"
          "  tcp-request connection reject if { sc0_conn_cur gt 5000 }\n"));
  for (std::int64_t user = 2; user < 8; ++user) {
    services.push_back(Service("chat" + std::to_string(user), 8000 + user));
    services.back().uid = 1000 + user;
  }
  EXPECT_TRUE(has("reject if { sc0_conn_cur gt 2500 }\n")) << "no user can take the share of another";
}

TEST(HaproxyConfig, GivesACanaryItsShareOfTheRequests) {
  FrontService service = Service("chat", 8000);
  service.canary_share = 0.125;
  const std::string text = HaproxyConfig({}, "s", {service});
  EXPECT_NE(text.find("  use_backend c_chat if { rand(10000) lt 1250 } { nbsrv(c_chat) gt 0 }\n"), std::string::npos);
  EXPECT_EQ(SlotsIn(text), (std::map<std::string, std::int64_t>{{"s_chat", 4}, {"c_chat", 4}}));
  ++service.canary_revision;
  EXPECT_NE(text, HaproxyConfig({}, "s", {service})) << "another canary with the same share counts from 0";
}

TEST(HaproxyConfig, DoesNotDependOnReplicas) {
  FrontService service = Service("chat", 8000);
  const std::string before = HaproxyConfig({}, "s", {service});
  service.settings.min_replicas = 0;
  service.settings.idle_s = 1;
  EXPECT_EQ(before, HaproxyConfig({}, "s", {service})) << "a change that needs no reload";
}

TEST(HaproxyConfig, TellsItsSlots) {
  FrontService chat = Service("chat", 8000);
  chat.slots = 9;  // A replica has slot 9 from a time with more replicas.
  const auto slots = SlotsIn(HaproxyConfig({}, "s", {chat, Service("code", 8001)}));
  EXPECT_EQ(slots, (std::map<std::string, std::int64_t>{{"s_chat", 9}, {"s_code", 4}}));
}

TEST(HaproxyConfig, FindsComplaintsInAnswers) {
  EXPECT_EQ(ComplaintIn("\n\n"), "");
  EXPECT_EQ(ComplaintIn("no need to change the addr, port changed from '1' to '20001' by 'stats socket command'\n\n\n"),
            "");
  EXPECT_EQ(ComplaintIn("IP changed from '127.0.0.1' to '10.0.0.1', no need to change the port by 'stats socket "
                        "command'\n\n"),
            "");
  EXPECT_EQ(ComplaintIn("\nNo such server.\n\n"), "No such server.");
}

TEST(HaproxyConfig, CommandsChangeOnlyWhatDiffers) {
  const ServerState nothing;
  const ServerState ready{"10.0.0.1", 20'000, "ready"};
  EXPECT_EQ(ServerCommands("s_chat/r1", nothing, ready),
            "set server s_chat/r1 addr 10.0.0.1 port 20000;set server s_chat/r1 state ready;");
  EXPECT_EQ(ServerCommands("s_chat/r1", ready, {"10.0.0.1", 20'000, "drain"}), "set server s_chat/r1 state drain;");
  EXPECT_EQ(ServerCommands("s_chat/r1", ready, ready), "");
  EXPECT_EQ(ServerCommands("s_chat/r1", {"", 0, ""}, nothing), "set server s_chat/r1 state maint;") << "unknown";
}

TEST(HaproxyStat, ReadsTheColumnsByTheirTitles) {
  const auto lines = ParseStat(
      "# pxname,svname,scur,qcur,status,stot,hrsp_5xx,qtime,rtime,chkfail,\n"
      "s_chat,r1,2,0,UP,10,1,5,20,3,\n"
      "s_chat,BACKEND,7,5,UP,12,2,,,,\n\n");
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].server, "r1");
  EXPECT_EQ(lines[0].in_flight, 2);
  EXPECT_EQ(lines[0].failed_checks, 3);
  EXPECT_EQ(lines[1].in_flight, 7);
  EXPECT_EQ(lines[1].queued, 5);
  EXPECT_EQ(lines[1].errors, 2);
  EXPECT_TRUE(ParseStat("Unknown command\n").empty());
  EXPECT_TRUE(ParseStat("").empty());
}

TEST(HaproxyStat, TextOfAReplicaMovesNoColumn) {
  const auto lines = ParseStat(
      "# pxname,svname,scur,qcur,status,stot,hrsp_5xx,last_chk,qtime,rtime,chkfail,\n"
      "s_chat,r1,2,0,DOWN,10,1,\"no,\nreally \"\"no\"\"\",5,20,3,\n"
      "s_chat,r2,1,0,UP,4,0,,6,21,0,\n");
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].queue_ms, 5);
  EXPECT_EQ(lines[0].answer_ms, 20);
  EXPECT_EQ(lines[0].failed_checks, 3);
  EXPECT_EQ(lines[1].answer_ms, 21);
}

}  // namespace
}  // namespace divvy
