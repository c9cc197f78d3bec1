// One world of a chaos run: a server, its daemon (or none at the moment) and its people, moved by one random step at a
// time; every step is followed by the checks. After its steps the faults stop, and within a bounded time every job that
// can run must have ended.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "simulate/chaos/chaos.h"
#include "simulate/chaos/chaos_clients.h"
#include "simulate/chaos/chaos_daemon.h"
#include "simulate/chaos/chaos_ledger.h"
#include "simulate/chaos/chaos_machine.h"

namespace divvy::simulate {

class ChaosWorld {
 public:
  ChaosWorld(std::uint64_t seed, const ChaosOptions& options, ChaosFigures& figures);

  /// All of its steps, and its end. False: trace().broken() says what does not hold.
  bool Run();
  /// One step of the chaotic part.
  void Step();
  const ChaosTrace& trace() const { return trace_; }

 private:
  /// How often what goes wrong, in one world: drawn once, so that some worlds are nearly calm and others hardly run.
  struct Temper {
    std::uint64_t steps = 0;
    std::uint64_t faults = 0;    // Of 1000 steps.
    std::uint64_t commands = 0;  // Of 1000 steps.
    std::uint64_t crashes = 0;   // Of 100 faults.
    bool has_reboots = false;
    bool has_clock_jumps = false;
    bool has_full_disks = false;
  };

  Temper DrawTemper();
  static int DrawGpus(Random& random) { return static_cast<int>(1 + random.Below(random.Below(2) == 0 ? 4 : 8)); }
  bool Deliver();
  void DeliverReport();
  std::size_t Index(std::size_t count);
  void Poll();
  void PassTime();
  Time NextTimer() const;
  void Fault();
  void NodeFault(std::uint64_t draw);
  void Crash();
  void BuryDaemon();
  void StartDaemon();
  void Prune();
  /// Lets all that is on its way arrive, without time passing; then daemon and server must say the same.
  void Settle();
  void CheckAgreement();
  bool Drain();
  void CheckEnd();
  void AfterStep(bool is_thorough);

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
  Policy policy_;
  Limits limits_;
  ChaosClients clients_;
  std::unique_ptr<ChaosDaemon> daemon_;
  bool launcher_died_ = false;
  bool is_calm_ = false;
  int full_commits_ = 0;  // So many more are refused by the disk.
};

}  // namespace divvy::simulate
