// Checks the worked examples of docs/formats.md against the reader and the decoders.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <vector>

#include "gguf/reader.h"
#include "quant/quant.h"

namespace chimere::gguf {
namespace {

struct Example {
  std::string type;
  std::map<size_t, uint8_t> bytes;
  std::map<size_t, float> elements;
};

// Lines "offset: hex hex ...  comment" or "x[index] = value".
void parse_line(const std::string& line, Example& example) {
  size_t index = 0;
  float value = 0;
  if (std::sscanf(line.c_str(), "x[%zu] = %f", &index, &value) == 2) {
    example.elements[index] = value;
    return;
  }
  std::istringstream in(line);
  char colon = 0;
  ASSERT_TRUE(in >> index >> colon && colon == ':') << line;
  for (std::string word; in >> word;) {
    if (word.size() != 2 || word.find_first_not_of("0123456789abcdef") != std::string::npos) break;
    ASSERT_TRUE(example.bytes.emplace(index++, std::stoi(word, nullptr, 16)).second) << line;
  }
}

std::vector<Example> examples() {
  std::ifstream page(CHIMERE_DOCS_DIR "/formats.md");
  EXPECT_TRUE(page.good());
  constexpr std::string_view kFence = "```example ";
  std::vector<Example> out;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with(kFence)) {
      out.push_back({line.substr(kFence.size()), {}, {}});
      inside = true;
    } else if (line.starts_with("```")) {
      inside = false;
    } else if (inside) {
      parse_line(line, out.back());
    }
  }
  return out;
}

TEST(FormatsPage, ExamplesOfBlocksDecodeAsStated) {
  size_t checked = 0;
  for (const Example& e : examples()) {
    if (e.type == "gguf") continue;
    const auto type = parse_dtype(e.type);
    ASSERT_TRUE(type.has_value()) << e.type;
    const DTypeInfo& info = dtype_info(*type);
    std::vector<uint16_t> storage(static_cast<size_t>(info.block_bytes) / 2 + 1);
    auto* block = reinterpret_cast<uint8_t*>(storage.data());
    for (const auto& [offset, byte] : e.bytes) {
      ASSERT_LT(offset, static_cast<size_t>(info.block_bytes)) << e.type;
      block[offset] = byte;
    }
    std::vector<float> x(static_cast<size_t>(info.block_elements));
    quant::decode(*type, block, x.data(), info.block_elements);
    EXPECT_GE(e.elements.size(), 2U) << e.type;
    for (const auto& [index, value] : e.elements) {
      ASSERT_LT(index, x.size()) << e.type;
      EXPECT_EQ(x[index], value) << e.type << " element " << index;
    }
    ++checked;
  }
  EXPECT_EQ(checked, 26U) << "every block format has one example";
}

TEST(FormatsPage, TheExampleFileReadsAsStated) {
  for (const Example& e : examples()) {
    if (e.type != "gguf") continue;
    std::vector<uint8_t> file(e.bytes.rbegin()->first + 1);
    for (const auto& [offset, byte] : e.bytes) file[offset] = byte;
    auto r = Reader::from_bytes(file.data(), file.size());
    ASSERT_TRUE(r.ok()) << r.error().message;
    EXPECT_EQ((*r)->get_int("count").value(), 7);
    const TensorInfo* w = (*r)->find_tensor("w");
    ASSERT_NE(w, nullptr);
    EXPECT_EQ(w->offset, 96U);
    float x[2];
    ASSERT_EQ(w->bytes, sizeof x);
    std::memcpy(x, w->data, sizeof x);
    EXPECT_EQ(x[0], 1.0F);
    EXPECT_EQ(x[1], -2.0F);
    return;
  }
  FAIL() << "the page has no example of a file";
}

}  // namespace
}  // namespace chimere::gguf
