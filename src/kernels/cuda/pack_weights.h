// Host side of packed_layout.h: converts a weight matrix of a file to its layout in GPU memory.
#ifndef CHIMERE_KERNELS_CUDA_PACK_WEIGHTS_H_
#define CHIMERE_KERNELS_CUDA_PACK_WEIGHTS_H_

#include <cstdint>
#include <vector>

#include "kernels/cuda/packed_layout.h"
#include "tensor/view.h"

namespace chimere::kernels::cuda {

/// Bytes between rows of the packed matrix; for float types as in the file. `type` is a
/// packed_type().
int64_t packed_row_bytes(DType type, int64_t n_in);
inline int64_t packed_bytes(const WeightView& w, bool unpacked = false) {
  return w.n_out * packed_row_bytes(packed_type(w.type, unpacked), w.n_in);
}

/// Packs rows [begin, begin + count) of a matrix in host memory to `dst`, [count *
/// packed_row_bytes()]. Rows are independent: threads may pack parts of one matrix. `dst` and the
/// packed matrix on the GPU must be aligned to 16 bytes.
void pack_rows(const WeightView& w, int64_t begin, int64_t count, uint8_t* dst,
               bool unpacked = false);

/// The codebooks of all formats, as codec.h reads them, [kCodebookWords].
std::vector<uint32_t> codebook_words();

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_PACK_WEIGHTS_H_
