#include "gguf/reader.h"

#include <algorithm>
#include <utility>

#include "gguf/contents.h"
#include "gguf/file_parser.h"
#include "gguf/split_set.h"

namespace chimere::gguf {

struct Reader::Impl {
  std::string path;
  std::vector<MappedFile> files;  ///< empty after from_bytes()
  uint64_t bytes = 0;
  uint32_t version = 0;
  Contents contents;
};

namespace {

struct OpenFile {
  MappedFile file;
  ParsedFile parsed;
};

Error in_file(const std::string& path, const Error& error) {
  return Error{error.code, path + ": " + error.message};
}

Result<OpenFile> open_file(const std::string& path) {
  OpenFile out;
  CHIMERE_TRY(out.file, MappedFile::open(path));
  auto parsed = parse_file(out.file.data(), out.file.size());
  // Do not report errors in the content of a file that changed while it was read.
  CHIMERE_CHECK_OK(out.file.check_unchanged());
  if (!parsed.ok()) return in_file(path, parsed.error());
  out.parsed = std::move(parsed).value();
  return out;
}

struct Place {
  const MappedFile* file = nullptr;
  size_t offset = 0;
};

/// Where mapped bytes lie; no file after from_bytes().
Place place_in(const std::vector<MappedFile>& files, const uint8_t* data) {
  for (const MappedFile& file : files) {
    const size_t offset =
        reinterpret_cast<uintptr_t>(data) - reinterpret_cast<uintptr_t>(file.data());
    if (offset < file.size()) return {&file, offset};
  }
  return {};
}

}  // namespace

Reader::Reader() : impl_(std::make_unique<Impl>()) {}
Reader::~Reader() = default;

Result<std::unique_ptr<Reader>> Reader::open(const std::string& path) {
  std::unique_ptr<Reader> reader(new Reader());
  Impl& impl = *reader->impl_;
  impl.path = path;
  auto named = open_file(path);
  if (!named.ok()) return named.error();
  impl.version = named->parsed.version;
  const auto place = split_place(named->parsed.contents);
  if (!place.ok()) return in_file(path, place.error());
  if (place->count == 1) {
    impl.bytes = named->file.size();
    impl.files.push_back(std::move(named->file));
    impl.contents = std::move(named->parsed.contents);
    return reader;
  }

  const auto prefix = split_prefix(path, *place);
  if (!prefix.ok()) return in_file(path, prefix.error());
  std::vector<Contents> parts;
  std::vector<std::string> paths;
  for (int64_t i = 0; i < place->count; ++i) {
    paths.push_back(split_path(*prefix, i, place->count));
    auto other = i == place->number ? Result<OpenFile>(OpenFile{}) : open_file(paths.back());
    Result<OpenFile>& part = i == place->number ? named : other;
    if (!part.ok() && part.error().code == Error::Code::kNotFound) {
      return not_found(path + " is " + place->text() + ", and " + paths.back() +
                       " is missing; all parts must lie in one folder");
    }
    if (!part.ok()) return part.error();
    impl.bytes += part->file.size();
    impl.files.push_back(std::move(part->file));
    parts.push_back(std::move(part->parsed.contents));
  }
  CHIMERE_TRY(impl.contents, join_parts(std::move(parts), paths));
  return reader;
}

Result<std::unique_ptr<Reader>> Reader::from_bytes(const void* data, size_t size) {
  std::unique_ptr<Reader> reader(new Reader());
  Impl& impl = *reader->impl_;
  CHIMERE_TRY(ParsedFile parsed, parse_file(static_cast<const uint8_t*>(data), size));
  CHIMERE_TRY(const SplitPlace place, split_place(parsed.contents));
  if (place.count > 1) {
    return unsupported("this is " + place.text() +
                       " of a split model; open it as a file, beside the other parts");
  }
  impl.bytes = size;
  impl.version = parsed.version;
  impl.contents = std::move(parsed.contents);
  return reader;
}

const std::string& Reader::path() const { return impl_->path; }
uint64_t Reader::file_bytes() const { return impl_->bytes; }
uint32_t Reader::version() const { return impl_->version; }
const std::vector<std::string>& Reader::keys() const { return impl_->contents.keys(); }
const Value* Reader::find(std::string_view key) const { return impl_->contents.find(key); }
const std::vector<TensorInfo>& Reader::tensors() const { return impl_->contents.tensors(); }
const TensorInfo* Reader::find_tensor(std::string_view name) const {
  return impl_->contents.find_tensor(name);
}

Status Reader::check_unchanged() const {
  for (const MappedFile& file : impl_->files) CHIMERE_CHECK_OK(file.check_unchanged());
  return {};
}

Status Reader::read(const uint8_t* data, std::span<uint8_t> out) const {
  if (const Place place = place_in(impl_->files, data); place.file != nullptr) {
    return place.file->read(place.offset, out);
  }
  std::copy_n(data, out.size(), out.data());  // from_bytes()
  return {};
}

void Reader::forget(const uint8_t* data, size_t bytes) const {
  const Place place = place_in(impl_->files, data);
  if (place.file != nullptr) place.file->forget(place.offset, bytes);
}

std::span<const MappedFile> Reader::files() const { return impl_->files; }

}  // namespace chimere::gguf
