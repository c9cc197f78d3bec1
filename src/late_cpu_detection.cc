// Lets OpenSSL detect the features of the CPU when it is first used, instead of whenever the program starts.
//
// The bundled library does both. Each CPUID instruction ends in the hypervisor on a virtual machine, and the detection
// at the start was 9 % of the CPU time of `divvy version` there. The linker redirects calls of OPENSSL_cpuid_setup to
// this file (--wrap). Until the detection, OpenSSL uses code for every CPU.

extern "C" void __real_OPENSSL_cpuid_setup();

/// The first call comes from the start of the program, the second from OPENSSL_init_crypto.
extern "C" void __wrap_OPENSSL_cpuid_setup() {
  static bool has_started = false;
  if (has_started) __real_OPENSSL_cpuid_setup();
  has_started = true;
}
