#include "daemon/notify/deliver.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "wire/messages/codec.h"

namespace divvy {
namespace deliver_test {

using wire::DeliveryOrder;
using wire::DeliveryResult;

class DeliverTest : public testing::Test {
 protected:
  DeliverTest() {
    std::string pattern = testing::TempDir() + "divvy-deliver-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    ::chmod(folder_.c_str(), 0777);
    order_.channel = "command";
    order_.event = "fail";
    order_.id = "ntc_1";
    order_.body = R"({"id":"ntc_1"})";
    order_.time_limit_s = 20;
  }
  ~DeliverTest() override { static_cast<void>(!std::system(("rm -rf " + folder_).c_str())); }

  /// Runs in a child process, because a delivery may change its user, and kills its child processes.
  DeliveryResult Deliver() {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      const std::string answer = wire::Encode(divvy::Deliver(order_, TimeFromSeconds(1'790'000'000)));
      static_cast<void>(!::write(ends[1], answer.data(), answer.size()));
      ::_exit(0);
    }
    ::close(ends[1]);
    std::string answer;
    std::array<char, 4096> room{};
    for (ssize_t got = 0; (got = ::read(ends[0], room.data(), room.size())) > 0;)
      answer.append(room.data(), static_cast<std::size_t>(got));
    ::close(ends[0]);
    ::waitpid(child, nullptr, 0);
    return wire::Decode<DeliveryResult>(answer).value_or(DeliveryResult{false, false, 0, "no answer: " + answer});
  }
  std::string Read(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(folder_ + "/" + name).rdbuf();
    return text.str();
  }

  std::string folder_;
  DeliveryOrder order_;
};

TEST_F(DeliverTest, ACommandReceivesTheNotice) {
  order_.target = "cat >" + folder_ + "/in; echo \"$DIVVY_EVENT $DIVVY_TEXT\" >" + folder_ + "/env";
  order_.environment = {"DIVVY_TEXT=job 17; $(touch " + folder_ + "/bad)"};
  const DeliveryResult result = Deliver();
  EXPECT_TRUE(result.is_done) << result.message;
  EXPECT_EQ(Read("in"), order_.body + "\n");
  EXPECT_EQ(Read("env"), "fail job 17; $(touch " + folder_ + "/bad)\n");
  EXPECT_NE(::access((folder_ + "/bad").c_str(), F_OK), 0);
}

TEST_F(DeliverTest, ACommandsExitStatusIsReported) {
  order_.target = "echo no such host >&2; exit 3";
  DeliveryResult result = Deliver();
  EXPECT_FALSE(result.is_done);
  EXPECT_FALSE(result.may_try_again);
  EXPECT_EQ(result.message, "the command ended with exit code 3: no such host");
  order_.target = "exit 75";
  EXPECT_TRUE(Deliver().may_try_again) << "EX_TEMPFAIL";
}

TEST_F(DeliverTest, ASlowCommandIsKilledWithAllItsChildren) {
  order_.time_limit_s = 1;
  order_.target = "(setsid sleep 300 & echo $! >" + folder_ + "/pid); sleep 300";
  const DeliveryResult result = Deliver();
  EXPECT_FALSE(result.is_done);
  EXPECT_TRUE(result.may_try_again);
  EXPECT_NE(result.message.find("took too long"), std::string::npos) << result.message;
  const int pid = std::stoi(Read("pid"));
  EXPECT_NE(::kill(pid, 0), 0) << "what it left behind is gone";
}

TEST_F(DeliverTest, DeliveryRunsWithItsUsersRights) {
  if (::geteuid() != 0) GTEST_SKIP() << "takes root";
  order_.run_as = "nobody";
  order_.target = "id -u >" + folder_ + "/uid; id -G >" + folder_ + "/groups; cat /etc/shadow";
  const DeliveryResult result = Deliver();
  EXPECT_FALSE(result.is_done) << "root's file was read";
  EXPECT_EQ(Read("uid"), "65534\n");
  EXPECT_EQ(Read("groups").find("0 "), std::string::npos) << Read("groups");
  order_.uid = 1;
  EXPECT_NE(Deliver().message.find("has the uid 65534 now, but had 1"), std::string::npos);
  order_.run_as = "nobody-of-that-name";
  EXPECT_NE(Deliver().message.find("this machine has no user"), std::string::npos);
}

TEST_F(DeliverTest, MailIsSentThroughSendmail) {
  order_.channel = "mail";
  order_.target = "ada@example.org";
  order_.from = "divvy@example.org";
  order_.subject = "divvy: job 17 (a\nBcc: eve@example.org) failed";
  order_.body = "job 17 failed\n.\nafter a dot\n";
  order_.sendmail = folder_ + "/sendmail";
  EXPECT_TRUE(Deliver().may_try_again) << "there is none yet";
  std::ofstream(order_.sendmail) << "#!/bin/sh\n{ echo \"$@\"; cat; } >" << folder_ << "/mail\n";
  ::chmod(order_.sendmail.c_str(), 0755);
  const DeliveryResult result = Deliver();
  EXPECT_TRUE(result.is_done) << result.message;
  const std::string mail = Read("mail");
  EXPECT_TRUE(
      mail.starts_with("-t -i -f divvy@example.org\nTo: ada@example.org\n"
                       "Subject: divvy: job 17 (a Bcc: eve@example.org) failed\n"
                       "Date: Mon, 21 Sep 2026 14:13:20 +0000\n"))
      << mail;
  EXPECT_NE(mail.find("\nMessage-ID: <" + order_.id + "@divvy.invalid>\n"), std::string::npos) << mail;
  EXPECT_NE(mail.find("\n\njob 17 failed\n.\nafter a dot\n"), std::string::npos) << mail;
}

TEST_F(DeliverTest, MailIsDeliveredByABackgroundProcessOfSendmail) {
  order_.channel = "mail";
  order_.target = "ada@example.org";
  order_.sendmail = folder_ + "/sendmail";
  // The background process finishes only after sendmail and its caller have ended, as on a mail server.
  std::ofstream(order_.sendmail) << "#!/bin/sh\n"
                                    "cat >"
                                 << folder_ << "/queued\nsetsid sh -c 'read line <" << folder_ << "/gate; mv "
                                 << folder_ << "/queued " << folder_ << "/sent; echo >" << folder_
                                 << "/done' </dev/null >/dev/null 2>&1 &\n";
  ::chmod(order_.sendmail.c_str(), 0755);
  for (const char* pipe : {"/gate", "/done"}) ASSERT_EQ(::mkfifo((folder_ + pipe).c_str(), 0666), 0);
  const DeliveryResult result = Deliver();
  EXPECT_TRUE(result.is_done) << result.message;
  ASSERT_TRUE(Read("sent").empty());
  // Non-blocking: if no process reads any more, this fails.
  const int gate = ::open((folder_ + "/gate").c_str(), O_RDWR | O_NONBLOCK);
  const int done = ::open((folder_ + "/done").c_str(), O_RDWR | O_NONBLOCK);
  ASSERT_EQ(::write(gate, "\n", 1), 1);
  pollfd waited{done, POLLIN, 0};
  EXPECT_EQ(::poll(&waited, 1, 10'000), 1) << "what sendmail left behind was killed";
  EXPECT_NE(Read("sent").find("To: ada@example.org"), std::string::npos);
  ::close(gate);
  ::close(done);
}

TEST_F(DeliverTest, ASubjectWithSpecialCharactersIsEncoded) {
  order_.channel = "mail";
  order_.target = "ada@example.org";
  order_.subject = "divvy: job 17 (\xc3\xa4) failed";
  const std::string mail = MailText(order_, TimeFromSeconds(0));
  EXPECT_NE(mail.find("Subject: =?UTF-8?B?ZGl2dnk6IGpvYiAxNyAow6QpIGZhaWxlZA==?=\n"), std::string::npos) << mail;
}

TEST_F(DeliverTest, AnUnreachableWebhookIsRetried) {
  order_.channel = "webhook";
  order_.target = "http://127.0.0.1:1/";
  EXPECT_TRUE(Deliver().may_try_again);
  order_.may_go_inside = false;
  const DeliveryResult result = Deliver();
  EXPECT_FALSE(result.may_try_again) << "it may never go there";
  EXPECT_NE(result.message.find("is a private address"), std::string::npos) << result.message;
  for (const int status : {408, 425, 429, 500, 503}) EXPECT_TRUE(MayTryAgain(status)) << status;
  for (const int status : {301, 400, 401, 404, 410}) EXPECT_FALSE(MayTryAgain(status)) << status;
}

}  // namespace deliver_test
}  // namespace divvy
