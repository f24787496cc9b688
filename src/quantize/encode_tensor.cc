#include "quantize/encode_tensor.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "quant/quant.h"

namespace chimere::quantize {
namespace {

// Elements that a worker encodes at once.
constexpr int64_t kPieceElements = 65536;
constexpr int kPiecesPerThread = 4;

}  // namespace

RowReader::RowReader(const gguf::Reader& file, const gguf::TensorInfo& tensor)
    : tensor_(tensor), row_bytes_(chimere::row_bytes(tensor.type, tensor.dims[0])) {
  const auto* data = static_cast<const uint8_t*>(tensor.data);
  for (const MappedFile& mapped : file.files()) {
    if (data < mapped.data() || data >= mapped.data() + mapped.size()) continue;
    file_ = &mapped;
    offset_ = static_cast<size_t>(data - mapped.data());
  }
}

Status RowReader::read(int64_t first, int64_t count, std::span<uint8_t> out) const {
  const auto begin = static_cast<size_t>(first * row_bytes_);
  const auto bytes = static_cast<size_t>(count * row_bytes_);
  if (file_ != nullptr) return file_->read(offset_ + begin, out.first(bytes));
  std::memcpy(out.data(), static_cast<const uint8_t*>(tensor_.data) + begin, bytes);
  return {};
}

Status RowReader::decode(int64_t first, int64_t count, std::vector<uint8_t>& stored,
                         std::span<float> out) const {
  stored.resize(static_cast<size_t>(count * row_bytes_));
  CHIMERE_CHECK_OK(read(first, count, stored));
  quant::decode(tensor_.type, stored.data(), out.data(), count * tensor_.dims[0]);
  return {};
}

Status encode_tensor(const gguf::Reader& file, const PlannedTensor& tensor,
                     std::span<const float> importance, int64_t first_row, ThreadPool& pool,
                     const TakeBytes& take) {
  const RowReader rows(file, *tensor.source);
  const int64_t n_in = tensor.n_in();
  const int64_t n_rows = tensor.rows();
  const int64_t rows_of_matrix = n_rows / tensor.matrices();
  const bool copy = tensor.type == tensor.source->type;
  const int64_t out_bytes = row_bytes(tensor.type, n_in);
  const int64_t piece = std::max<int64_t>(1, kPieceElements / n_in);
  const int64_t batch = piece * pool.size() * kPiecesPerThread;

  struct Scratch {
    std::vector<uint8_t> stored;
    std::vector<float> values;
  };
  std::vector<Scratch> scratch(static_cast<size_t>(pool.size()));
  std::vector<uint8_t> encoded;
  for (int64_t begin = first_row; begin < n_rows; begin += batch) {
    const int64_t end = std::min(n_rows, begin + batch);
    encoded.resize(static_cast<size_t>((end - begin) * out_bytes));
    const int64_t pieces = (end - begin + piece - 1) / piece;
    std::vector<Status> failures(static_cast<size_t>(pieces));
    const auto encode_piece = [&](int64_t p, Scratch& mine) -> Status {
      const int64_t first = begin + p * piece;
      const int64_t count = std::min(piece, end - first);
      uint8_t* to = encoded.data() + (first - begin) * out_bytes;
      if (copy) return rows.read(first, count, {to, static_cast<size_t>(count * out_bytes)});
      mine.values.resize(static_cast<size_t>(count * n_in));
      CHIMERE_CHECK_OK(rows.decode(first, count, mine.stored, mine.values));
      for (int64_t r = 0; r < count; ++r) {
        const float* weights =
            importance.empty() ? nullptr : importance.data() + (first + r) / rows_of_matrix * n_in;
        auto status = quant::encode(tensor.type, mine.values.data() + r * n_in, to + r * out_bytes,
                                    n_in, weights);
        if (!status.ok()) {
          return invalid_data("row " + std::to_string(first + r) + " of tensor '" +
                              tensor.source->name + "': " + status.error().message);
        }
      }
      return {};
    };
    pool.parallel_for(pieces, 1, [&](int64_t from, int64_t to, int worker) {
      for (int64_t p = from; p < to; ++p) {
        failures[static_cast<size_t>(p)] = encode_piece(p, scratch[static_cast<size_t>(worker)]);
      }
    });
    for (Status& failure : failures) CHIMERE_CHECK_OK(std::move(failure));
    CHIMERE_CHECK_OK(take(encoded, end));
  }
  return {};
}

}  // namespace chimere::quantize
