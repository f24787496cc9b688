#include "convert/tensor.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "quant/quant.h"

namespace chimere::convert {
namespace {

float rounded(float x, bool half) { return half ? quant::f16_to_f32(quant::f32_to_f16(x)) : x; }

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string out = "[";
  for (const int64_t d : shape) out += (out.size() > 1 ? ", " : "") + std::to_string(d);
  return out + "]";
}

/// n elements from element `at` of a tensor of a supported type.
void decode(const SourceTensor& tensor, int64_t at, std::span<float> out) {
  const uint8_t* p = tensor.bytes.data() + at * bytes_of(tensor.type);
  if (tensor.type == SourceType::kF32) {
    std::memcpy(out.data(), p, out.size_bytes());
    return;
  }
  for (float& x : out) {
    uint16_t bits = 0;
    std::memcpy(&bits, p, sizeof(bits));
    p += sizeof(bits);
    x = tensor.type == SourceType::kF16 ? quant::f16_to_f32(bits) : quant::bf16_to_f32(bits);
  }
}

}  // namespace

int64_t Tensor::rows() const {
  int64_t n = 1;
  for (size_t i = 0; i + 1 < shape.size(); ++i) n *= shape[i];
  return n;
}

Result<Tensor> source(const SourceTensor& tensor) {
  if (tensor.type != SourceType::kF32 && tensor.type != SourceType::kF16 &&
      tensor.type != SourceType::kBF16) {
    return unsupported("the tensor '" + tensor.name + "' has the type " + tensor.type_name +
                       "; F32, F16 and BF16 can be converted");
  }
  Tensor out = {.shape = tensor.shape, .half = tensor.type == SourceType::kF16, .read_row = {}};
  if (out.shape.empty()) out.shape = {1};
  out.read_row = [&tensor, width = out.width()](int64_t row, std::span<float> to) {
    decode(tensor, row * width, to);
  };
  return out;
}

Result<Tensor> mxfp4_source(const SourceTensor& blocks, const SourceTensor& scales) {
  constexpr int64_t kBlockBytes = 16;
  std::vector<int64_t> shape = blocks.shape;
  const bool fits = blocks.type == SourceType::kU8 && scales.type == SourceType::kU8 &&
                    shape.size() >= 3 && shape.back() == kBlockBytes;
  if (fits) shape.pop_back();
  if (!fits || scales.shape != shape) {
    return invalid_data("the tensors '" + blocks.name.substr(0, kShownBytes) + "' " +
                        shape_text(blocks.shape) + " and '" + scales.name.substr(0, kShownBytes) +
                        "' " + shape_text(scales.shape) +
                        " must be blocks of 16 bytes (U8) and a scale (U8) for each");
  }
  const int64_t blocks_of_row = shape.back();
  shape.back() *= 2 * kBlockBytes;
  Tensor out = {.shape = std::move(shape), .half = false, .read_row = {}};
  out.stored = DType::kMXFP4;
  // GGUF's block: the scale, then bytes with the elements i and i + 16.
  out.read_stored = [&blocks, &scales, blocks_of_row](int64_t row, std::span<uint8_t> to) {
    const uint8_t* from = blocks.bytes.data() + row * blocks_of_row * kBlockBytes;
    uint8_t* at = to.data();
    for (int64_t b = 0; b < blocks_of_row; ++b, from += kBlockBytes) {
      *at++ = scales.bytes[static_cast<size_t>(row * blocks_of_row + b)];
      const auto element = [from](int64_t i) {
        return static_cast<uint8_t>(from[i / 2] >> (i % 2 * 4) & 15);
      };
      for (int64_t i = 0; i < kBlockBytes; ++i) {
        *at++ = static_cast<uint8_t>(element(i) | element(i + kBlockBytes) << 4);
      }
    }
  };
  out.read_row = [stored = out.read_stored](int64_t row, std::span<float> to) {
    const auto n = static_cast<int64_t>(to.size());
    std::vector<uint8_t> bytes(static_cast<size_t>(row_bytes(DType::kMXFP4, n)));
    stored(row, bytes);
    quant::decode(DType::kMXFP4, bytes.data(), to.data(), n);
  };
  return out;
}

