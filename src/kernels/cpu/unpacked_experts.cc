#include "kernels/cpu/unpacked_experts.h"

#include <string>
#include <utility>

#include "kernels/cpu/unpacked_iq3_s.h"

namespace chimere::kernels::cpu {
namespace {

bool unpacks(const WeightView& w) {
  return w.type == DType::kIQ3_S && w.n_out > 0 && w.n_out % UnpackedIq3S::kRows == 0;
}

int64_t unpacked_bytes(const WeightView& w) { return w.n_out * unpacked_row_bytes(w.n_in); }

}  // namespace

Result<std::unique_ptr<UnpackedExperts>> UnpackedExperts::create(
    ThreadPool& pool, std::vector<ExpertWeights> routed, std::optional<ExpertWeights> shared) {
  std::unique_ptr<UnpackedExperts> out(new UnpackedExperts(std::move(routed), shared));
  std::vector<WeightView*> matrices;
  const auto add = [&](ExpertWeights& e) {
    for (WeightView* w : {&e.gate, &e.up, &e.down}) {
      if (!unpacks(*w)) continue;
      matrices.push_back(w);
      out->bytes_ += unpacked_bytes(*w);
    }
  };
  for (ExpertWeights& e : out->routed) add(e);
  if (out->shared) add(*out->shared);
  if (matrices.empty()) return out;
  const auto bytes = static_cast<size_t>(out->bytes_);
  auto memory = ReservedMemory::reserve(bytes);
  if (!memory.ok() || !memory->commit(bytes).ok()) {
    return out_of_memory("not enough memory to unpack a layer's experts (" + std::to_string(bytes) +
                         " bytes)");
  }
  out->memory_ = *std::move(memory);
  std::vector<uint8_t*> targets;
  uint8_t* next = out->memory_.data();
  for (const WeightView* w : matrices) {
    targets.push_back(next);
    next += unpacked_bytes(*w);
  }
  pool.parallel_for(
      static_cast<int64_t>(matrices.size()), 1, [&](int64_t begin, int64_t end, int /*worker*/) {
        for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
          WeightView& w = *matrices[i];
          for (int64_t o = 0; o < w.n_out; o += UnpackedIq3S::kRows) {
            unpack_iq3_s(
                w.row(o), w.n_in,
                reinterpret_cast<UnpackedIq3S*>(targets[i] + o * unpacked_row_bytes(w.n_in)));
          }
          w.type = DType::kIQ3_S_UNPACKED;
          w.data = targets[i];
        }
      });
  return out;
}

}  // namespace chimere::kernels::cpu
