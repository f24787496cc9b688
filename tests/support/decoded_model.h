// The same model with every weight decoded to f32.
#ifndef CHIMERE_TESTS_SUPPORT_DECODED_MODEL_H_
#define CHIMERE_TESTS_SUPPORT_DECODED_MODEL_H_

#include "base/result.h"
#include "gguf/reader.h"
#include "gguf/writer.h"

namespace chimere::test {

/// Any program computes with the exact values that the quantised weights stand for, and without
/// rounding activations. Tensors are decoded as they are written, so `in` must outlive the writer.
/// Errors: those of Writer::add_tensor().
Result<gguf::Writer> decode_model(const gguf::Reader& in);

}  // namespace chimere::test

#endif  // CHIMERE_TESTS_SUPPORT_DECODED_MODEL_H_
