#include "state/prefix_file.h"

#include <zstd.h>

#include <array>
#include <utility>

#include "base/file_stream.h"
#include "state/checksum.h"

namespace chimere::state {
namespace {

constexpr std::array<uint8_t, 8> kMagic = {'C', 'H', 'I', 'M', 'P', 'R', 'F', 'X'};
constexpr uint32_t kVersion = 2;
constexpr int64_t kChecksumBytes = 8;
// Higher levels hardly compress states, which are floats, any further.
constexpr int kLevel = 1;
constexpr uint32_t kMaxScopeBytes = 4096;
/// More than a verification step has; bounds the memory that a header asks for.
constexpr uint32_t kMaxUnfolded = 1024;

/// The header as stored.
struct Header {
  std::array<uint8_t, 8> magic = kMagic;
  uint32_t version = kVersion;
  uint32_t tokens = 0;
  uint64_t fingerprint = 0;
  uint32_t first_page = 0;
  uint32_t scope_bytes = 0;
  uint64_t pages_bytes = 0;  ///< compressed
  uint64_t slot_bytes = 0;   ///< compressed
  uint32_t unfolded = 0;     ///< row blocks behind the slot
  uint32_t zero = 0;
};
static_assert(sizeof(Header) == 56);

template <typename T>
std::span<const uint8_t> raw(const T* data, size_t n) {
  return {reinterpret_cast<const uint8_t*>(data), n * sizeof(T)};
}
template <typename T>
std::span<uint8_t> raw(T* data, size_t n) {
  return {reinterpret_cast<uint8_t*>(data), n * sizeof(T)};
}

std::vector<uint8_t> compress(const std::vector<uint8_t>& bytes) {
  std::vector<uint8_t> out(ZSTD_compressBound(bytes.size()));
  out.resize(ZSTD_compress(out.data(), out.size(), bytes.data(), bytes.size(), kLevel));
  return out;
}

/// Decompresses to exactly `size` bytes, whatever size the frame claims. Errors: kInvalidData.
Result<StateImage::Bytes> decompress(const std::vector<uint8_t>& frame, int64_t size) {
  std::vector<uint8_t> out(static_cast<size_t>(size));
  const size_t got = ZSTD_decompress(out.data(), out.size(), frame.data(), frame.size());
  if (ZSTD_isError(got) != 0U || got != out.size()) {
    return invalid_data("it does not unpack to the size of its state");
  }
  return StateImage::Bytes(std::make_shared<const std::vector<uint8_t>>(std::move(out)));
}

Status write_section(ByteSink& to, std::span<const uint8_t> bytes) {
  SummedSink out(to);
  CHIMERE_CHECK_OK(out.write(bytes));
  return out.finish();
}

Result<std::vector<uint8_t>> read_section(ByteSource& from, uint64_t size, const char* what) {
  SummedSource in(from);
  std::vector<uint8_t> bytes(size);
  CHIMERE_CHECK_OK(in.read(bytes));
  CHIMERE_CHECK_OK(in.finish(what));
  return bytes;
}

int64_t pages_of(uint32_t tokens, const ImageLayout& layout) {
  if (layout.page_bytes == 0) return 0;
  return (int64_t{tokens} + layout.page_tokens - 1) / layout.page_tokens;
}

/// Checks all sizes before anything of that size is allocated.
Status check(const Header& h, uint64_t size, const ImageLayout& layout) {
  if (h.magic != kMagic) return invalid_data("it is not a cached state");
  if (h.version != kVersion) {
    return unsupported("it has version " + std::to_string(h.version) +
                       ", this program reads version " + std::to_string(kVersion));
  }
  if (h.fingerprint != layout.fingerprint) {
    return unsupported(
        "it belongs to another model, other weights, another cache type or version of the "
        "arithmetic");
  }
  uint64_t left = size - sizeof(Header) - 3 * kChecksumBytes;
  const auto take = [&left](uint64_t n) {
    if (n > left) return false;
    left -= n;
    return true;
  };
  const bool fits = take(h.scope_bytes) && take(uint64_t{h.tokens} * sizeof(int32_t)) &&
                    take(h.pages_bytes) && take(h.slot_bytes) && left == 0;
  if (!fits)
    return invalid_data(
        "its size is not the one that its header gives; it was truncated or changed");
  if (h.tokens == 0 || h.scope_bytes > kMaxScopeBytes || h.zero != 0 || h.unfolded > h.tokens ||
      h.unfolded > kMaxUnfolded || (h.unfolded > 0 && layout.row_bytes == 0) ||
      int64_t{h.first_page} > pages_of(h.tokens, layout)) {
    return invalid_data("its header is invalid");
  }
  return {};
}

struct Opened {
  InputFile file;
  Header header;
  PrefixFileInfo info;
};

/// Error messages do not name the file; the caller adds its name.
Result<Opened> read_beginning(const std::string& path, const ImageLayout& layout) {
  Opened out;
  CHIMERE_TRY(out.file, InputFile::open(path));
  const uint64_t size = out.file.remaining();
  if (size < sizeof(Header) + 3 * kChecksumBytes) return invalid_data("it is not a cached state");
  SummedSource in(out.file);
  CHIMERE_CHECK_OK(in.read(raw(&out.header, 1)));
  CHIMERE_CHECK_OK(check(out.header, size, layout));
  out.info.name.scope.resize(out.header.scope_bytes);
  out.info.name.tokens.resize(out.header.tokens);
  CHIMERE_CHECK_OK(in.read(raw(out.info.name.scope.data(), out.info.name.scope.size())));
  CHIMERE_CHECK_OK(in.read(raw(out.info.name.tokens.data(), out.info.name.tokens.size())));
  CHIMERE_CHECK_OK(in.finish("its beginning"));
  out.info.first_page = static_cast<int32_t>(out.header.first_page);
  out.info.file_bytes = static_cast<int64_t>(size);
  return out;
}

uint64_t combined(uint64_t fingerprint, const Hash128& weights) {
  const std::array<uint64_t, 3> all = {fingerprint, weights.low, weights.high};
  return checksum(raw(all.data(), all.size()));
}

Error about(const std::string& path, Error error) {
  if (error.code == Error::Code::kIo || error.code == Error::Code::kNotFound) return error;
  error.message =
      "The file " + path + " of the prefix cache cannot be used: " + error.message + ".";
  return error;
}

int64_t window_bytes(int64_t position, const ImageLayout& layout) {
  int64_t bytes = 0;
  for (const auto& [window, page_bytes] : layout.windows) {
    bytes += pages_in_window(position, window, layout.page_tokens) * page_bytes;
  }
  return bytes;
}

Result<StateImage> read_image(const std::string& path, const PrefixName& name, bool with_slot,
                              const ImageLayout& layout) {
  CHIMERE_TRY(Opened opened, read_beginning(path, layout));
  const Header& h = opened.header;
  if (opened.info.name.scope != name.scope || opened.info.name.tokens != name.tokens) {
    return invalid_data("it holds another prefix than its name says");
  }
  StateImage image;
  image.position = static_cast<int32_t>(h.tokens);
  image.first_page = opened.info.first_page;
  CHIMERE_TRY(const auto pages, read_section(opened.file, h.pages_bytes, "its list of pages"));
  CHIMERE_TRY(image.pages,
              decompress(pages, (pages_of(h.tokens, layout) - h.first_page) * layout.page_bytes));
  if (!with_slot) return image;
  CHIMERE_TRY(const auto slot, read_section(opened.file, h.slot_bytes, "its recurrent state"));
  CHIMERE_TRY(image.slot, decompress(slot, layout.slot_bytes + h.unfolded * layout.row_bytes +
                                               window_bytes(image.position, layout)));
  image.unfolded = static_cast<int32_t>(h.unfolded);
  return image;
}

}  // namespace

ImageLayout::ImageLayout(const StateStore& store, const Hash128& weights)
    : fingerprint(combined(store.fingerprint(), weights)),
      page_tokens(store.spec().page_tokens),
      page_bytes(store.page_stride()),
      slot_bytes(store.slot_stride()),
      windows(store.windows()),
      row_bytes(store.bytes_per_pending_row()) {}

std::string PrefixName::file_name() const {
  Checksum sum;
  const uint64_t scope_bytes = scope.size();
  sum.update(raw(&scope_bytes, 1));
  sum.update(raw(scope.data(), scope.size()));
  sum.update(raw(tokens.data(), tokens.size()));
  return hexadecimal(sum.value()) + ".prefix";
}

Result<int64_t> write_prefix_file(const std::string& folder, const PrefixName& name,
                                  const StateImage& image, const ImageLayout& layout) {
  if (image.pages == nullptr || image.slot == nullptr) {
    return io_error("The state for the prefix cache could not be read from its device.");
  }
  const std::vector<uint8_t> pages = compress(*image.pages);
  const std::vector<uint8_t> slot = compress(*image.slot);
  Header h;
  h.tokens = static_cast<uint32_t>(name.tokens.size());
  h.fingerprint = layout.fingerprint;
  h.first_page = static_cast<uint32_t>(image.first_page);
  h.scope_bytes = static_cast<uint32_t>(name.scope.size());
  h.pages_bytes = pages.size();
  h.slot_bytes = slot.size();
  h.unfolded = static_cast<uint32_t>(image.unfolded);
  CHIMERE_TRY(AtomicFile file, AtomicFile::create(folder + "/" + name.file_name()));
  SummedSink beginning(file);
  CHIMERE_CHECK_OK(beginning.write(raw(&h, 1)));
  CHIMERE_CHECK_OK(beginning.write(raw(name.scope.data(), name.scope.size())));
  CHIMERE_CHECK_OK(beginning.write(raw(name.tokens.data(), name.tokens.size())));
  CHIMERE_CHECK_OK(beginning.finish());
  CHIMERE_CHECK_OK(write_section(file, pages));
  CHIMERE_CHECK_OK(write_section(file, slot));
  CHIMERE_CHECK_OK(file.commit());
  return static_cast<int64_t>(sizeof(Header) + name.scope.size() +
                              name.tokens.size() * sizeof(int32_t) + pages.size() + slot.size()) +
         3 * kChecksumBytes;
}

Result<PrefixFileInfo> read_prefix_info(const std::string& path, const ImageLayout& layout) {
  auto opened = read_beginning(path, layout);
  if (!opened.ok()) return about(path, std::move(opened).error());
  return std::move(opened->info);
}

bool is_unusable(const Error& error) {
  return error.code == Error::Code::kInvalidData || error.code == Error::Code::kUnsupported;
}

Result<StateImage> read_prefix_file(const std::string& folder, const PrefixName& name,
                                    bool with_slot, const ImageLayout& layout) {
  const std::string path = folder + "/" + name.file_name();
  auto image = read_image(path, name, with_slot, layout);
  if (!image.ok()) return about(path, std::move(image).error());
  return image;
}

}  // namespace chimere::state
