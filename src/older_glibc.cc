// Lets the program run on glibc 2.34 (Ubuntu 22.04, RHEL 9) although it is built with a newer one. The bundled C++
// library calls one function that came with 2.36. divvy itself draws no random numbers through it.
#include <sys/random.h>

#include <cstdint>
#include <cstdlib>

extern "C" std::uint32_t arc4random() noexcept {
  std::uint32_t number = 0;
  if (getrandom(&number, sizeof number, 0) != sizeof number) std::abort();
  return number;
}
