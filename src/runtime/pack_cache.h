#pragma once
// Constants in the layout that a kernel wants, made once a program and shared by its plans.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "ir/tensor.h"

namespace sardonyx {

class PackCache {
 public:
  // `release` is told of constants that were packed and are not read again by most kernels, so that
  // pages of a mapped file can be given back.
  explicit PackCache(std::function<void(const Tensor&)> release = nullptr)
      : release_(std::move(release)) {}

  // The packed form of `constant` named by `layout` (which must state all that the packing depends
  // on but the constant itself). `pack` fills a buffer of `bytes`, aligned to 64, the first time.
  std::shared_ptr<const void> Get(const Tensor& constant, const std::string& layout, int64_t bytes,
                                  const std::function<void(void*)>& pack) {
    std::lock_guard lock(mutex_);
    auto [it, inserted] = packs_.try_emplace({constant.raw(), layout});
    if (inserted) {
      Tensor buffer(DType::kUInt8, {bytes});
      pack(buffer.raw());
      it->second = buffer.owner();
      // Holds the memory of `constant`, whose address is the key, as long as the key.
      sources_.push_back(constant.owner());
      bytes_ += bytes;
      if (release_) release_(constant);
    }
    return it->second;
  }

  int64_t bytes() const { return bytes_; }

 private:
  std::mutex mutex_;
  std::function<void(const Tensor&)> release_;
  std::map<std::pair<const void*, std::string>, std::shared_ptr<const void>> packs_;
  std::vector<std::shared_ptr<const void>> sources_;
  int64_t bytes_ = 0;
};

}  // namespace sardonyx
