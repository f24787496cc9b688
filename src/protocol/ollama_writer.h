// Responses of Ollama's API.
#ifndef CHIMERE_PROTOCOL_OLLAMA_WRITER_H_
#define CHIMERE_PROTOCOL_OLLAMA_WRITER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "protocol/generation_writer.h"

namespace chimere::protocol {

/// Lines of JSON. `chat`: /api/chat, otherwise /api/generate.
std::unique_ptr<GenerationWriter> ollama_writer(std::string id, std::string model, bool chat);

/// The response to a request without a prompt. `reason`: "load" or "unload".
std::string ollama_loaded(const std::string& model, bool chat, const char* reason);

/// What is said about a model.
struct OllamaModel {
  std::string id;
  int64_t created = 0;  ///< seconds since 1970
  std::string digest;   ///< hexadecimal digits that name the model
  int64_t bytes = 0;    ///< of the file
  int64_t parameters = 0;
  std::string architecture;
  std::string quantization;
  int64_t context = 0;        ///< tokens
  int64_t memory = 0;         ///< bytes that the loaded model takes
  int64_t expires = 0;        ///< seconds since 1970; 0: it stays loaded
  std::string chat_template;  ///< may be empty
  std::vector<std::string> capabilities;
};
std::string ollama_tags(std::span<const OllamaModel> models);
std::string ollama_ps(std::span<const OllamaModel> models);
std::string ollama_show(const OllamaModel& model);

/// A line of a stream of /api/pull.
std::string ollama_status(std::string_view status);
std::string ollama_pulling(const std::string& model, int64_t done, int64_t total);

/// `seconds`: of the request. `one`: of /api/embeddings.
std::string ollama_embeddings(const std::string& model, std::span<const std::vector<float>> vectors,
                              int64_t tokens, double seconds, bool one);

}  // namespace chimere::protocol

#endif  // CHIMERE_PROTOCOL_OLLAMA_WRITER_H_
