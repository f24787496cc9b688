#include "model/chunking.h"

#include <algorithm>

#include "kernels/api.h"

namespace chimere::model {

std::vector<int32_t> chunk_sizes(std::span<const int32_t> tokens,
                                 std::span<const int32_t> message_starts) {
  std::vector<int32_t> sizes;
  for (const int32_t token : tokens) {
    const bool starts_message =
        std::find(message_starts.begin(), message_starts.end(), token) != message_starts.end();
    if (sizes.empty() || starts_message || sizes.back() == kernels::kMaxChunkRows) {
      sizes.push_back(0);
    }
    ++sizes.back();
  }
  return sizes;
}

}  // namespace chimere::model
