// Properties of expressions that do not depend on the arena.
#include <algorithm>
#include <random>

#include "constraints/hash.h"
#include "constraints/regex_impl.h"

namespace chimere::constraints {
namespace {

/// Secret, so that no schema can be written whose masks are taken for those of another one.
uint64_t fingerprint_seed() {
  static const uint64_t seed = [] {
    std::random_device device;
    return uint64_t{device()} << 32 | device();
  }();
  return seed;
}

}  // namespace

uint64_t RegexArena::Impl::compute_fingerprint(const Node& node) {
  uint64_t key = combine(fingerprint_seed(), static_cast<uint64_t>(node.op));
  switch (node.op) {
    case Op::kNone:
    case Op::kEpsilon:
      break;
    case Op::kSet:
      for (const CodeRange& range : sets[node.a].ranges()) {
        key = combine(key, uint64_t{range.first} << 32 | range.last);
      }
      break;
    case Op::kWords: {
      if (list_fingerprints.size() < lists.size()) list_fingerprints.resize(lists.size());
      uint64_t& list = list_fingerprints[node.a];
      if (list == 0) {
        const WordList& words = lists[node.a];
        list = hash_text(fingerprint_seed(), words.bytes);
        for (const uint32_t begin : words.begins) list = combine(list, begin);
      }
      key = combine(combine(key, list), node.b);
      key = combine(key, uint64_t{node.min} << 32 | node.max);
      break;
    }
    case Op::kConcat:
      key = combine(combine(key, fingerprints[node.a]), fingerprints[node.b]);
      break;
    case Op::kUnion:
    case Op::kIntersect: {
      // Their order depends on the arena.
      std::vector<uint64_t> parts;
      for (const Regex child : children(node)) parts.push_back(fingerprints[child]);
      std::ranges::sort(parts);
      for (const uint64_t part : parts) key = combine(key, part);
      break;
    }
    case Op::kNot:
      key = combine(key, fingerprints[node.a]);
      break;
    case Op::kRepeat:
      key = combine(combine(key, fingerprints[node.a]), uint64_t{node.min} << 32 | node.max);
      break;
  }
  return key == 0 ? 1 : key;
}

uint64_t RegexArena::Impl::fingerprint(Regex a) {
  // Parts are older than what they are parts of, except for the first expressions of every arena.
  if (fingerprints.empty()) {
    for (uint64_t id = 0; id <= kOneCharacter; ++id) {
      fingerprints.push_back(combine(fingerprint_seed(), id + 0x100));
    }
  }
  while (fingerprints.size() <= a) {
    const auto next = static_cast<Regex>(fingerprints.size());
    fingerprints.push_back(0);
    fingerprints[next] = compute_fingerprint(nodes[next]);
  }
  return fingerprints[a];
}

bool RegexArena::open_ended(Regex a) const {
  const Impl::Node& node = impl_->nodes[a];
  if (node.op == Impl::Op::kUnion) {
    return std::ranges::any_of(impl_->children(node),
                               [&](Regex child) { return open_ended(child); });
  }
  // Without intersection and complement, only none() is empty.
  return a == kAnyText || (node.op == Impl::Op::kConcat && node.a == kAnyText && node.positive);
}

bool RegexArena::is_words(Regex a) const {
  const Impl::Node& node = impl_->nodes[a];
  if (node.op == Impl::Op::kUnion) {
    return std::ranges::all_of(impl_->children(node), [&](Regex child) { return is_words(child); });
  }
  return node.op == Impl::Op::kWords || node.op == Impl::Op::kEpsilon;
}

uint64_t RegexArena::fingerprint(Regex a) const { return impl_->fingerprint(a); }

}  // namespace chimere::constraints
