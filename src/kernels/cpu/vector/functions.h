// The functions of cpu/vector that VectorKernels points to, for one instruction set.
#ifndef CHIMERE_KERNELS_CPU_VECTOR_FUNCTIONS_H_
#define CHIMERE_KERNELS_CPU_VECTOR_FUNCTIONS_H_

#include <cstdint>

#include "kernels/cpu/simd.h"
#include "kernels/cpu/vector_kernels.h"

namespace chimere::kernels::cpu::CHIMERE_ISA {

void rms_norm(const float* x, const float* weight, float eps, int64_t n, float* y);
void layer_norm(const float* x, const float* weight, const float* bias, float eps, int64_t n,
                float* y);
void gated_rms_norm(const float* x, const float* z, const float* weight, float eps, int64_t n,
                    float* y);
void norm_rope(const NormRope& u);
void conv(const ConvUnit& u);
void fold_conv(const ConvFold& u);
void scan_step(const ScanUnit& u);
void fold_scan(const ScanFold& u);
void scan_chunk(const ScanUnit& u);
void ssd_step(const SsdStep& s);
void ssd_fold(const SsdStep& s);
void ssd_products(const SsdProducts& p);
void ssd_chunk(const SsdChunk& s);
void selective_step(const SelectiveStep& s);
void selective_fold(const SelectiveStep& s);
void add_append_kernels(VectorKernels& kernels);
void add_attend_kernels(VectorKernels& kernels);
void fold_part(const float* next, int head_dim, float* all);
void fold_sink(float sink, int head_dim, float* all);
void finish_part(const float* part, const float* gate, int head_dim, bool hadamard, float* out);
void attend_sequence(const SequenceUnit& u);
void route(const RouteUnit& u);

}  // namespace chimere::kernels::cpu::CHIMERE_ISA

#endif  // CHIMERE_KERNELS_CPU_VECTOR_FUNCTIONS_H_
