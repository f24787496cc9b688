// How much each format changes a tensor, estimated from some of its rows.
#ifndef CHIMERE_QUANTIZE_TYPE_ERRORS_H_
#define CHIMERE_QUANTIZE_TYPE_ERRORS_H_

#include <span>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "gguf/reader.h"
#include "quantize/plan.h"
#include "tensor/dtype.h"

namespace chimere::quantize {

/// Formats that an allocation chooses from for rows of n_in elements, none with fewer bits than
/// `floor` (F32 stands for no floor), by rising bits.
std::vector<DType> candidate_types(int64_t n_in, DType floor);

/// For each of `types` the relative error of the outputs, Σ w (x - q)² / Σ w x², with the mean
/// squares w of the inputs (`importance` [matrices, n_in]) or, without them, for white inputs.
/// Encodes at most `sample` elements in whole rows, spread evenly over the tensor. Errors: kIo,
/// kInvalidData.
Result<std::vector<double>> type_errors(const gguf::Reader& file, const PlannedTensor& tensor,
                                        std::span<const float> importance,
                                        std::span<const DType> types, int64_t sample,
                                        ThreadPool& pool);

}  // namespace chimere::quantize

#endif  // CHIMERE_QUANTIZE_TYPE_ERRORS_H_
