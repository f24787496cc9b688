#include "kernels/cpu/vector/functions.h"

namespace chimere::kernels::cpu::CHIMERE_ISA {
namespace {

VectorKernels collect() {
  VectorKernels k = {};
  k.rms_norm = rms_norm;
  k.layer_norm = layer_norm;
  k.gated_rms_norm = gated_rms_norm;
  k.conv = conv;
  k.fold_conv = fold_conv;
  k.scan_step = scan_step;
  k.fold_scan = fold_scan;
  k.scan_chunk = scan_chunk;
  k.ssd_step = ssd_step;
  k.ssd_fold = ssd_fold;
  k.ssd_products = ssd_products;
  k.ssd_chunk = ssd_chunk;
  k.selective_step = selective_step;
  k.selective_fold = selective_fold;
  k.norm_rope = norm_rope;
  add_append_kernels(k);
  add_attend_kernels(k);
  k.fold_part = fold_part;
  k.fold_sink = fold_sink;
  k.finish_part = finish_part;
  k.attend_sequence = attend_sequence;
  k.route = route;
  return k;
}

}  // namespace

const VectorKernels& vector_kernels() {
  static const VectorKernels kernels = collect();
  return kernels;
}

}  // namespace chimere::kernels::cpu::CHIMERE_ISA
