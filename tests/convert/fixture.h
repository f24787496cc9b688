// A model of transformers that is kept as its configuration and rules for its weights, and what
// llama.cpp's converter and transformers made of it (README.md here).
#ifndef CHIMERE_TESTS_CONVERT_FIXTURE_H_
#define CHIMERE_TESTS_CONVERT_FIXTURE_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace chimere::test {

using Json = nlohmann::json;

/// How a weight file holds its numbers.
enum class Stored : uint8_t { kF32, kF16, kBF16 };

/// Writes config.json and model.safetensors into `folder`, with the weights that the fixture's
/// rules give: offset + scale * u / 4096 for u in [-1, 1) drawn from the tensor's name.
void write_model_folder(const Json& fixture, const std::string& folder,
                        Stored stored = Stored::kF32);

/// The same draw (tests/convert/record.py): `count` numbers.
std::vector<float> drawn(std::string_view name, int64_t count, int offset, int scale);

}  // namespace chimere::test

#endif  // CHIMERE_TESTS_CONVERT_FIXTURE_H_
