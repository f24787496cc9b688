#include "serving/endpoints/endpoint.h"

namespace chimere::serving {

using protocol::ApiError;

std::optional<ApiError> Endpoint::check_model(const std::string& name) const {
  if (name.empty() || name == model().id) return std::nullopt;
  if (model().embedder && name == model().embedder->id) {
    return ApiError{"model_does_not_write",
                    "The model '" + name + "' computes embeddings and generates no text; use '" +
                        model().id + "'.",
                    "model"};
  }
  return unknown_model(name);
}

ApiError Endpoint::unknown_model(const std::string& name) const {
  const std::string embedder = model().embedder ? "' and '" + model().embedder->id : "";
  return {"model_not_found",
          "This server has no model '" + name.substr(0, 200) + "'; it has '" + model().id +
              embedder + "'.",
          "model"};
}

}  // namespace chimere::serving
