#include "state/checkpoint_file.h"

#include <array>
#include <utility>

#include "base/file_stream.h"
#include "state/checksum.h"

namespace chimere::state {
namespace {

constexpr std::array<uint8_t, 8> kMagic = {'C', 'H', 'I', 'M', 'C', 'K', 'P', 'T'};
constexpr uint32_t kVersion = 2;
constexpr uint64_t kChecksumBytes = 8;

/// The header as stored.
struct Header {
  std::array<uint8_t, 8> magic = kMagic;
  uint32_t version = kVersion;
  uint32_t tokens = 0;
  uint64_t note_bytes = 0;
  uint64_t state_bytes = 0;
  Hash128 weights;
};
static_assert(sizeof(Header) == 48);

template <typename T>
std::span<const uint8_t> raw(const T* data, size_t n) {
  return {reinterpret_cast<const uint8_t*>(data), n * sizeof(T)};
}
template <typename T>
std::span<uint8_t> raw(T* data, size_t n) {
  return {reinterpret_cast<uint8_t*>(data), n * sizeof(T)};
}

Status check(const Header& header, uint64_t size) {
  if (header.magic != kMagic) return invalid_data("it is not a stored conversation");
  if (header.version != kVersion) {
    return unsupported("it has version " + std::to_string(header.version) +
                       ", this program reads version " + std::to_string(kVersion));
  }
  uint64_t left = size - sizeof(Header) - kChecksumBytes;
  const uint64_t token_bytes = uint64_t{header.tokens} * sizeof(int32_t);
  bool fits = token_bytes <= left;
  if (fits) left -= token_bytes;
  fits = fits && header.note_bytes <= left;
  if (fits) left -= header.note_bytes;
  if (!fits || header.state_bytes != left) {
    return invalid_data("it has " + std::to_string(size) +
                        " bytes, but its header says otherwise; it was truncated or changed");
  }
  return {};
}

}  // namespace

Status write_checkpoint(ByteSink& to, const Checkpoint& state, std::span<const int32_t> tokens,
                        std::string_view note, const Hash128& weights) {
  if (tokens.size() != static_cast<size_t>(state.position())) {
    return invalid_argument("a state after " + std::to_string(state.position()) +
                            " tokens cannot be stored with " + std::to_string(tokens.size()));
  }
  Header header;
  header.tokens = static_cast<uint32_t>(tokens.size());
  header.note_bytes = note.size();
  header.state_bytes = state.stored_bytes();
  header.weights = weights;
  SummedSink out(to);
  CHIMERE_CHECK_OK(out.write(raw(&header, 1)));
  CHIMERE_CHECK_OK(out.write(raw(tokens.data(), tokens.size())));
  CHIMERE_CHECK_OK(out.write(raw(note.data(), note.size())));
  CHIMERE_CHECK_OK(out.finish());
  return state.write(to);
}

Status save_checkpoint(const std::string& path, const Checkpoint& state,
                       std::span<const int32_t> tokens, std::string_view note,
                       const Hash128& weights) {
  CHIMERE_TRY(AtomicFile file, AtomicFile::create(path));
  CHIMERE_CHECK_OK(write_checkpoint(file, state, tokens, note, weights));
  return file.commit();
}

Result<StoredSequence> read_checkpoint(ByteSource& from, StateStore& store,
                                       const Hash128& weights) {
  const uint64_t size = from.remaining();
  if (size < sizeof(Header) + kChecksumBytes)
    return invalid_data("it is not a stored conversation");
  SummedSource in(from);
  Header header;
  CHIMERE_CHECK_OK(in.read(raw(&header, 1)));
  CHIMERE_CHECK_OK(check(header, size));
  StoredSequence stored;
  stored.tokens.resize(header.tokens);
  CHIMERE_CHECK_OK(in.read(raw(stored.tokens.data(), stored.tokens.size())));
  stored.note.resize(header.note_bytes);
  CHIMERE_CHECK_OK(in.read(raw(stored.note.data(), stored.note.size())));
  CHIMERE_CHECK_OK(in.finish("its list of tokens"));
  CHIMERE_TRY(stored.state, store.read(from));
  // Behind the store's checks, which know more precisely how another model differs.
  if (header.weights != weights) {
    return unsupported(
        "it was made with other weights: the model's file is another one, or was changed since; "
        "run the file that it was made with, or begin a conversation in another file");
  }
  if (stored.tokens.size() != static_cast<size_t>(stored.state->position())) {
    return invalid_data("it has " + std::to_string(stored.tokens.size()) +
                        " tokens, but a state after " + std::to_string(stored.state->position()));
  }
  return stored;
}

Result<StoredSequence> load_checkpoint(const std::string& path, StateStore& store,
                                       const Hash128& weights) {
  CHIMERE_TRY(InputFile file, InputFile::open(path));
  auto stored = read_checkpoint(file, store, weights);
  if (stored.ok() || stored.error().code == Error::Code::kIo) return stored;
  Error error = std::move(stored).error();
  error.message = "The file " + path + " cannot be continued: " + error.message + ".";
  return error;
}

}  // namespace chimere::state
