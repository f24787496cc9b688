#include "companion_data.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

namespace chimere::train {

Result<Marks> Marks::find(const gguf::Reader& vocabulary) {
  const auto* tokens = vocabulary.find_strings("tokenizer.ggml.tokens");
  if (tokens == nullptr) return invalid_data("The file has no vocabulary.");
  int64_t ids[4];
  const char* const texts[] = {"<|im_start|>", "<|im_end|>", "yes", "no"};
  for (int i = 0; i < 4; ++i) {
    const auto at = std::find(tokens->begin(), tokens->end(), texts[i]);
    if (at == tokens->end()) return invalid_data(std::string("The vocabulary lacks ") + texts[i]);
    ids[i] = at - tokens->begin();
  }
  return Marks{static_cast<uint16_t>(ids[0]), static_cast<uint16_t>(ids[1]), ids[2], ids[3]};
}

std::vector<std::vector<Text>> read_records(const TokenFile& file, const Marks& marks) {
  std::vector<std::vector<Text>> records;
  std::vector<Text> parts;
  size_t from = 0;
  for (size_t i = 0; i < file.ids.size(); ++i) {
    const uint16_t id = file.ids[i];
    if (id != marks.passage_end && id != file.end) continue;
    if (i > from) parts.push_back(Text(file.ids).subspan(from, i - from));
    from = i + 1;
    if (id == file.end) records.push_back(std::exchange(parts, {}));
  }
  return records;
}

std::vector<PairOrder::Pair> PairOrder::pairs(int64_t step, int64_t groups) {
  const auto n = static_cast<int64_t>(records_.size()) / kGroup;
  const int64_t steps = n / groups;  // of an epoch
  if (step / steps != epoch_) {
    epoch_ = step / steps;
    order_.resize(static_cast<size_t>(n));
    std::iota(order_.begin(), order_.end(), 0);
    std::mt19937_64 shuffle(seed_ * 1'000'003 + static_cast<uint64_t>(epoch_));
    std::shuffle(order_.begin(), order_.end(), shuffle);
  }
  std::mt19937_64 rng((seed_ << 32) + static_cast<uint64_t>(step));
  std::vector<Pair> out;
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t group = order_[static_cast<size_t>(step % steps * groups + g)];
    for (int64_t i = 0; i < kGroup; ++i) {
      const auto& record = records_[static_cast<size_t>(group * kGroup + i)];
      out.push_back({record[1 + rng() % (record.size() - 1)], record[0]});
    }
  }
  return out;
}

Batch make_batch(const std::vector<std::vector<uint16_t>>& texts, int64_t longest,
                 torch::Device device) {
  const auto size = [&](const auto& text) {
    return std::min(longest, static_cast<int64_t>(text.size()));
  };
  int64_t most = 1;
  for (const auto& text : texts) most = std::max(most, size(text));
  const auto n = static_cast<int64_t>(texts.size());
  Batch out{torch::zeros({n, most}, torch::kLong), torch::zeros({n}, torch::kLong)};
  for (int64_t i = 0; i < n; ++i) {
    const auto& text = texts[static_cast<size_t>(i)];
    std::copy_n(text.begin(), size(text), out.tokens.data_ptr<int64_t>() + i * most);
    out.lengths.data_ptr<int64_t>()[i] = size(text);
  }
  return {out.tokens.to(device), out.lengths.to(device)};
}

std::vector<uint16_t> question_and_passage(Text question, Text passage, const Marks& marks,
                                           int64_t longest) {
  std::vector<uint16_t> out(question.begin(), question.end());
  out.push_back(marks.question_end);
  const auto room = std::max<int64_t>(0, longest - static_cast<int64_t>(out.size()) - 1);
  const auto cut = std::min(passage.size(), static_cast<size_t>(room));
  out.insert(out.end(), passage.begin(), passage.begin() + static_cast<std::ptrdiff_t>(cut));
  out.push_back(marks.passage_end);
  return out;
}

}  // namespace chimere::train
