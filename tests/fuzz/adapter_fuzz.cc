// Reads arbitrary bytes as an adapter of a model with three matrices: an error with a message, or
// an adapter whose matrices fit them and can be multiplied with.
#include <cstdio>
#include <cstdlib>
#include <span>

#include "fuzz.h"
#include "gguf/reader.h"
#include "gguf/writer.h"
#include "kernels/api.h"
#include "model/adapter.h"

namespace model = chimere::model;
namespace kernels = chimere::kernels;

namespace {

constexpr int64_t kIn = 32;

/// A plain matrix, rows of a fused one in another order, and a layer's experts.
std::vector<model::AdapterTarget> targets() {
  return {{.tensor = "blk.0.attn_output.weight", .n_in = kIn, .part_rows = 8},
          {.tensor = "blk.0.attn_qkv.weight", .n_in = kIn, .part_rows = 6, .rows = {5, 0, 3}},
          {.tensor = "blk.0.ffn_up_exps.weight", .n_in = kIn, .part_rows = 4, .parts = 3}};
}

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

/// Multiplies one row with every matrix and its change.
void multiply(const kernels::LowRankAdapter& adapter, std::span<const model::AdapterTarget> of) {
  const auto ops = kernels::make_ref_ops();
  const auto number = ops->place_adapter(adapter);
  if (!number.ok()) fail("an adapter that cannot be placed");
  const std::vector<float> weights(size_t{64} * kIn);
  const std::vector<float> x(kIn, 1);
  const std::vector<int32_t> begin = {0, 1};
  const std::vector<kernels::AdapterUse> uses = {{*number, 1}};
  for (size_t t = 0; t < of.size(); ++t) {
    const int64_t rows = of[t].rows.empty() ? of[t].part_rows * of[t].parts
                                            : static_cast<int64_t>(of[t].rows.size());
    const chimere::WeightView all = {chimere::DType::kF32, rows, kIn, weights.data(),
                                     static_cast<int32_t>(t)};
    const int64_t part = rows / of[t].parts;
    for (int64_t p = 0; p < of[t].parts; ++p) {
      std::vector<float> y(static_cast<size_t>(part));
      const kernels::LinearJob jobs[] = {
          {all.rows_from(p * part, part), {y.data(), 1, part, part}}};
      kernels::StepInputs step;
      step.adapters = {begin, uses};
      const auto done = ops->run_step(
          step, {}, [&] { ops->linear(chimere::ConstMatrixView(x.data(), 1, kIn, kIn), jobs); });
      if (!done.ok()) fail("a product failed");
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::vector<uint8_t> bytes(data, data + size);
  const auto file = chimere::gguf::Reader::from_bytes(bytes.data(), bytes.size());
  if (!file.ok()) return 0;
  const auto of = targets();
  const auto described = model::describe_adapter(**file);
  const auto adapter = model::read_adapter(**file, "llama", of);
  if (!adapter.ok()) {
    if (adapter.error().message.empty()) fail("an error without a message");
    return 0;
  }
  if (!described.ok() || adapter->low_rank.targets.size() != of.size()) {
    fail("an adapter that contradicts its description");
  }
  multiply(adapter->low_rank, of);
  return 0;
}

std::vector<std::vector<uint8_t>> fuzz_seeds() {
  constexpr int64_t kRank = 32;
  std::vector<std::vector<uint8_t>> seeds;
  for (const chimere::DType type :
       {chimere::DType::kF32, chimere::DType::kF16, chimere::DType::kQ8_0}) {
    chimere::gguf::Writer writer;
    writer.set_string("general.type", "adapter");
    writer.set_string("general.architecture", "llama");
    writer.set_string("adapter.type", "lora");
    writer.set_f32("adapter.lora.alpha", 4);
    const auto add = [&](const std::string& name, int64_t n_in, int64_t rows, int64_t parts) {
      std::vector<int64_t> dims = {n_in, rows};
      if (parts > 1) dims.push_back(parts);
      const std::vector<uint8_t> zeros(
          static_cast<size_t>(rows * parts * chimere::row_bytes(type, n_in)));
      if (!writer.add_tensor(name, dims, type, zeros.data(), zeros.size()).ok()) fail("a seed");
    };
    for (const model::AdapterTarget& t : targets()) {
      add(t.tensor + ".lora_a", t.n_in, kRank, t.parts);
      add(t.tensor + ".lora_b", kRank, t.part_rows, t.parts);
    }
    seeds.push_back(writer.bytes());
  }
  return seeds;
}
