// The word that was meant by one with a typing error.
#ifndef CHIMERE_BASE_NEAREST_WORD_H_
#define CHIMERE_BASE_NEAREST_WORD_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace chimere {

/// Letters to add, remove, replace or exchange with their neighbour (optimal string alignment).
size_t edit_distance(std::string_view a, std::string_view b);

/// The first of the nearest words, at a distance of at most 1, from 6 letters on of at most 2;
/// empty: none is so near.
std::string nearest_word(std::string_view word, std::span<const std::string> words);

}  // namespace chimere

#endif  // CHIMERE_BASE_NEAREST_WORD_H_
