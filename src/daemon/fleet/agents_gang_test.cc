// A gang's node allocations between controller and agent: launch, prepared and go, across disconnects and restarts.
#include "daemon/fleet/agents_test_pair.h"

namespace divvy {
namespace agents_gang_test {

using Words = std::vector<std::string>;
using AgentGangs = AgentsWorld;

TEST_F(AgentGangs, AGangMemberIsPreparedAndStarts) {
  registry_->SetOwn("ctl", {});
  StartAgent();
  Settle();
  fleet_.Take();
  LaunchPart(5);
  Settle();
  EXPECT_EQ(machine_.commands, Words{"launch 5 1 of ctl,n1 by key5.1"});
  EXPECT_EQ(fleet_.Take(), Words{"prepared n1 5.1"});
  EXPECT_EQ(fleet_.prepared_at[Job(5)], 40001);
  fleet_.ports["n1"]->Execute(GoCommand{Job(5), 1, {{"10.0.0.1", 7}, {"10.0.0.9", 40001}}, "n1"}, nullptr);
  Settle();
  EXPECT_EQ(machine_.commands.back(), "go 5 10.0.0.1:7 10.0.0.9:40001");
  EXPECT_EQ(fleet_.Take(), Words{"started n1 5.1"});
}

TEST_F(AgentGangs, APreparedMemberReportsItselfAgainToARestartedController) {
  StartAgent();
  Settle();
  LaunchPart(5);
  Settle();
  fleet_.Take();
  KillAgent();
  StartAgent("n1", "");
  Settle();
  EXPECT_EQ(fleet_.Take(), (Words{"joined n1 gpus=2", "prepared n1 5.1", "accounted n1"}));
  KillController();
  StartController();
  Pass(20s);
  EXPECT_EQ(fleet_.Take(), (Words{"joined n1 gpus=2", "prepared n1 5.1", "accounted n1"}));
  // Reports about a job that the agent does not have are ignored.
  agent_->session->OnPrepared(Job(6), 1, 5);
  agent_->session->OnPrepared(Job(5), 2, 5);
  Settle();
  EXPECT_EQ(fleet_.Take(), Words());
}

}  // namespace agents_gang_test
}  // namespace divvy
