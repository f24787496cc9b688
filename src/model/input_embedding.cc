#include "model/input_embedding.h"

#include <algorithm>
#include <string>

#include "model/model_spec.h"
#include "model/weight_binder.h"
#include "quant/quant.h"

namespace chimere::model {
namespace {

std::vector<float> decoded(const WeightView& table) {
  std::vector<float> values(static_cast<size_t>(table.n_out * table.n_in));
  for (int64_t r = 0; r < table.n_out; ++r) {
    quant::decode(table.type, table.row(r), values.data() + r * table.n_in, table.n_in);
  }
  return values;
}

}  // namespace

InputEmbedding InputEmbedding::bind(const ModelSpec& model, const WeightView& tokens,
                                    WeightBinder& weights) {
  InputEmbedding input;
  input.tokens_ = tokens;
  if (!model.encoder) return input;
  const std::string types = "token_types.weight";
  const std::string positions = "position_embd.weight";
  if (weights.has(types)) {
    const int64_t n = std::clamp<int64_t>(weights.rows_of(types), 1, 2);
    input.types_ = decoded(weights.table(types, n, model.n_embd));
  }
  if (model.position_embeddings) {
    input.positions_ = decoded(weights.table(positions, model.context_length, model.n_embd));
  }
  return input;
}

Status InputEmbedding::check_segment(int32_t begin, size_t n) const {
  if (!has_segments()) return invalid_argument("this model has no second segment");
  if (begin > 0 && static_cast<size_t>(begin) < n) return {};
  return invalid_argument("the second segment begins at row " + std::to_string(begin) + " of " +
                          std::to_string(n));
}

Result<std::vector<float>> InputEmbedding::rows(std::span<const int32_t> tokens, int32_t first,
                                                int32_t second_segment) const {
  const int64_t n = tokens_.n_in;
  const auto last = static_cast<int64_t>(first) + static_cast<int64_t>(tokens.size());
  if (!positions_.empty() && last * n > static_cast<int64_t>(positions_.size())) {
    return invalid_argument(
        "a text of " + std::to_string(last) + " tokens; the model has embeddings of " +
        std::to_string(static_cast<int64_t>(positions_.size()) / n) + " positions");
  }
  std::vector<float> out(tokens.size() * static_cast<size_t>(n));
  for (size_t r = 0; r < tokens.size(); ++r) {
    if (tokens[r] < 0 || tokens[r] >= tokens_.n_out) {
      return invalid_argument("token " + std::to_string(tokens[r]) +
                              " is not in the vocabulary of " + std::to_string(tokens_.n_out));
    }
    float* const row = out.data() + r * static_cast<size_t>(n);
    quant::decode(tokens_.type, tokens_.row(tokens[r]), row, n);
    const bool second = second_segment > 0 && r >= static_cast<size_t>(second_segment);
    const float* const type = types_.empty() ? nullptr : types_.data() + (second ? n : 0);
    for (int64_t i = 0; type != nullptr && i < n; ++i) row[i] += type[i];
    if (positions_.empty()) continue;
    const float* const position =
        positions_.data() + (static_cast<size_t>(first) + r) * static_cast<size_t>(n);
    for (int64_t i = 0; i < n; ++i) row[i] += position[i];
  }
  return out;
}

}  // namespace chimere::model
