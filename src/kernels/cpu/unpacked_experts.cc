#include "kernels/cpu/unpacked_experts.h"

#include <string>
#include <utility>

#include "kernels/cpu/unpacked_iq3_s.h"
#include "tensor/dtype.h"

namespace chimere::kernels::cpu {
namespace {

bool unpacks(const WeightView& w) {
  return w.type == DType::kIQ3_S && w.n_out > 0 && w.n_out % UnpackedIq3S::kRows == 0;
}

int64_t unpacked_bytes(const WeightView& w) { return w.n_out * unpacked_row_bytes(w.n_in); }

/// Writes the unpacked form of `w` to `target` and lets `w` refer to it.
Status unpack(WeightView& w, const Unpacking& unpacking, std::vector<uint8_t>& packed,
              uint8_t* target) {
  const int64_t row = row_bytes(w.type, w.n_in);
  packed.resize(static_cast<size_t>(w.n_out * row));
  CHIMERE_CHECK_OK(unpacking.read(w.row(0), packed));
  for (int64_t o = 0; o < w.n_out; o += UnpackedIq3S::kRows) {
    unpack_iq3_s(packed.data() + o * row, w.n_in,
                 reinterpret_cast<UnpackedIq3S*>(target + o * unpacked_row_bytes(w.n_in)));
  }
  w.type = DType::kIQ3_S_UNPACKED;
  w.data = target;
  return {};
}

}  // namespace

Result<std::unique_ptr<UnpackedExperts>> UnpackedExperts::create(
    ThreadPool& pool, std::vector<ExpertWeights> routed, std::optional<ExpertWeights> shared,
    const Unpacking& unpacking) {
  std::unique_ptr<UnpackedExperts> out(new UnpackedExperts(std::move(routed), shared));
  std::vector<WeightView*> matrices;
  int64_t total = 0;
  const auto add = [&](ExpertWeights& e) {
    for (WeightView* w : {&e.gate, &e.up, &e.down}) {
      if (!unpacks(*w)) continue;
      matrices.push_back(w);
      total += unpacked_bytes(*w);
    }
  };
  for (ExpertWeights& e : out->routed) add(e);
  if (out->shared) add(*out->shared);
  if (matrices.empty()) return out;
  const auto bytes = static_cast<size_t>(total);
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
  std::vector<std::vector<uint8_t>> packed(static_cast<size_t>(pool.size()));
  std::vector<Status> outcomes(matrices.size());
  pool.parallel_for(
      static_cast<int64_t>(matrices.size()), 1, [&](int64_t begin, int64_t end, int worker) {
        for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
          outcomes[i] =
              unpack(*matrices[i], unpacking, packed[static_cast<size_t>(worker)], targets[i]);
        }
      });
  for (const Status& outcome : outcomes) CHIMERE_CHECK_OK(outcome);
  unpacking.done(total);
  return out;
}

}  // namespace chimere::kernels::cpu