Tensor literal(std::vector<int64_t> shape, std::vector<float> values) {
  Tensor out = {.shape = std::move(shape), .half = false, .read_row = {}};
  out.read_row = [values = std::make_shared<const std::vector<float>>(std::move(values)),
                  width = out.width()](int64_t row, std::span<float> to) {
    std::copy_n(values->begin() + row * width, width, to.begin());
  };
  return out;
}

Result<Tensor> reshaped(Tensor tensor, std::vector<int64_t> shape) {
  Tensor out = {.shape = std::move(shape), .half = tensor.half, .read_row = {}};
  if (out.elements() != tensor.elements()) {
    return invalid_data("a shape of " + shape_text(tensor.shape) + " cannot become " +
                        shape_text(out.shape));
  }
  if (out.width() == tensor.width()) {
    out.read_row = std::move(tensor.read_row);
    return out;
  }
  out.read_row = [from = std::move(tensor), width = out.width()](int64_t row, std::span<float> to) {
    std::vector<float> line(static_cast<size_t>(from.width()));
    int64_t loaded = -1;
    for (int64_t i = 0; i < width; ++i) {
      const int64_t at = row * width + i;
      if (at / from.width() != loaded) {
        loaded = at / from.width();
        from.read_row(loaded, line);
      }
      to[static_cast<size_t>(i)] = line[static_cast<size_t>(at % from.width())];
    }
  };
  return out;
}

Tensor with_rows(Tensor tensor, std::vector<int64_t> order, std::vector<int64_t> shape) {
  Tensor out = {.shape = std::move(shape), .half = tensor.half, .read_row = {}};
  if (tensor.read_stored) {
    out.stored = tensor.stored;
    out.read_stored = [from = std::move(tensor.read_stored), order](int64_t row,
                                                                    std::span<uint8_t> to) {
      from(order[static_cast<size_t>(row)], to);
    };
  }
  out.read_row = [from = std::move(tensor.read_row), order = std::move(order)](
                     int64_t row, std::span<float> to) {
    from(order[static_cast<size_t>(row)], to);
  };
  return out;
}

Tensor with_columns(Tensor tensor, std::vector<int64_t> order) {
  Tensor out = {.shape = tensor.shape, .half = tensor.half, .read_row = {}};
  out.shape.back() = static_cast<int64_t>(order.size());
  out.read_row = [from = std::move(tensor), order = std::move(order)](int64_t row,
                                                                      std::span<float> to) {
    std::vector<float> line(static_cast<size_t>(from.width()));
    from.read_row(row, line);
    for (size_t i = 0; i < order.size(); ++i) to[i] = line[static_cast<size_t>(order[i])];
  };
  return out;
}

Result<Tensor> reordered(Tensor tensor, std::vector<int64_t> order) {
  const auto n = static_cast<int64_t>(order.size());
  if (tensor.shape.size() > 2 || tensor.shape.front() < n) {
    return invalid_data("a shape of " + shape_text(tensor.shape) + " where " + std::to_string(n) +
                        " rows are needed");
  }
  if (tensor.shape.size() == 1) return with_columns(std::move(tensor), std::move(order));
  const int64_t width = tensor.width();
  return with_rows(std::move(tensor), std::move(order), {n, width});
}

Result<Tensor> slice(Tensor tensor, int64_t begin, int64_t end) {
  if (tensor.shape.size() > 2 || begin < 0 || end <= begin || end > tensor.shape.front()) {
    return invalid_data("a shape of " + shape_text(tensor.shape) + " has no rows " +
                        std::to_string(begin) + " to " + std::to_string(end));
  }
  std::vector<int64_t> order;
  for (int64_t i = begin; i < end; ++i) order.push_back(i);
  return reordered(std::move(tensor), std::move(order));
}

