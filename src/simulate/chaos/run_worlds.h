// The loop over the worlds of a run with injected faults, for one controller and for several.
#pragma once

#include <cstdint>

namespace divvy::simulate {

/// Simulates one world after the other, with the seeds from `options.seed` on, until one breaks a guarantee or the run
/// is long enough. Adds to `result`. `on_world(seed)` is called before each world.
template <typename World, typename Options, typename Result, typename OnWorld>
void RunWorlds(const Options& options, Result& result, const OnWorld& on_world) {
  for (std::uint64_t i = 0; result.figures.steps < options.steps && (options.worlds == 0 || i < options.worlds); ++i) {
    const std::uint64_t seed = options.seed + i;
    on_world(seed);
    World world(seed, options, result.figures);
    const bool holds = world.Run();
    ++result.figures.worlds;
    if (options.traces) result.events = world.trace().Text();
    if (options.on_world_done) options.on_world_done(result.figures.steps);
    if (holds) continue;
    using Failure = typename decltype(result.failure)::value_type;
    result.failure = Failure{seed, world.trace().step, world.trace().broken(), world.trace().Text()};
    return;
  }
}

}  // namespace divvy::simulate
