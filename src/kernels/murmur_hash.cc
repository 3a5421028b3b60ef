#include "kernels/murmur_hash.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/murmur_hash.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <bit>
#include <cstring>

#include "kernels/row_math-inl.h"
#include "kernels/slices.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<uint32_t>;
using V = hn::Vec<D>;

HWY_INLINE V AddWord(D d, V hash, V word) {
  const V scattered = hn::RotateRight<17>(hn::Mul(word, hn::Set(d, 0xcc9e2d51U)));
  hash = hn::Xor(hash, hn::Mul(scattered, hn::Set(d, 0x1b873593U)));
  hash = hn::RotateRight<19>(hash);
  return hn::Add(hn::Add(hash, hn::ShiftLeft<2>(hash)), hn::Set(d, 0xe6546b64U));
}

HWY_INLINE V Finish(D d, V hash, uint32_t length) {
  hash = hn::Xor(hash, hn::Set(d, length));
  hash = hn::Mul(hn::Xor(hash, hn::ShiftRight<16>(hash)), hn::Set(d, 0x85ebca6bU));
  hash = hn::Mul(hn::Xor(hash, hn::ShiftRight<13>(hash)), hn::Set(d, 0xc2b2ae35U));
  return hn::Xor(hash, hn::ShiftRight<16>(hash));
}

void HashWords(const uint32_t* x, int64_t count, uint32_t seed, uint32_t* y) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const V start = hn::Set(d, seed);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(Finish(d, AddWord(d, start, hn::LoadU(d, x + i)), 4), d, y + i);
  }
  if (i == count) return;
  const V words = LoadPart(d, x + i, count - i);
  StorePart(Finish(d, AddWord(d, start, words), 4), d, y + i, count - i);
}

void HashPairs(const uint32_t* x, int64_t count, uint32_t seed, uint32_t* y) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto hash = [&](const uint32_t* from) HWY_ATTR {
    V low, high;
    hn::LoadInterleaved2(d, from, low, high);
    return Finish(d, AddWord(d, AddWord(d, hn::Set(d, seed), low), high), 8);
  };
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(hash(x + 2 * i), d, y + i);
  if (i == count) return;
  HWY_ALIGN uint32_t rest[2 * HWY_MAX_BYTES / 4] = {};
  std::memcpy(rest, x + 2 * i, static_cast<size_t>(8 * (count - i)));
  StorePart(hash(rest), d, y + i, count - i);
}

}  // namespace
}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {
namespace {

HWY_EXPORT(HashWords);
HWY_EXPORT(HashPairs);

uint32_t Scatter(uint32_t word) { return std::rotl(word * 0xcc9e2d51U, 15) * 0x1b873593U; }

uint32_t HashText(const std::string& text, uint32_t seed) {
  const char* at = text.data();
  const size_t whole = text.size() / 4, rest = text.size() % 4;
  uint32_t hash = seed, word = 0;
  for (size_t i = 0; i < whole; ++i, at += 4) {
    std::memcpy(&word, at, 4);
    hash = std::rotl(hash ^ Scatter(word), 13) * 5 + 0xe6546b64U;
  }
  if (rest > 0) {
    word = 0;
    std::memcpy(&word, at, rest);
    hash ^= Scatter(word);
  }
  hash ^= static_cast<uint32_t>(text.size());
  hash = (hash ^ hash >> 16) * 0x85ebca6bU;
  hash = (hash ^ hash >> 13) * 0xc2b2ae35U;
  return hash ^ hash >> 16;
}

}  // namespace

void MurmurHash(const uint32_t* x, int64_t count, int words, uint32_t seed, uint32_t* y,
                const Parallel& par) {
  const Slices slices = Slice(count, words, 64);
  par.For(slices.tasks, [&](int64_t task) {
    const int64_t begin = slices.Begin(task), part = slices.End(task, count) - begin;
    if (words == 1) {
      HWY_DYNAMIC_DISPATCH(HashWords)(x + begin, part, seed, y + begin);
    } else {
      HWY_DYNAMIC_DISPATCH(HashPairs)(x + 2 * begin, part, seed, y + begin);
    }
  });
}

void MurmurHash(const std::string* x, int64_t count, uint32_t seed, uint32_t* y,
                const Parallel& par) {
  const Slices slices = Slice(count, 40);
  par.For(slices.tasks, [&](int64_t task) {
    for (int64_t i = slices.Begin(task); i < slices.End(task, count); ++i) {
      y[i] = HashText(x[i], seed);
    }
  });
}

}  // namespace sardonyx
#endif
