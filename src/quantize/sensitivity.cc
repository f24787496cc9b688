#include "quantize/sensitivity.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/byte_amount.h"
#include "base/system.h"
#include "gguf/metadata_bytes.h"
#include "gguf/writer.h"
#include "quant/quant.h"
#include "quantize/encode_tensor.h"
#include "runtime/load.h"
#include "runtime/prediction.h"

namespace chimere::quantize {
namespace {

// Relative to each other about what measure_sensitivity() finds on the models of docs/quantize.md;
// an embedding apart from the output is a guess.
constexpr std::pair<Role, double> kRoleSensitivity[] = {
    {Role::kEmbedding, 1.0},     {Role::kOutput, 3.5},  {Role::kAttention, 0.45},
    {Role::kRecurrent, 0.75},    {Role::kDense, 0.5},   {Role::kRecurrentGate, 0.03},
    {Role::kSharedExpert, 0.12}, {Role::kExperts, 0.2}, {Role::kDraft, 0.3},
};

// Within a role. What the first block gets wrong reaches all others; values and outputs matter more
// than what is only compared (queries, keys) or multiplied by a gate.
constexpr double kFirstBlock = 2.2;
constexpr std::pair<std::string_view, double> kPartSensitivity[] = {
    {".attn_q.", 0.7},         {".attn_k.", 0.6},         {".attn_v.", 1.2},
    {".attn_output.", 1.5},    {".attn_gate.", 0.7},      {".ssm_out.", 1.1},
    {".ffn_up.", 0.7},         {".ffn_down.", 1.3},       {".ffn_up_exps.", 0.8},
    {".ffn_gate_exps.", 0.9},  {".ffn_down_exps.", 1.3},  {".ffn_up_shexp.", 0.8},
    {".ffn_gate_shexp.", 0.8}, {".ffn_down_shexp.", 1.4},
};

// The model with all weight matrices in f32, as the bytes of a GGUF file.
Result<std::vector<uint8_t>> expand(const gguf::Reader& file) {
  gguf::Writer out;
  uint64_t bytes = 0;
  CHIMERE_TRY(const auto values, gguf::metadata_bytes(file));
  for (const std::string& key : file.keys()) {
    if (!key.starts_with("split.") && key != "general.alignment") {
      out.set_encoded(key, values.at(key));
    }
  }
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    const bool wide = is_quantised_tensor(tensor);
    const DTypeInfo& info = dtype_info(tensor.type);
    const uint64_t elements = tensor.bytes / static_cast<uint64_t>(info.block_bytes) *
                              static_cast<uint64_t>(info.block_elements);
    const uint64_t size = wide ? elements * sizeof(float) : tensor.bytes;
    bytes += size;
    const auto fill = [&tensor, wide, elements](std::span<uint8_t> to) -> Status {
      if (!wide) {
        std::memcpy(to.data(), tensor.data, tensor.bytes);
        return {};
      }
      quant::decode(tensor.type, tensor.data, reinterpret_cast<float*>(to.data()),
                    static_cast<int64_t>(elements));
      return {};
    };
    CHIMERE_CHECK_OK(
        out.add_tensor(tensor.name, tensor.dims, wide ? DType::kF32 : tensor.type, size, fill));
  }
  const int64_t available = available_memory();
  if (available > 0 && bytes > static_cast<uint64_t>(available) / 4 * 3) {
    return out_of_memory("To measure single changes the model is held in f32, which takes " +
                         human_bytes(static_cast<double>(bytes)) + ", and " +
                         human_bytes(static_cast<double>(available)) +
                         " are free; leave out --calibrate and use --imatrix.");
  }
  std::vector<uint8_t> all = out.bytes();
  CHIMERE_CHECK_OK(file.check_unchanged());
  return all;
}

// Natural logarithms of the probabilities of a row of logits.
void log_softmax(std::span<const float> logits, std::span<float> out) {
  double largest = -INFINITY;
  for (const float v : logits) largest = std::max(largest, double{v});
  double sum = 0;
  for (const float v : logits) sum += std::exp(double{v} - largest);
  const double log_sum = largest + std::log(sum);
  for (size_t i = 0; i < logits.size(); ++i)
    out[i] = static_cast<float>(double{logits[i]} - log_sum);
}

class Divergence {
 public:
  Divergence(const runtime::LoadedModel& model, std::vector<int32_t> tokens, int64_t window)
      : model_(model), tokens_(std::move(tokens)), window_(window) {}

