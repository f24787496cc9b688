#include "model/adapter.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>

#include "quant/quant.h"

namespace chimere::model {
namespace {

constexpr std::string_view kSuffixA = ".lora_a";
constexpr std::string_view kSuffixB = ".lora_b";

struct TensorPair {
  const gguf::TensorInfo* a = nullptr;
  const gguf::TensorInfo* b = nullptr;

  int64_t rank() const { return b->dims[0]; }
};

/// [x, y, parts]; a tensor of two dimensions has one part.
int64_t parts_of(const gguf::TensorInfo& t) { return t.dims.size() > 2 ? t.dims[2] : 1; }

std::string shape_of(const gguf::TensorInfo& t) {
  std::string text;
  for (const int64_t d : t.dims) text += (text.empty() ? "" : " x ") + std::to_string(d);
  return text;
}

Status check_pair(const std::string& name, const TensorPair& pair) {
  if (pair.a == nullptr || pair.b == nullptr) {
    return invalid_data("the adapter lacks " + name +
                        std::string(pair.a == nullptr ? kSuffixA : kSuffixB));
  }
  for (const gguf::TensorInfo* t : {pair.a, pair.b}) {
    if (t->dims.size() < 2 || t->dims.size() > 3) {
      return invalid_data(t->name + " is " + shape_of(*t) + "; a matrix of an adapter has two " +
                          "dimensions, or three for experts");
    }
    if (t->dims[0] % dtype_info(t->type).block_elements != 0 ||
        (!dtype_info(t->type).quantised && t->type != DType::kF32 && t->type != DType::kF16 &&
         t->type != DType::kBF16)) {
      return invalid_data(t->name + " has type " + std::string(dtype_name(t->type)) +
                          ", which cannot hold a matrix of an adapter");
    }
  }
  if (pair.a->dims[1] != pair.b->dims[0] || parts_of(*pair.a) != parts_of(*pair.b)) {
    return invalid_data(pair.a->name + " is " + shape_of(*pair.a) + " and " + pair.b->name +
                        " is " + shape_of(*pair.b) + ": their ranks differ");
  }
  if (pair.rank() < 1 || pair.rank() > kernels::kMaxAdapterRank) {
    return unsupported(pair.b->name + " has rank " + std::to_string(pair.rank()) +
                       "; adapters have ranks of 1 to " + std::to_string(kernels::kMaxAdapterRank));
  }
  return {};
}

/// The tensors by the name of what they change.
Result<std::map<std::string, TensorPair>> pairs_of(const gguf::Reader& file) {
  std::map<std::string, TensorPair> pairs;
  for (const gguf::TensorInfo& t : file.tensors()) {
    const bool a = t.name.ends_with(kSuffixA);
    if (!a && !t.name.ends_with(kSuffixB)) {
      return invalid_data("the adapter has a tensor " + t.name + ", which ends with neither " +
                          std::string(kSuffixA) + " nor " + std::string(kSuffixB));
    }
    TensorPair& pair = pairs[t.name.substr(0, t.name.size() - kSuffixA.size())];
    (a ? pair.a : pair.b) = &t;
  }
  for (const auto& [name, pair] : pairs) CHIMERE_CHECK_OK(check_pair(name, pair));
  return pairs;
}

Result<AdapterFile> read_keys(const gguf::Reader& file) {
  AdapterFile out;
  if (!is_adapter(file)) return invalid_data("this file is not an adapter (general.type)");
  CHIMERE_TRY(const std::string type, file.get_string("adapter.type"));
  if (type != "lora") {
    return unsupported("this is an adapter of type " + type + "; only lora can be used");
  }
  constexpr const char* kInvocation = "adapter.alora.invocation_tokens";
  if (file.find(kInvocation) != nullptr) {
    return unsupported(std::string("this adapter begins at a sequence of tokens (") + kInvocation +
                       "), which is not implemented");
  }
  CHIMERE_TRY(out.architecture, file.get_string("general.architecture"));
  CHIMERE_TRY(out.alpha, file.get_float("adapter.lora.alpha"));
  if (!std::isfinite(static_cast<float>(out.alpha)))
    return invalid_data("adapter.lora.alpha is no number");
  if (file.find("general.name") != nullptr) {
    CHIMERE_TRY(out.name, file.get_string("general.name"));
  }
  return out;
}

/// Copies matrices of an adapter's file to memory of its own, as float types.
class MatrixReader {
 public:
  explicit MatrixReader(Adapter& adapter) : adapter_(adapter) {}

  /// All rows of lora_a.
  WeightView read_a(const gguf::TensorInfo& t) {
    WeightView out = allocate(t, t.dims[1] * parts_of(t), t.dims[0]);
    auto* const to = static_cast<uint8_t*>(const_cast<void*>(out.data));
    if (dtype_info(t.type).quantised) {
      quant::decode(t.type, t.data, reinterpret_cast<float*>(to), out.n_out * out.n_in);
    } else {
      std::memcpy(to, t.data, static_cast<size_t>(out.bytes()));
    }
    return out;
  }

