// The largest logits of rows on the CPU: Ops::top_logits.
#ifndef CHIMERE_KERNELS_CPU_TOP_LOGITS_H_
#define CHIMERE_KERNELS_CPU_TOP_LOGITS_H_

#include "base/thread_pool.h"
#include "kernels/api.h"

namespace chimere::kernels::cpu {

/// Threads share the vocabulary.
void top_logits(ThreadPool& pool, ConstMatrixView logits, TopLogits top);

}  // namespace chimere::kernels::cpu

#endif  // CHIMERE_KERNELS_CPU_TOP_LOGITS_H_
