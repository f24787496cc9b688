// Decodes all weights of a model to f32.
#ifndef CHIMERE_TESTS_SUPPORT_DECODED_MODEL_H_
#define CHIMERE_TESTS_SUPPORT_DECODED_MODEL_H_

#include "base/result.h"
#include "gguf/reader.h"
#include "gguf/writer.h"

namespace chimere::test {

/// Adds the tensors of `in` to a writer, decoded to f32: the reference for quantised weights,
/// without rounded activations. Tensors are decoded while they are written, so `in` must outlive
/// the writer. Errors: those of Writer::add_tensor().
Result<gguf::Writer> decode_model(const gguf::Reader& in);

}  // namespace chimere::test

#endif  // CHIMERE_TESTS_SUPPORT_DECODED_MODEL_H_
