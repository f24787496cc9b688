// The time a test may judge: what this process computed, not what other processes let it wait.
#ifndef CHIMERE_BASE_TEST_CPU_SECONDS_H_
#define CHIMERE_BASE_TEST_CPU_SECONDS_H_

#include <ctime>

namespace chimere {

/// Processor time of all threads of this process, in seconds.
inline double test_cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

}  // namespace chimere

#endif  // CHIMERE_BASE_TEST_CPU_SECONDS_H_
