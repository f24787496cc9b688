#include "support/tiny_adapter.h"

#include <cmath>
#include <memory>
#include <set>
#include <utility>

#include "quant/quant.h"
#include "support/random_tensors.h"

namespace chimere::test {

Result<gguf::Writer> make_tiny_adapter(const TinyAdapter& adapter, const std::string& architecture,
                                       std::span<const model::AdapterTarget> targets) {
  RandomTensors tensors(adapter.seed);
  gguf::Writer& writer = tensors.writer();
  writer.set_string("general.type", "adapter");
  writer.set_string("general.architecture", architecture);
  writer.set_string("general.name", adapter.name);
  writer.set_string("adapter.type", "lora");
  writer.set_f32("adapter.lora.alpha", adapter.alpha);
  std::set<std::string> written;
  for (const model::AdapterTarget& target : targets) {
    if (!written.insert(target.tensor).second) continue;
    const auto dims = [&](int64_t x, int64_t y) {
      std::vector<int64_t> d = {x, y};
      if (target.parts > 1) d.push_back(target.parts);
      return d;
    };
    // Both factors have a standard deviation near 1/sqrt(fan-in); their product then has the size
    // of a weight.
    tensors.weight(target.tensor + ".lora_a", dims(target.n_in, adapter.rank), adapter.type);
    RandomMatrix b = tensors.draw(dims(adapter.rank, target.part_rows), DType::kF32);
    auto* const values = reinterpret_cast<float*>(b.data.data());
    for (size_t i = 0; i < b.data.size() / sizeof(float); ++i) values[i] *= adapter.size;
    tensors.add(target.tensor + ".lora_b", b);
  }
  return tensors.finish();
}

std::vector<uint8_t> merged(std::vector<uint8_t> model, const std::vector<uint8_t>& adapter,
                            double scale) {
  const auto base = gguf::Reader::from_bytes(model.data(), model.size()).value();
  const auto change = gguf::Reader::from_bytes(adapter.data(), adapter.size()).value();
  const double alpha = change->get_float("adapter.lora.alpha").value();
  const auto decode = [](const gguf::TensorInfo& t) {
    int64_t n = 1;
    for (const int64_t d : t.dims) n *= d;
    std::vector<float> out(static_cast<size_t>(n));
    quant::decode(t.type, static_cast<const uint8_t*>(t.data), out.data(), n);
    return out;
  };
  for (const gguf::TensorInfo& a : change->tensors()) {
    if (!a.name.ends_with(".lora_a")) continue;
    const std::string name = a.name.substr(0, a.name.size() - 7);
    const gguf::TensorInfo* const w = base->find_tensor(name);
    const gguf::TensorInfo* const b = change->find_tensor(name + ".lora_b");
    const int64_t n_in = w->dims[0];
    const int64_t n_out = w->dims.size() > 1 ? w->dims[1] : 1;
    const int64_t parts = w->dims.size() > 2 ? w->dims[2] : 1;
    const int64_t rank = a.dims[1];
    const std::vector<float> av = decode(a);
    const std::vector<float> bv = decode(*b);
    const double factor = scale * (alpha != 0 ? alpha / static_cast<double>(rank) : 1.0);
    auto* const values = const_cast<float*>(static_cast<const float*>(w->data));
    for (int64_t o = 0; o < parts * n_out; ++o) {
      for (int64_t i = 0; i < n_in; ++i) {
        double sum = 0;
        for (int64_t r = 0; r < rank; ++r) {
          sum += static_cast<double>(bv[static_cast<size_t>(o * rank + r)]) *
                 static_cast<double>(av[static_cast<size_t>((o / n_out * rank + r) * n_in + i)]);
        }
        float& v = values[o * n_in + i];
        v = static_cast<float>(static_cast<double>(v) + factor * sum);
      }
    }
  }
  return model;
}

}  // namespace chimere::test
