// Keeps the program running on glibc 2.34 (Ubuntu 22.04, RHEL 9), though it is built where there is a newer one: the
// C++ library that it carries has one call in it that came with 2.36. Nothing of divvy draws numbers through it.
#include <sys/random.h>

#include <cstdint>
#include <cstdlib>

extern "C" std::uint32_t arc4random() noexcept {
  std::uint32_t number = 0;
  if (getrandom(&number, sizeof number, 0) != sizeof number) std::abort();
  return number;
}
