// Products of rows of bytes with one vector, for exact search among rounded vectors.
#ifndef CHIMERE_KERNELS_BYTE_DOTS_H_
#define CHIMERE_KERNELS_BYTE_DOTS_H_

#include <cstdint>

namespace chimere::kernels {

/// out[r] = sum over i of rows[r * n + i] * query[i], for n_rows rows of n elements. Exact: every
/// instruction set gives the same. The sum must fit into 32 bits in any order: n * 128 * max|query|
/// is at most 2^31 - 1.
///
/// Reads n_rows * n bytes, about one instruction for six of them with AVX2.
void byte_dots(const int8_t* rows, int64_t n_rows, int64_t n, const int16_t* query, int32_t* out);

namespace ref {
/// The same, one element after another.
void byte_dots(const int8_t* rows, int64_t n_rows, int64_t n, const int16_t* query, int32_t* out);
}  // namespace ref

}  // namespace chimere::kernels

#endif  // CHIMERE_KERNELS_BYTE_DOTS_H_
