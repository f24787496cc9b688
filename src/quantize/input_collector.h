// Sums the squares of each weight matrix's inputs while a model runs.
#ifndef CHIMERE_QUANTIZE_INPUT_COLLECTOR_H_
#define CHIMERE_QUANTIZE_INPUT_COLLECTOR_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "gguf/reader.h"
#include "quantize/importance.h"
#include "runtime/loaded_model.h"
#include "tensor/view.h"

namespace chimere::quantize {

/// Finds tensors by the addresses of their bytes, so the model must read its weights where the
/// reader mapped them (CPU, experts not unpacked). Inputs of matrices that a model copied at
/// loading are not counted.
class InputCollector {
 public:
  explicit InputCollector(const gguf::Reader& file);

  /// For ObserveInputs.
  void observe(const void* weights, ConstMatrixView x);
  /// The sums up to now. Tensors without any input are left out.
  ImportanceMatrix importance() const;

 private:
  struct Sums {
    const gguf::TensorInfo* tensor;
    int64_t matrix_bytes;
    bool experts;                 ///< counts for each matrix of the tensor
    std::vector<double> squares;  ///< [matrices, n_in]; empty: no input yet
    std::vector<int64_t> rows;    ///< [matrices]
  };
  std::vector<Sums> sums_;  ///< by rising address
};

/// Runs the text through the model in windows of `window` tokens, each a sequence of its own, for
/// the collector that observes it. `progress` receives the tokens done. Errors: kInvalidArgument
/// (less than one window of text), those of forward().
Status run_windows(const runtime::LoadedModel& model, std::span<const int32_t> tokens,
                   int64_t window, const std::function<void(int64_t)>& progress);

}  // namespace chimere::quantize

#endif  // CHIMERE_QUANTIZE_INPUT_COLLECTOR_H_
