// One world of a chaos run: a node, its daemon (which may be down) and its users. It makes one random step at a time,
// and checks the guarantees after each step. Then the faults stop, and every job that can run must end within a bounded
// time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "simulate/chaos/chaos.h"
#include "simulate/chaos/chaos_clients.h"
#include "simulate/chaos/chaos_ledger.h"
#include "simulate/chaos/chaos_machine.h"
#include "simulate/chaos/daemon_life.h"

namespace divvy::simulate {

class ChaosWorld {
 public:
  ChaosWorld(std::uint64_t seed, const ChaosOptions& options, ChaosFigures& figures);

  /// Makes all steps of this simulated world and the final checks. Returns false if a guarantee was broken; see
  /// trace().broken().
  bool Run();
  /// Makes one random step, which may be a fault. The last part of a world has no more faults.
  void Step();
  const ChaosTrace& trace() const { return trace_; }

 private:
  /// The rates of faults in one world. Drawn once, so that some worlds are nearly calm and others hardly work.
  struct Temper {
    std::uint64_t steps = 0;
    std::uint64_t faults = 0;    // Per 1000 steps.
    std::uint64_t commands = 0;  // Per 1000 steps.
    std::uint64_t crashes = 0;   // Percent of the faults.
    bool has_reboots = false;
    bool has_clock_jumps = false;
    bool has_full_disks = false;
    // Time-sharing is on, the daemon is never killed, and time passes only when nothing is left to do.
    bool keeps_contracts = false;
  };

  Temper DrawTemper();
  void SwitchOnTimeSharing(Random random);
  static int DrawGpus(Random& random) { return static_cast<int>(1 + random.Below(random.Below(2) == 0 ? 4 : 8)); }
  bool Deliver();
  void DeliverReport();
  void DeliverPresence();
  std::size_t Index(std::size_t count);
  void Poll();
  void ObserveGpus();
  void PassTime();
  Time NextTimer() const;
  /// Returns true if neither the controller nor the node has a timer that is still to come.
  bool HasNothingDue() const;
  void Fault();
  void NodeFault(std::uint64_t draw);
  void Crash();
  void BuryDaemon();
  void StartDaemon();
  void Prune();
  /// Delivers all messages that are under way, without advancing time. Then checks that daemon and node agree.
  void Settle();
  void CheckAgreement();
  bool Drain();
  void CheckEnd();
  void AfterStep(bool is_thorough);
  /// Checks that no job has lost more than its contract allows.
  void CheckContracts();

  ChaosOptions options_;
  ChaosFigures& figures_;
  Random random_;
  ChaosClock clock_;
  ChaosTrace trace_;
  ChaosMachine machine_;
  MemoryStore store_;
  ChaosLedger ledger_;
  ChaosParts parts_;
  Temper temper_;
  Time parking_messages_since_ = kNoTime;  // Messages between controller and keeper have been in transit since then.
  Policy policy_;
  TimeSharingSettings contract_;  // The contract with jobs. Only a mutation makes the policy differ from it.
  Limits limits_;
  ChaosClients clients_;
  std::unique_ptr<DaemonLife> daemon_;
  bool launcher_died_ = false;
  bool is_calm_ = false;
  int full_commits_ = 0;  // The disk refuses this many more commits.
};

}  // namespace divvy::simulate
