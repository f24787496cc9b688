// Random layers of experts on a device, and the results of ref.
#ifndef CHIMERE_KERNELS_CUDA_MOE_TEST_DATA_H_
#define CHIMERE_KERNELS_CUDA_MOE_TEST_DATA_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <numeric>
#include <utility>
#include <vector>

#include "kernels/cuda/linear_test_data.h"
#include "kernels/cuda/moe_decode.h"
#include "kernels/ref/moe.h"

namespace chimere::kernels::cuda::test {

/// Types of gate, up and down.
struct ExpertTypes {
  DType gate;
  DType up;
  DType down;
};

struct MoeProblem {
  int64_t rows = 0;
  int64_t n_embd = 0;
  int n_used = 0;
  bool has_shared = false;
  bool unpacked = false;  ///< weight layout on the device
  std::vector<float> x;
  std::vector<float> y;  ///< the residual, before the op
  std::deque<std::vector<uint8_t>> bytes;
  std::deque<std::vector<float>> biases;
  std::vector<ExpertWeights> experts;
  ExpertWeights shared;
  std::vector<float> shared_gate;  ///< empty: none
  MoeOptions options;
  std::vector<int32_t> ids;
  std::vector<float> weights;

  /// embd, ff: n_embd and the routed experts' n_ff; 0: small random values.
  MoeProblem(test_data::Random& random, int64_t n_rows, int n_experts, int used, ExpertTypes routed,
             ExpertTypes shared_types, int64_t embd = 0, int64_t ff = 0)
      : rows(n_rows), n_embd(embd > 0 ? embd : 256 * random.between(1, 2)), n_used(used) {
    has_shared = random.between(0, 3) != 0;
    x = random.activations(rows, n_embd);
    y = random.activations(rows, n_embd);
    const int64_t n_ff = ff > 0 ? ff : unit_of(routed.down) * random.between(1, 3);
    const bool gated = random.between(0, 2) > 0;
    for (int e = 0; e < n_experts; ++e) experts.push_back(expert(random, n_ff, routed, gated));
    if (random.between(0, 1) == 0) {
      for (ExpertWeights& e : experts) {
        if (gated) e.gate_bias = biases.emplace_back(random.activations(1, n_ff)).data();
        e.up_bias = biases.emplace_back(random.activations(1, n_ff)).data();
        e.down_bias = biases.emplace_back(random.activations(1, n_embd)).data();
      }
    }
    shared = expert(random, unit_of(shared_types.down) * random.between(1, 3), shared_types,
                    random.between(0, 2) > 0);
    const bool gates_shared = random.between(0, 2) > 0;
    const bool all_gated = gated && (!has_shared || shared.gated());
    options.activation =
        static_cast<Activation>(random.between(0, all_gated ? kActivations - 1 : kActivations - 2));
    if (random.between(0, 1) == 0) options.scale = 0.22F;
    for (int64_t r = 0; r < rows; ++r) {
      if (gates_shared) shared_gate.push_back(random.normal());
      std::vector<int32_t> all(static_cast<size_t>(n_experts));
      std::iota(all.begin(), all.end(), 0);
      for (int k = 0; k < n_used; ++k) {
        std::swap(all[static_cast<size_t>(k)],
                  all[static_cast<size_t>(random.between(k, n_experts - 1))]);
        ids.push_back(all[static_cast<size_t>(k)]);
        weights.push_back(0.1F + 0.01F * random.normal());
      }
    }
  }

  /// Makes some rows use fewer experts.
  void leave_out(test_data::Random& random) {
    for (int64_t r = 0; r < rows; ++r) {
      for (auto k = random.between(1, n_used); k < n_used; ++k) {
        ids[static_cast<size_t>(r * n_used + k)] = -1;
      }
    }
  }

  std::vector<float> by_ref() const {
    std::vector<float> result = y;
    std::vector<int32_t> chosen = ids;
    std::vector<float> of_chosen = weights;
    ref::moe_ffn({x.data(), rows, n_embd, n_embd}, experts,
                 {n_used, chosen.data(), of_chosen.data()}, has_shared ? &shared : nullptr,
                 shared_gate.empty() ? nullptr : shared_gate.data(), options,
                 {result.data(), rows, n_embd, n_embd});
    return result;
  }

  /// Runs f(table, x, rounded x, routing, shared_gate, codebook, y) with all operands on the
  /// device.
  template <class F>
  std::vector<float> on(Device& device, F f) const {
    std::deque<OnDevice<uint8_t>> packed;
    std::deque<OnDevice<float>> floats;
    auto upload = [&](const ExpertWeights& e) {
      ExpertWeights on_device = e;
      for (WeightView* w : {&on_device.gate, &on_device.up, &on_device.down}) {
        if (w->n_out == 0) continue;
        packed.push_back(packed_on(device, *w, unpacked));
        *w = {packed_type(w->type, unpacked), w->n_out, w->n_in, packed.back().data()};
      }
      const std::pair<const float**, int64_t> of_expert[] = {{&on_device.gate_bias, e.up.n_out},
                                                             {&on_device.up_bias, e.up.n_out},
                                                             {&on_device.down_bias, e.down.n_out}};
      for (const auto& [bias, n] : of_expert) {
        if (*bias == nullptr) continue;
        *bias = floats.emplace_back(device, std::vector<float>(*bias, *bias + n)).data();
      }
      return on_device;
    };
    std::vector<ExpertWeights> uploaded;
    for (const ExpertWeights& e : experts) uploaded.push_back(upload(e));
    const ExpertWeights uploaded_shared = upload(shared);
    auto table = ExpertTable::create(device, uploaded, has_shared ? &uploaded_shared : nullptr);
    if (!table.ok()) ok_or_end(table.error());
    const OnDevice<uint32_t> codebook(device, codebook_words());
    const OnDevice<float> input(device, x);
    const OnDevice<float> output(device, y);
    const OnDevice<float> gate(device, shared_gate);
    const OnDevice<int32_t> chosen(device, ids);
    const OnDevice<float> of_chosen(device, weights);
    const RoundedOnDevice rounded(device, rows, n_embd);
    const ConstMatrixView x_view(input.data(), rows, n_embd, n_embd);
    round_rows(device.stream(), x_view, rounded.rows());
    f(*table, x_view, rounded.rows(), Routing{n_used, chosen.data(), of_chosen.data()},
      shared_gate.empty() ? nullptr : gate.data(), codebook.data(),
      MatrixView{output.data(), rows, n_embd, n_embd});
    return output.read();
  }

 private:
  static int64_t unit_of(DType t) { return std::max(32, dtype_info(t).block_elements); }

  ExpertWeights expert(test_data::Random& random, int64_t n_ff, const ExpertTypes& types,
                       bool gated) {
    auto weight = [&](DType t, int64_t n_out, int64_t n_in) {
      bytes.push_back(random.weights(t, n_out, n_in));
      return WeightView{t, n_out, n_in, bytes.back().data()};
    };
    return {gated ? weight(types.gate, n_ff, n_embd) : WeightView(), weight(types.up, n_ff, n_embd),
            weight(types.down, n_embd, n_ff)};
  }
};

}  // namespace chimere::kernels::cuda::test

#endif  // CHIMERE_KERNELS_CUDA_MOE_TEST_DATA_H_