  /// All rows of lora_b, or `rows` of its only part, transposed.
  WeightView read_b(const gguf::TensorInfo& t, std::span<const int64_t> rows) {
    const int64_t rank = t.dims[0];
    const int64_t all = t.dims[1] * parts_of(t);
    WeightView out = allocate(t, rank, rows.empty() ? all : static_cast<int64_t>(rows.size()));
    auto* const to = static_cast<uint8_t*>(const_cast<void*>(out.data));
    const auto element = static_cast<size_t>(row_bytes(out.type, 1));
    const auto stride = static_cast<size_t>(row_bytes(out.type, out.n_in));
    const WeightView in = {t.type, all, rank, t.data};
    std::vector<float> decoded(dtype_info(t.type).quantised ? static_cast<size_t>(rank) : 0);
    for (int64_t r = 0; r < out.n_in; ++r) {
      const uint8_t* from = in.row(rows.empty() ? r : rows[static_cast<size_t>(r)]);
      if (!decoded.empty()) {
        quant::decode(t.type, from, decoded.data(), rank);
        from = reinterpret_cast<const uint8_t*>(decoded.data());
      }
      uint8_t* at = to + static_cast<size_t>(r) * element;
      for (int64_t j = 0; j < rank; ++j, at += stride, from += element) {
        std::memcpy(at, from, element);
      }
    }
    return out;
  }

 private:
  /// A matrix for elements of a tensor; quantised ones become f32.
  WeightView allocate(const gguf::TensorInfo& t, int64_t n_out, int64_t n_in) {
    WeightView out = {dtype_info(t.type).quantised ? DType::kF32 : t.type, n_out, n_in};
    adapter_.memory.push_back(std::make_unique<uint8_t[]>(static_cast<size_t>(out.bytes())));
    adapter_.bytes += out.bytes();
    out.data = adapter_.memory.back().get();
    return out;
  }

  Adapter& adapter_;
};

/// Checks a pair's shapes against what it changes.
Status check_shape(const TensorPair& pair, const AdapterTarget& target) {
  const auto fits = [&](const gguf::TensorInfo& t, int64_t got, int64_t want) -> Status {
    if (got == want && parts_of(t) == target.parts) return {};
    return invalid_argument(t.name + " is " + shape_of(t) + ", but " + target.tensor +
                            " of the model is " + std::to_string(target.n_in) + " x " +
                            std::to_string(target.part_rows) +
                            (target.parts > 1 ? " x " + std::to_string(target.parts) : "") +
                            ": the adapter belongs to another model");
  };
  CHIMERE_CHECK_OK(fits(*pair.a, pair.a->dims[0], target.n_in));
  return fits(*pair.b, pair.b->dims[1], target.part_rows);
}

state::Hash128 hash_of(const std::map<std::string, TensorPair>& pairs, double alpha) {
  state::Hasher128 hasher;
  std::vector<uint8_t> head;
  state::append_u64(head, std::bit_cast<uint64_t>(alpha));
  for (const auto& [name, pair] : pairs) {
    for (const gguf::TensorInfo* t : {pair.a, pair.b}) {
      state::append_u64(head, t->name.size());
      head.insert(head.end(), t->name.begin(), t->name.end());
      state::append_u64(head, static_cast<uint64_t>(t->type));
      for (const int64_t d : t->dims) state::append_u64(head, static_cast<uint64_t>(d));
      hasher.update(head);
      hasher.update({static_cast<const uint8_t*>(t->data), t->bytes});
      head.clear();
    }
  }
  return hasher.value();
}

}  // namespace

bool is_adapter(const gguf::Reader& file) {
  const auto type = file.get_string("general.type");
  return type.ok() && *type == "adapter";
}

Result<AdapterFile> describe_adapter(const gguf::Reader& file) {
  CHIMERE_TRY(AdapterFile out, read_keys(file));
  CHIMERE_TRY(const auto pairs, pairs_of(file));
  out.matrices = static_cast<int64_t>(pairs.size());
  for (const auto& [name, pair] : pairs) {
    out.least_rank = out.least_rank == 0 ? pair.rank() : std::min(out.least_rank, pair.rank());
    out.most_rank = std::max(out.most_rank, pair.rank());
  }
  return out;
}

Result<Adapter> read_adapter(const gguf::Reader& file, const std::string& architecture,
                             std::span<const AdapterTarget> targets) {
  CHIMERE_TRY(const AdapterFile described, read_keys(file));
  if (described.architecture != architecture) {
    return invalid_argument("the adapter is for models of architecture " + described.architecture +
                            ", this one is " + architecture);
  }
  CHIMERE_TRY(const auto pairs, pairs_of(file));
  Adapter out;
  out.hash = hash_of(pairs, described.alpha);
  out.low_rank.targets.resize(targets.size());
  MatrixReader matrices(out);
  for (const auto& [name, pair] : pairs) {
    bool found = false;
    for (size_t i = 0; i < targets.size(); ++i) {
      const AdapterTarget& target = targets[i];
      if (target.tensor != name) continue;
      found = true;
      CHIMERE_CHECK_OK(check_shape(pair, target));
      kernels::LowRankPair& to = out.low_rank.targets[i];
      to.a = matrices.read_a(*pair.a);
      to.b = matrices.read_b(*pair.b, target.rows);
      to.part_rows =
          target.rows.empty() ? target.part_rows : static_cast<int64_t>(target.rows.size());
      if (described.alpha != 0) {
        to.scale = static_cast<float>(described.alpha / static_cast<double>(pair.rank()));
      }
    }
    if (found) continue;
    return invalid_argument("the adapter changes " + name +
                            ", which this model does not have as a matrix that adapters can "
                            "change: it belongs to another model");
  }
  CHIMERE_CHECK_OK(file.check_unchanged());
  return out;
}

}  // namespace chimere::model
