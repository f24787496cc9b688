// Responses of llama.cpp's server.
#ifndef CHIMERE_PROTOCOL_LLAMA_CPP_WRITER_H_
#define CHIMERE_PROTOCOL_LLAMA_CPP_WRITER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/settings.h"
#include "protocol/generation_writer.h"
#include "protocol/responses.h"

namespace chimere::protocol {

/// /completion and /infill.
std::unique_ptr<GenerationWriter> llama_cpp_writer(std::string id, std::string model);

struct ServerProps {
  std::string model;
  std::string version;
  int64_t context = 0;  ///< tokens of a request
  int64_t slots = 0;    ///< requests that can run at the same time
  std::string chat_template;
  std::string bos;  ///< text of the token; empty: none
  std::string eos;
  std::string speculate;  ///< a value of --speculate
  std::optional<DraftModelInfo> draft_model;
};
/// `defaults`: of sampling.
std::string props_response(const ServerProps& props, const Settings& defaults);
/// One entry for each request that can run; the first `running` are busy.
std::string slots_response(int64_t slots, int64_t running, int64_t context);
/// An adapter of a model.
struct LoraEntry {
  std::string name;
  std::string path;
  double scale = 0;  ///< of requests that choose no adapters
};
/// The adapters in the order of their ids.
std::string lora_response(std::span<const LoraEntry> adapters);
std::string template_response(const std::string& prompt);

}  // namespace chimere::protocol

#endif  // CHIMERE_PROTOCOL_LLAMA_CPP_WRITER_H_
