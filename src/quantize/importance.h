// Importance matrices: how large the inputs of each weight matrix are, as llama.cpp's
// llama-imatrix measures and stores them (a GGUF file; docs/quantize.md describes it).
#ifndef CHIMERE_QUANTIZE_IMPORTANCE_H_
#define CHIMERE_QUANTIZE_IMPORTANCE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/reader.h"

namespace chimere::quantize {

/// The inputs x of one tensor's products.
struct InputStatistics {
  int64_t n_in = 0;
  std::vector<float> sums;    ///< [matrices, n_in] of x²
  std::vector<float> counts;  ///< [matrices] rows of x
};

struct ImportanceMatrix {
  std::map<std::string, InputStatistics, std::less<>> tensors;
  std::vector<std::string> datasets;  ///< names of the texts
  uint32_t chunks = 0;
  uint32_t chunk_size = 0;  ///< in tokens

  /// Mean x² of a tensor with `matrices` matrices, [matrices, n_in]; empty if the statistics lack
  /// the tensor. A matrix (an expert) with few samples gets the mean of all matrices, with the
  /// weight of kSharedSamples samples; one without any gets that mean alone. Inputs that were
  /// always 0 get a small weight, so that none is ignored. Errors: kInvalidData (another shape, no
  /// finite numbers).
  Result<std::vector<float>> weights(std::string_view tensor, int64_t n_in, int64_t matrices) const;
  static constexpr double kSharedSamples = 8;
};

/// Reads a file of llama-imatrix or of save_importance(). Errors: kInvalidData (not such a file,
/// damaged), those of gguf::Reader::open().
Result<ImportanceMatrix> load_importance(const std::string& path);
Result<ImportanceMatrix> read_importance(const gguf::Reader& file);

/// Writes it so that llama-quantize reads it too. Errors: kIo.
Status save_importance(const ImportanceMatrix& importance, const std::string& path);

}  // namespace chimere::quantize

#endif  // CHIMERE_QUANTIZE_IMPORTANCE_H_
