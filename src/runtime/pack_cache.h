#pragma once
// Constants in the layout that a kernel wants, made once a program and shared by its plans.

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "ir/tensor.h"

namespace sardonyx {

// Names a constant for as long as its cache lives: by its address if it is part of the model's
// file, else by a number that is never given twice; and where in it a view begins. A base of 0 is
// a constant of one plan or one run, which the cache does not keep.
struct ConstantId {
  uint64_t base = 0;
  int64_t offset = 0;
  auto operator<=>(const ConstantId&) const = default;
};

// Thrown where the value of a constant is needed whose memory was dropped; the program restores it
// and tries again.
struct ConstantDropped {};

class PackCache {
 public:
  // `release` is told of constants that were packed, so that pages of a mapped file can be given
  // back.
  explicit PackCache(std::function<void(const Tensor&)> release = nullptr)
      : release_(std::move(release)) {}

  // The packed form of the constant named by `layout` (which must state all that the packing
  // depends on but the constant itself). `pack` fills a buffer of `bytes`, aligned to 64, from the
  // aligned constant, the first time.
  std::shared_ptr<const void> Get(const Tensor& constant, ConstantId id, const std::string& layout,
                                  int64_t bytes,
                                  const std::function<void(const Tensor& source, void*)>& pack) {
    std::lock_guard lock(mutex_);
    const bool is_kept = id.base != 0;
    auto it = packs_.find({id, layout});
    if (is_kept && it != packs_.end()) return it->second;
    if (constant.raw() == nullptr) throw ConstantDropped{};
    Tensor buffer(DType::kUInt8, {bytes});
    pack(Aligned(constant), buffer.raw());
    if (!is_kept) return buffer.owner();
    if (release_) release_(constant);
    return packs_.emplace(std::pair(id, layout), buffer.owner()).first->second;
  }

 private:
  std::mutex mutex_;
  std::function<void(const Tensor&)> release_;
  std::map<std::pair<ConstantId, std::string>, std::shared_ptr<const void>> packs_;
};

}  // namespace sardonyx