Result<Tensor> stacked(std::vector<Tensor> parts) {
  Tensor out = {.shape = parts.front().shape, .half = parts.front().half, .read_row = {}};
  for (const Tensor& part : parts) {
    if (part.shape != out.shape) {
      return invalid_data("shapes of " + shape_text(out.shape) + " and " + shape_text(part.shape) +
                          " among experts");
    }
  }
  const int64_t each = out.rows();
  out.shape.insert(out.shape.begin(), static_cast<int64_t>(parts.size()));
  out.read_row = [parts = std::move(parts), each](int64_t row, std::span<float> to) {
    parts[static_cast<size_t>(row / each)].read_row(row % each, to);
  };
  return out;
}

Result<Tensor> concatenated(std::vector<Tensor> parts) {
  Tensor out = {.shape = parts.front().shape, .half = parts.front().half, .read_row = {}};
  std::vector<std::pair<size_t, int64_t>> place;  // part and row
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].shape.size() != 2 || parts[i].width() != out.width()) {
      return invalid_data("a shape of " + shape_text(parts[i].shape) + " cannot follow " +
                          shape_text(out.shape));
    }
    for (int64_t row = 0; row < parts[i].rows(); ++row) place.emplace_back(i, row);
  }
  out.shape.front() = static_cast<int64_t>(place.size());
  out.read_row = [parts = std::move(parts), place = std::move(place)](int64_t row,
                                                                      std::span<float> to) {
    const auto [part, own] = place[static_cast<size_t>(row)];
    parts[part].read_row(own, to);
  };
  return out;
}

Result<Tensor> transposed(Tensor tensor) {
  if (tensor.shape.size() < 2) {
    return invalid_data("a shape of " + shape_text(tensor.shape) + " cannot be transposed");
  }
  Tensor out = {.shape = tensor.shape, .half = tensor.half, .read_row = {}};
  std::swap(out.shape[out.shape.size() - 1], out.shape[out.shape.size() - 2]);
  struct Cache {
    int64_t matrix = -1;
    std::vector<float> values;
  };
  out.read_row = [from = std::move(tensor), height = out.width(),
                  cache = std::make_shared<Cache>()](int64_t row, std::span<float> to) {
    const int64_t columns = from.width();
    const int64_t matrix = row / columns;
    if (cache->matrix != matrix) {
      cache->values.resize(static_cast<size_t>(height * columns));
      for (int64_t i = 0; i < height; ++i) {
        from.read_row(matrix * height + i,
                      std::span(cache->values)
                          .subspan(static_cast<size_t>(i * columns), static_cast<size_t>(columns)));
      }
      cache->matrix = matrix;
    }
    for (int64_t i = 0; i < height; ++i) {
      to[static_cast<size_t>(i)] = cache->values[static_cast<size_t>(i * columns + row % columns)];
    }
  };
  return out;
}

Tensor mapped(Tensor tensor, std::function<float(float)> f) {
  Tensor out = {.shape = tensor.shape, .half = tensor.half, .read_row = {}};
  out.read_row = [from = std::move(tensor.read_row), f = std::move(f), half = tensor.half](
                     int64_t row, std::span<float> to) {
    from(row, to);
    for (float& x : to) x = rounded(f(x), half);
  };
  return out;
}

Tensor scaled_rows(Tensor tensor, std::function<float(int64_t)> factor) {
  Tensor out = {.shape = tensor.shape, .half = tensor.half, .read_row = {}};
  out.read_row = [from = std::move(tensor.read_row), factor = std::move(factor),
                  half = tensor.half](int64_t row, std::span<float> to) {
    from(row, to);
    const float by = factor(row);
    for (float& x : to) x = rounded(x * by, half);
  };
  return out;
}

}  // namespace chimere::convert