  // Remembers the model's predictions as the base.
  Status measure_base() {
    base_.clear();
    return run([&](std::span<const float> logits) {
      const size_t at = base_.size();
      base_.resize(at + logits.size());
      log_softmax(logits, std::span(base_).subspan(at));
    });
  }

  // Mean KL(base || model as it is now), in nats.
  Result<double> measure() {
    double total = 0;
    size_t at = 0;
    int64_t rows = 0;
    CHIMERE_CHECK_OK(run([&](std::span<const float> logits) {
      row_.resize(logits.size());
      log_softmax(logits, row_);
      double kl = 0;
      for (size_t i = 0; i < logits.size(); ++i) {
        const double p = double{base_[at + i]};
        kl += std::exp(p) * (p - double{row_[i]});
      }
      total += std::max(0.0, kl);
      at += logits.size();
      ++rows;
    }));
    return total / static_cast<double>(std::max<int64_t>(1, rows));
  }

 private:
  template <typename Use>
  Status run(const Use& use) {
    const runtime::LoadedModel* one = &model_;
    const auto n = static_cast<int64_t>(tokens_.size());
    for (int64_t at = 0; at + window_ <= n; at += window_) {
      const auto piece =
          std::span(tokens_).subspan(static_cast<size_t>(at), static_cast<size_t>(window_));
      CHIMERE_CHECK_OK(runtime::for_each_logits(
          {&one, 1}, piece, window_, 0,
          [&](int64_t, std::span<const runtime::LogitsRow> rows) -> Status {
            use(rows[0]);
            return {};
          }));
    }
    return {};
  }

  const runtime::LoadedModel& model_;
  std::vector<int32_t> tokens_;
  int64_t window_;
  std::vector<float> base_;  // [positions, vocabulary]
  std::vector<float> row_;
};

// Rounds a tensor of the f32 model to `probe` in place.
Status round_in_place(const PlannedTensor& tensor, DType probe, std::span<const float> importance,
                      float* weights, ThreadPool& pool) {
  const int64_t n_in = tensor.n_in();
  const int64_t rows_of_matrix = tensor.rows() / tensor.matrices();
  std::vector<Status> failures(static_cast<size_t>(pool.size()));
  pool.parallel_for(tensor.rows(), 16, [&](int64_t begin, int64_t end, int worker) {
    std::vector<uint8_t> encoded(static_cast<size_t>(row_bytes(probe, n_in)));
    for (int64_t r = begin; r < end; ++r) {
      float* row = weights + r * n_in;
      const float* w = importance.empty() ? nullptr : importance.data() + r / rows_of_matrix * n_in;
      auto status = quant::encode(probe, row, encoded.data(), n_in, w);
      if (!status.ok())
        failures[static_cast<size_t>(worker)] = std::move(status);
      else
        quant::decode(probe, encoded.data(), row, n_in);
    }
  });
  for (Status& failure : failures) CHIMERE_CHECK_OK(std::move(failure));
  return {};
}

// A divergence of exactly 0 means that the text never reached the tensor (the MTP head, experts
// that no token chose): it gets the mean of its role, or, where nothing of its role was reached,
// what is expected of it on the scale of what was measured.
void share_unmeasured(const Plan& plan, std::vector<double>& sensitivity) {
  std::map<Role, std::pair<double, int>> sums;
  double measured = 0;
  double expected = 0;
  const auto expectation = [&plan](size_t t) {
    return expected_sensitivity(plan.tensors[t].source->name, plan.tensors[t].role);
  };
  for (size_t t = 0; t < sensitivity.size(); ++t) {
    if (sensitivity[t] <= 0) continue;
    measured += sensitivity[t];
    expected += expectation(t);
    auto& [sum, count] = sums[plan.tensors[t].role];
    sum += sensitivity[t];
    ++count;
  }
  for (size_t t = 0; t < sensitivity.size(); ++t) {
    const Role role = plan.tensors[t].role;
    if (plan.tensors[t].fixed || sensitivity[t] > 0) continue;
    const auto found = sums.find(role);
    sensitivity[t] = found != sums.end()
                         ? found->second.first / found->second.second
                         : expectation(t) * (expected > 0 ? measured / expected : 1);
  }
}

}  // namespace

