// Reads and writes models as GGUF files.
#ifndef CHIMERE_TRAIN_MODEL_FILE_H_
#define CHIMERE_TRAIN_MODEL_FILE_H_

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/reader.h"
#include "gguf/writer.h"
#include "model.h"
#include "tensor/dtype.h"

namespace chimere::train {

/// Types of the tensors in a file.
enum class Mix {
  kF32,
  kQ8_0,     ///< every matrix
  kShipped,  ///< Q4_0, rounded as in the last phase of training; delta-rule gates Q8_0
};
Result<Mix> parse_mix(std::string_view name);

/// Copies tokenizer.* from a file that chimere-vocabulary made (or any other GGUF).
Status copy_tokenizer(const gguf::Reader& from, gguf::Writer& to);

/// Adds a parameter under its name, in the type that the mix gives it. Errors: as write_model().
Status add_tensor(gguf::Writer& out, const std::string& name, const torch::Tensor& parameter,
                  Mix mix);

/// Writes the model with the metadata llama.cpp and Chimère expect of `qwen35moe`. Norm weights are
/// stored as the factor that multiplies, ssm_a as -exp(log rate); the output matrix is the
/// embedding and not repeated. Errors: a mix whose encoder does not exist, a row length that its
/// blocks do not divide.
Status write_model(const Model& model, const gguf::Reader& tokenizer, Mix mix,
                   const std::string& path);

/// Sets parameters from a file of any type. With `tokens`, the texts of the model's own
/// vocabulary: rows of the embedding are found by their text, and those of tokens that the file
/// lacks stay as they are. Errors: a missing or misshapen tensor.
Status read_parameters(const gguf::Reader& file, std::map<std::string, torch::Tensor>& parameters,
                       const std::vector<std::string>* tokens = nullptr);
Status read_weights(const gguf::Reader& file, Model& model,
                    const std::vector<std::string>* tokens = nullptr);

/// The model of a file of any type, decoded to f32. Errors: a missing or misshapen tensor, an
/// unknown architecture.
Result<std::unique_ptr<Model>> read_model(const gguf::Reader& file, torch::Device device,
                                          torch::Dtype compute);

}  // namespace chimere::train

#endif  // CHIMERE_TRAIN_MODEL_FILE_H_
