// What CudaOps places beside plain weights.
#ifndef CHIMERE_KERNELS_CUDA_PLACED_H_
#define CHIMERE_KERNELS_CUDA_PLACED_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/api.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/moe_decode.h"

namespace chimere::kernels::cuda {

/// A layer's experts: on the GPU, or a layer of HostExperts.
struct CudaExperts final : PlacedExperts {
  CudaExperts(std::vector<ExpertWeights> r, std::optional<ExpertWeights> s)
      : PlacedExperts(std::move(r), s) {}

  ExpertTable table;  ///< without host_layer
  std::optional<size_t> host_layer;
};

/// An embedding table. Rows of tokens that the host knows are decoded by the host.
struct CudaTable final : PlacedTable {
  explicit CudaTable(const WeightView& t) : PlacedTable(t) {}

  std::unique_ptr<Pinned> pinned;  ///< holds `table`, for the GPU too; nullptr: it is the caller's
  std::unique_ptr<PlacedTable> for_host;
  size_t number = 0;  ///< in CudaOps::embeddings_
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_PLACED_H_
