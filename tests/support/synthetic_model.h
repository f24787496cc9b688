// A synthetic architecture that combines sub-layers in ways that no supported model does: mixers in
// parallel, layers without mixer or network, parallel residual connections, sizes that differ from
// layer to layer, other activations and routing, multipliers.
#ifndef CHIMERE_TESTS_SUPPORT_SYNTHETIC_MODEL_H_
#define CHIMERE_TESTS_SUPPORT_SYNTHETIC_MODEL_H_

#include <memory>

#include "base/result.h"
#include "gguf/reader.h"
#include "gguf/writer.h"
#include "kernels/api.h"
#include "model/model.h"
#include "model/model_spec.h"
#include "support/tiny_model.h"

namespace chimere::test {

inline constexpr const char* kSynthetic = "synthetic";

/// Its layers, as a file of src/model/arch would list them:
///   0  gated attention with few rotated elements beside a delta net; no network
///   1  no mixer; dense network without a gate, ReLU²
///   2  attention without norms or rotation; experts chosen in groups by biased sigmoids, with an
///      ungated shared one
///   3  attention with one KV head; experts without gates, GELU
///   4  a delta net and a dense network that read the same rows
///   5  no mixer; dense network, GELU
Result<model::ModelSpec> synthetic(const model::Keys& keys);

/// A file of it with the formats, sizes and seed of `shape`; its layers and experts are fixed.
/// Errors: those of make_tiny_model().
Result<gguf::Writer> make_synthetic_model(const TinyModel& shape);

/// make_synthetic_model() if that is shape.architecture, else make_tiny_model().
Result<gguf::Writer> make_any_model(const TinyModel& shape);
/// Loads a file made by make_any_model(). Errors: those of load_model().
Result<std::unique_ptr<model::Model>> load_any_model(const gguf::Reader& file, kernels::Ops& ops,
                                                     const model::ModelOptions& options);

}  // namespace chimere::test

#endif  // CHIMERE_TESTS_SUPPORT_SYNTHETIC_MODEL_H_
