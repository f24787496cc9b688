// Host side of packed_layout.h: a weight matrix of a file as it lies on the card.
#ifndef CHIMERE_KERNELS_CUDA_PACK_WEIGHTS_H_
#define CHIMERE_KERNELS_CUDA_PACK_WEIGHTS_H_

#include <cstdint>
#include <vector>

#include "kernels/cuda/packed_layout.h"
#include "tensor/view.h"

namespace chimere::kernels::cuda {

/// Bytes from one row of the packed matrix to the next; for float types the file's own. `type` is
/// a packed_type().
int64_t packed_row_bytes(DType type, int64_t n_in);
inline int64_t packed_bytes(const WeightView& w, bool unpacked = false) {
  return w.n_out * packed_row_bytes(packed_type(w.type, unpacked), w.n_in);
}

/// Packs rows [begin, begin + count) of a matrix in host memory to `dst`
/// [count * packed_row_bytes()]. Rows are independent: threads may share a matrix. `dst` must be
/// aligned to 16 bytes, as must the packed matrix on the card.
void pack_rows(const WeightView& w, int64_t begin, int64_t count, uint8_t* dst,
               bool unpacked = false);

/// The codebooks of all formats in the form that codec.h reads, [kCodebookWords]. Uploaded once.
std::vector<uint32_t> codebook_words();

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_PACK_WEIGHTS_H_