double expected_sensitivity(std::string_view tensor, Role role) {
  double out = 1;
  for (const auto& [known, value] : kRoleSensitivity) {
    if (known == role) out = value;
  }
  for (const auto& [part, factor] : kPartSensitivity) {
    if (tensor.find(part) != std::string_view::npos) out *= factor;
  }
  return block_of(tensor) == 0 ? kFirstBlock * out : out;
}

Result<std::vector<double>> measure_sensitivity(const gguf::Reader& file, const Plan& plan,
                                                std::span<const DType> probes,
                                                std::span<const double> probe_errors,
                                                const ImportanceMatrix* importance,
                                                const std::string& text, const Settings& settings,
                                                const runtime::Runtime& runtime,
                                                const SensitivityOptions& options) {
  CHIMERE_TRY(std::vector<uint8_t> bytes, expand(file));
  CHIMERE_TRY(auto expanded, gguf::Reader::from_bytes(bytes.data(), bytes.size()));
  runtime::MemoryRequest request;
  request.default_context = options.window;
  request.on_gpu = false;
  CHIMERE_TRY(const runtime::LoadedModel model,
              runtime::load(std::move(expanded), settings, request, runtime, {}));
  CHIMERE_TRY(runtime::TokenText tokens, runtime::tokens_of_text(model, text, "--calibrate"));
  const int64_t wanted = options.window * options.windows;
  if (static_cast<int64_t>(tokens.tokens.size()) < options.window) {
    return invalid_argument("The text of --calibrate has " + std::to_string(tokens.tokens.size()) +
                            " tokens; at least " + std::to_string(options.window) +
                            " are needed, better " + std::to_string(wanted) + ".");
  }
  tokens.tokens.resize(std::min(tokens.tokens.size(), static_cast<size_t>(wanted)));
  Divergence divergence(model, std::move(tokens.tokens), options.window);
  CHIMERE_CHECK_OK(divergence.measure_base());
  std::vector<double> out(plan.tensors.size());
  for (size_t t = 0; t < plan.tensors.size(); ++t) {
    const PlannedTensor& tensor = plan.tensors[t];
    if (tensor.fixed) continue;
    if (options.progress) options.progress(t, plan.tensors.size(), tensor.source->name);
    if (options.cancelled && options.cancelled()) {
      return Error{Error::Code::kCancelled, "Interrupted."};
    }
    const gguf::TensorInfo* info = model.file->find_tensor(tensor.source->name);
    auto* weights = reinterpret_cast<float*>(
        bytes.data() + (static_cast<const uint8_t*>(info->data) - bytes.data()));
    const std::vector<float> before(weights, weights + info->bytes / sizeof(float));
    std::vector<float> squares;
    if (importance != nullptr) {
      CHIMERE_TRY(squares,
                  importance->weights(tensor.source->name, tensor.n_in(), tensor.matrices()));
    }
    CHIMERE_CHECK_OK(round_in_place(tensor, probes[t], squares, weights, *model.pool));
    CHIMERE_TRY(const double kl, divergence.measure());
    std::copy(before.begin(), before.end(), weights);
    out[t] = kl / std::max(probe_errors[t], 1e-9);
  }
  share_unmeasured(plan, out);
  return out;
}

}  // namespace chimere::quantize
