#include "constraints/json_schema/uri.h"

#include <cstddef>

namespace chimere::constraints::json_schema {

namespace {

struct UriParts {
  std::string_view scheme, authority, path, query, fragment;
  bool has_scheme = false, has_authority = false, has_query = false, has_fragment = false;
};

UriParts parse_uri(std::string_view uri) {
  UriParts parts;
  if (const size_t hash = uri.find('#'); hash != std::string_view::npos) {
    parts.fragment = uri.substr(hash + 1);
    parts.has_fragment = true;
    uri = uri.substr(0, hash);
  }
  const size_t colon = uri.find(':');
  if (colon != std::string_view::npos && colon > 0 && uri.find_first_of("/?") > colon) {
    parts.scheme = uri.substr(0, colon);
    parts.has_scheme = true;
    uri = uri.substr(colon + 1);
  }
  if (const size_t mark = uri.find('?'); mark != std::string_view::npos) {
    parts.query = uri.substr(mark + 1);
    parts.has_query = true;
    uri = uri.substr(0, mark);
  }
  if (uri.substr(0, 2) == "//") {
    const size_t slash = uri.find('/', 2);
    parts.authority = uri.substr(2, slash == std::string_view::npos ? slash : slash - 2);
    parts.has_authority = true;
    uri = slash == std::string_view::npos ? std::string_view() : uri.substr(slash);
  }
  parts.path = uri;
  return parts;
}

std::string remove_dot_segments(std::string_view path) {
  std::vector<std::string_view> kept;
  const bool absolute = !path.empty() && path[0] == '/';
  size_t at = absolute ? 1 : 0;
  bool directory = false;
  while (at <= path.size()) {
    size_t end = path.find('/', at);
    if (end == std::string_view::npos) end = path.size();
    const std::string_view segment = path.substr(at, end - at);
    directory = segment == "." || segment == "..";
    if (segment == "..") {
      if (!kept.empty()) kept.pop_back();
    } else if (segment != ".") {
      kept.push_back(segment);
    }
    at = end + 1;
  }
  std::string out = absolute ? "/" : "";
  for (size_t i = 0; i < kept.size(); ++i) {
    if (i > 0) out += '/';
    out += kept[i];
  }
  if (directory && !kept.empty()) out += '/';
  return out;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::string resolve_uri(std::string_view base, std::string_view reference) {
  const UriParts from = parse_uri(base);
  UriParts to = parse_uri(reference);
  std::string path;
  if (to.has_scheme || to.has_authority) {
    path = remove_dot_segments(to.path);
  } else if (to.path.empty()) {
    path = from.path;
    if (!to.has_query) {
      to.query = from.query;
      to.has_query = from.has_query;
    }
  } else if (to.path[0] == '/') {
    path = remove_dot_segments(to.path);
  } else if (from.path.empty() && from.has_authority) {
    path = remove_dot_segments("/" + std::string(to.path));
  } else {
    const size_t slash = from.path.rfind('/');
    const std::string_view folder =
        slash == std::string_view::npos ? std::string_view() : from.path.substr(0, slash + 1);
    path = remove_dot_segments(std::string(folder) + std::string(to.path));
  }
  if (!to.has_scheme) {
    if (!to.has_authority) {
      to.authority = from.authority;
      to.has_authority = from.has_authority;
    }
    to.scheme = from.scheme;
    to.has_scheme = from.has_scheme;
  }
  std::string out;
  if (to.has_scheme) out += std::string(to.scheme) + ":";
  if (to.has_authority) out += "//" + std::string(to.authority);
  out += path;
  if (to.has_query) out += "?" + std::string(to.query);
  if (to.has_fragment) out += "#" + std::string(to.fragment);
  return out;
}

SplitUri split_fragment(std::string_view uri) {
  SplitUri split;
  const size_t hash = uri.find('#');
  split.document = std::string(uri.substr(0, hash));
  if (hash == std::string_view::npos) return split;
  const std::string_view raw = uri.substr(hash + 1);
  for (size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] == '%' && i + 2 < raw.size() && hex_digit(raw[i + 1]) >= 0 &&
        hex_digit(raw[i + 2]) >= 0) {
      split.fragment += static_cast<char>(hex_digit(raw[i + 1]) * 16 + hex_digit(raw[i + 2]));
      i += 2;
    } else {
      split.fragment += raw[i];
    }
  }
  return split;
}

std::vector<std::string> pointer_tokens(std::string_view pointer) {
  std::vector<std::string> tokens;
  for (size_t i = 0; i < pointer.size(); ++i) {
    if (pointer[i] == '/') {
      tokens.emplace_back();
    } else if (tokens.empty()) {
      tokens.emplace_back(1, pointer[i]);  // not a pointer: resolves to nothing
    } else if (pointer[i] == '~' && i + 1 < pointer.size() &&
               (pointer[i + 1] == '0' || pointer[i + 1] == '1')) {
      tokens.back() += pointer[++i] == '0' ? '~' : '/';
    } else {
      tokens.back() += pointer[i];
    }
  }
  return tokens;
}

std::string escape_pointer_token(std::string_view token) {
  std::string out;
  for (const char c : token) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace chimere::constraints::json_schema
