// What a converter knows of a family of models: their names, the places of their tensors and the
// keys of their files. One file of families/ each; families/registry.h lists them.
#ifndef CHIMERE_CONVERT_FAMILY_H_
#define CHIMERE_CONVERT_FAMILY_H_

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "convert/config.h"
#include "convert/tensor.h"
#include "gguf/writer.h"

namespace chimere::convert {

struct NamedTensor {
  std::string name;
  Tensor tensor;
};
using NamedTensors = std::vector<NamedTensor>;

/// The tensor that a rule is applied to.
struct Site {
  const Config& config;
  int layer = -1;                    ///< -1: of no layer
  std::string name;                  ///< in the source
  std::vector<std::string> targets;  ///< the alternatives of Rule::to, complete
};

using Transform = Result<NamedTensors> (*)(const Site& site, Tensor tensor);

/// Where a tensor goes. `from` is its name without "model.", "backbone." and "language_model." in
/// front and without ".weight" or ".bias" behind, which move to `to` (a name with another end is
/// written in full). '*' stands for the number of a layer, '#' for that of an expert: all experts
/// become one tensor. `to` may name several tensors with '|' between them; "" drops the tensor. Of
/// two rules with the same `from` the later one counts.
struct Rule {
  std::string from;
  std::string to;
  Transform how = nullptr;  ///< nullptr: as it is
};
using Rules = std::vector<Rule>;

/// Writes "<architecture>.<name>".
class KeyWriter {
 public:
  KeyWriter(gguf::Writer& file, std::string architecture)
      : file_(file), architecture_(std::move(architecture)) {}
  const std::string& architecture() const { return architecture_; }
  gguf::Writer& file() { return file_; }

  void integer(std::string_view name, int64_t v) {
    file_.set_u32(key(name), static_cast<uint32_t>(v));
  }
  void integers(std::string_view name, const std::vector<int32_t>& v) {
    file_.set_i32s(key(name), v);
  }
  void number(std::string_view name, double v) { file_.set_f32(key(name), static_cast<float>(v)); }
  void flag(std::string_view name, bool v) { file_.set_bool(key(name), v); }
  void flags(std::string_view name, const std::vector<bool>& v) { file_.set_bools(key(name), v); }
  void text(std::string_view name, std::string_view v) { file_.set_string(key(name), v); }

 private:
  std::string key(std::string_view name) const { return architecture_ + "." + std::string(name); }
  gguf::Writer& file_;
  std::string architecture_;
};

struct Family {
  /// "architectures" of config.json.
  std::vector<std::string_view> classes;
  /// general.architecture.
  Result<std::string> (*architecture)(const Config& config);
  Result<Rules> (*rules)(const Config& config);
  Status (*keys)(const Config& config, KeyWriter& out);
  /// Tensors that no tensor of the source becomes; nullptr: none.
  Result<NamedTensors> (*extra)(const Config& config) = nullptr;
  /// Another name for a tensor of the source, to which the rules apply; nullptr: none.
  Result<std::string> (*rename)(const Config& config, const std::string& name) = nullptr;
  /// An output matrix with the bytes of the embeddings is left out.
  bool drop_equal_output = false;
  /// The tokenizer adds a beginning-of-text token though its files do not say so.
  bool add_bos = false;
  /// It uses the embeddings and the tokenizer of another model, and has none of its own.
  bool drafter = false;
};

// --- Transformations that several families use ---

/// x + 1: norms whose weights are stored as their difference from 1.
Result<NamedTensors> plus_one(const Site& site, Tensor tensor);
/// -exp(x): logarithms of decay rates.
Result<NamedTensors> negative_exp(const Site& site, Tensor tensor);
/// [inner] to [groups, inner / groups]: norms of state-space mixers.
Result<NamedTensors> grouped(const Site& site, Tensor tensor);
/// [n] to [n, 1].
Result<NamedTensors> column(const Site& site, Tensor tensor);
/// -exp(x), as a column.
Result<NamedTensors> negative_exp_column(const Site& site, Tensor tensor);
/// [channels, 1, taps] to [channels, taps]; a bias stays as it is.
Result<NamedTensors> convolution(const Site& site, Tensor tensor);
/// Rows (of each expert) of two tensors, one after the other: gate, then up.
Result<NamedTensors> halves(const Site& site, Tensor tensor);
/// Rows of queries or keys whose elements i and i + rotated / 2 of a head are rotated together, put
/// side by side; the elements from `rotated` on keep their places.
Result<NamedTensors> paired_rows(const Site& site, Tensor tensor, int64_t heads, int64_t rotated);
/// The same for heads that are rotated as a whole.
Result<NamedTensors> paired_queries(const Site& site, Tensor tensor);
Result<NamedTensors> paired_keys(const Site& site, Tensor tensor);

/// One result under the first target.
NamedTensors only(const Site& site, Tensor tensor);

// --- Rules and keys that several families share ---

/// Embedding, output and final norm.
void add_ends(Rules& rules);
/// "self_attn.": projections, norms of queries and keys.
void add_attention(Rules& rules, bool paired = false);
/// "layers.*.<module>.": gate, up, down.
void add_dense(Rules& rules, std::string_view module = "mlp");
/// Mamba 2 mixers, as "layers.*.<mixer>." of the source.
void add_mamba2(Rules& rules, std::string_view mixer);
/// "mlp.": a router and experts, as single matrices and as one tensor; a shared expert.
void add_qwen_experts(Rules& rules);

/// Keys of every transformer: sizes, heads, rotary positions, experts.
Status write_text_keys(const Config& config, KeyWriter& out);
/// "rope.scaling." for a type that one of the engine's keys describes. Error: kUnsupported.
Status write_rope_keys(const Config& config, KeyWriter& out);
/// The factors of llama3's scaling, as "rope_freqs.weight"; empty for other types.
Result<NamedTensors> rope_factors(const Config& config);

}  // namespace chimere::convert

#endif  // CHIMERE_CONVERT_FAMILY_H_
