#include "model/steps/gang_environment.h"

#include <algorithm>

#include "base/text.h"

namespace divvy {
namespace {

/// "n1;n1,n2": the nodes of each component.
std::string ComponentNodes(const GangFile& gang) {
  std::vector<std::string> components;
  for (std::size_t i = 0; i < gang.components(); ++i) {
    std::vector<std::string> names;
    for (const GangMember& member : gang.members) {
      for (const ComponentAllocation& part : member.parts) {
        if (static_cast<std::size_t>(part.component) == i) names.push_back(member.name());
      }
    }
    components.push_back(Join(names, ","));
  }
  return Join(components, ";");
}

}  // namespace

int GangPort(std::uint64_t job, std::uint64_t step) { return static_cast<int>(10'000 + (job * 13 + step) % 20'000); }

std::string OpenMpiHosts(const GangFile& gang) {
  std::string text;
  for (const GangMember& member : gang.members)
    text += member.name() + " slots=" + std::to_string(std::max(member.tasks, 1)) + "\n";
  return text;
}

std::string HydraHosts(const GangFile& gang) {
  std::string text;
  for (const GangMember& member : gang.members)
    text += member.name() + ":" + std::to_string(std::max(member.tasks, 1)) + "\n";
  return text;
}

std::vector<std::string> GangEnvironment(const GangFile& gang, const std::string& steps) {
  std::vector<std::string> names;
  std::vector<std::string> hosts;
  for (const GangMember& member : gang.members) {
    names.push_back(member.name());
    hosts.push_back(member.address.host);
  }
  const std::string count = std::to_string(gang.members.size());
  const std::string own = std::to_string(gang.own);
  const std::string nodes = Join(names, ",");
  const std::string agent = steps + ".rsh";
  std::vector<std::string> out = {
      "DIVVY_NODES=" + nodes,
      "DIVVY_HOSTS=" + Join(hosts, ","),
      "DIVVY_NODE_COUNT=" + count,
      "DIVVY_NODE_RANK=" + own,
      "NNODES=" + count,
      "NODE_RANK=" + own,
      "MASTER_ADDR=" + gang.members.front().address.host,
      "MASTER_PORT=" + std::to_string(GangPort(gang.job, 0)),
      // Variables for OpenMPI up to 4, and for 5, whose runtime has another name: start processes over rsh, because
      // their support for Slurm would look for a real Slurm.
      "OMPI_MCA_plm=rsh",
      "OMPI_MCA_plm_rsh_agent=" + agent,
      "OMPI_MCA_orte_default_hostfile=" + steps + ".hosts",
      "PRTE_MCA_plm=ssh",
      "PRTE_MCA_plm_ssh_agent=" + agent,
      "PRTE_MCA_prte_default_hostfile=" + steps + ".hosts",
      // The same for MPICH and Intel MPI.
      "HYDRA_LAUNCHER=rsh",
      "HYDRA_LAUNCHER_EXEC=" + agent,
      "HYDRA_HOST_FILE=" + steps + ".machines",
      "HYDRA_RMK=user",
      "I_MPI_HYDRA_BOOTSTRAP=rsh",
      "I_MPI_HYDRA_BOOTSTRAP_EXEC=" + agent,
      "I_MPI_HYDRA_HOST_FILE=" + steps + ".machines",
      "I_MPI_HYDRA_RMK=user",
  };
  if (gang.components() < 2) return out;
  out.push_back("DIVVY_COMPONENTS=" + std::to_string(gang.components()));
  out.push_back("DIVVY_COMPONENT_NODES=" + ComponentNodes(gang));
  return out;
}

}  // namespace divvy
