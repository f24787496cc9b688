#include "runtime/sequence.h"

#include <cstring>
#include <string>

namespace chimere::runtime {
namespace {

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t reserved;
  state::Hash128 weights;
  uint64_t prompt;     ///< tokens
  uint64_t generated;  ///< tokens
  uint64_t state;      ///< bytes
};
static_assert(sizeof(Header) == 56);

constexpr char kMagic[8] = {'C', 'H', 'I', 'M', 'S', 'E', 'Q', '\0'};
constexpr uint32_t kVersion = 1;

template <typename T>
std::span<const uint8_t> bytes_of(std::span<const T> values) {
  return {reinterpret_cast<const uint8_t*>(values.data()), values.size_bytes()};
}

template <typename T>
Status read_into(state::SummedSource& from, uint64_t n, std::vector<T>& out) {
  out.resize(n);
  return from.read({reinterpret_cast<uint8_t*>(out.data()), n * sizeof(T)});
}

}  // namespace

Status write_sequence(ByteSink& to, const Sequence& sequence, const state::Hash128& weights) {
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.version = kVersion;
  header.weights = weights;
  header.prompt = sequence.prompt.size();
  header.generated = sequence.generated.size();
  header.state = sequence.state.size();
  state::SummedSink summed(to);
  CHIMERE_CHECK_OK(summed.write(bytes_of(std::span<const Header>(&header, 1))));
  CHIMERE_CHECK_OK(summed.write(bytes_of(std::span(sequence.prompt))));
  CHIMERE_CHECK_OK(summed.write(bytes_of(std::span(sequence.generated))));
  CHIMERE_CHECK_OK(summed.write(sequence.state));
  return summed.finish();
}

Result<Sequence> read_sequence(ByteSource& from, const state::Hash128& weights) {
  state::SummedSource summed(from);
  Header header;
  CHIMERE_CHECK_OK(summed.read({reinterpret_cast<uint8_t*>(&header), sizeof(header)}));
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0) {
    return invalid_data("These bytes are no saved sequence.");
  }
  if (header.version != kVersion) {
    return unsupported("The sequence was saved in version " + std::to_string(header.version) +
                       " of the format; this program reads version " + std::to_string(kVersion) +
                       ".");
  }
  // Each size alone is at most what is left, so that the sum cannot overflow.
  const uint64_t left = from.remaining();
  const bool bounded =
      header.prompt <= left / 4 && header.generated <= left / 4 && header.state <= left;
  if (!bounded || (header.prompt + header.generated) * 4 + header.state + 8 != left) {
    return invalid_data("The saved sequence is damaged: its sizes do not add up.");
  }
  Sequence out;
  CHIMERE_CHECK_OK(read_into(summed, header.prompt, out.prompt));
  CHIMERE_CHECK_OK(read_into(summed, header.generated, out.generated));
  CHIMERE_CHECK_OK(read_into(summed, header.state, out.state));
  CHIMERE_CHECK_OK(summed.finish("The saved sequence"));
  if (header.weights != weights) {
    return unsupported("The sequence was saved by a model with other weights.");
  }
  if (out.prompt.empty() || out.generated.empty() != out.state.empty()) {
    return invalid_data("The saved sequence is damaged: it has no prompt, or no state.");
  }
  return out;
}

}  // namespace chimere::runtime
