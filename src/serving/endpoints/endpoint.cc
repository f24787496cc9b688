#include "serving/endpoints/endpoint.h"

#include <algorithm>
#include <iterator>

namespace chimere::serving {

std::optional<protocol::ApiError> Endpoint::check_model(const Call& call,
                                                        const std::string& name) const {
  if (!call.orchestrator.empty()) return std::nullopt;
  const bool text = call.model != nullptr;
  const std::string& id = text ? call.model->id : call.embedder->id;
  if (name.empty() || name == id) return std::nullopt;
  return registry().check(name, text ? ModelKind::kText : call.embedder->kind());
}

void Endpoint::note(Call& call, const protocol::RequestNotes& notes) {
  for (const std::string& name : notes.ignored) {
    call.ignored += (call.ignored.empty() ? "" : ",") + name;
  }
  std::ranges::move(protocol::warnings_of(notes), std::back_inserter(call.warnings));
}

}  // namespace chimere::serving
