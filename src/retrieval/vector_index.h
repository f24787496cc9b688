// Vectors of chunks in memory, rounded to eight bits, and exact search among them.
#ifndef CHIMERE_RETRIEVAL_VECTOR_INDEX_H_
#define CHIMERE_RETRIEVAL_VECTOR_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace chimere::retrieval {

/// A vector as it is stored: a scale (float, little-endian), then one signed byte an element; the
/// element is scale * byte. `vector` is not empty.
std::vector<std::byte> pack_vector(std::span<const float> vector);

struct VectorHit {
  int64_t chunk = 0;
  double similarity = 0;  ///< the cosine with the query
};

/// Not thread-safe while it changes; searches may run side by side.
class VectorIndex {
 public:
  explicit VectorIndex(int64_t dimensions) : dimensions_(static_cast<size_t>(dimensions)) {}

  int64_t size() const { return static_cast<int64_t>(chunks_.size()); }
  int64_t dimensions() const { return static_cast<int64_t>(dimensions_); }
  int64_t last_chunk() const { return chunks_.empty() ? 0 : chunks_.back(); }
  /// Adds a packed vector; those of other sizes are ignored. Ids must come in rising order.
  void add(int64_t chunk, std::span<const std::byte> packed);
  /// Removes all chunks but these, which are in rising order.
  void keep(std::span<const int64_t> chunks);
  /// The `most` nearest chunks, nearest first; those of equal similarity in the order of their ids.
  /// Compares with every vector. `query` has dimensions() elements and length 1.
  std::vector<VectorHit> search(std::span<const float> query, size_t most) const;

 private:
  size_t dimensions_;
  std::vector<int64_t> chunks_;
  std::vector<float> scales_;
  std::vector<int8_t> elements_;  ///< dimensions_ for each chunk
};

}  // namespace chimere::retrieval

#endif  // CHIMERE_RETRIEVAL_VECTOR_INDEX_H_
