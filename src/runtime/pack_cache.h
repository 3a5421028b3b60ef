#pragma once
// Constants in the layout that a kernel wants, made once a program and shared by its plans.

#include <algorithm>
#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/mapped_file.h"
#include "ir/lasting_tensor.h"

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
  using Watch = std::function<void(const Tensor&)>;
  struct Pack {
    std::shared_ptr<const void> data;
    int64_t bytes;
    std::set<int64_t> sound_for = {};  // see IsSound
  };
  // The constants of which a pack was made, first the one that it is a form of.
  using Ids = std::vector<ConstantId>;
  using Packs = std::map<std::pair<Ids, std::string>, Pack>;

  // The mapped file in which a constant lies, or null.
  using Files = std::function<std::shared_ptr<const MappedFile>(const Tensor&)>;

  // `check` is told of constants before their elements are read; it throws if they are not what
  // they were. The pages of `files` are given back once what lies in them was packed.
  explicit PackCache(Files files = nullptr, Watch check = nullptr)
      : files_(std::move(files)), check_(std::move(check)) {}

  std::shared_ptr<const MappedFile> FileOf(const Tensor& constant) const {
    return files_ ? files_(constant) : nullptr;
  }

  // Reads a constant by parts of its rows, aligned for their elements; for a `pack` of the
  // functions below. A part is valid until the next is asked for, of any reader; then its pages are
  // given back, so that a large constant is never there twice.
  class Reader {
   public:
    Reader(PackCache& cache, const Tensor& constant, bool gives_back = true)
        : cache_(cache), constant_(constant), gives_back_(gives_back) {
      if (constant.raw() == nullptr) throw ConstantDropped{};
      if (cache.check_) cache.check_(constant);
    }
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;
    ~Reader() { GiveBack(); }

    Tensor Rows(int64_t first, int64_t count) {
      GiveBack();
      part_ = count < RowsIn(constant_) ? RowsOf(constant_, first, count) : constant_;
      return cache_.staging_.Aligned(part_);
    }

   private:
    void GiveBack() {
      if (!part_.defined() || !gives_back_) return;
      const auto end = [](const Tensor& t) { return static_cast<char*>(t.raw()) + t.bytes(); };
      const bool is_followed = end(part_) < end(constant_);
      if (const auto file = cache_.FileOf(part_)) {
        file->DropPages(part_.raw(), part_.bytes(), is_followed);
      }
    }
    PackCache& cache_;
    Tensor constant_, part_;
    bool gives_back_;
  };

  // The packed form named by `layout` (which must state all that the packing depends on but these
  // constants themselves). `pack` fills a buffer of `bytes`, aligned to 64, the first time.
  std::shared_ptr<const void> Make(const Ids& ids, const std::string& layout, int64_t bytes,
                                   const std::function<void(void*)>& pack) {
    std::lock_guard lock(mutex_);
    const bool is_kept =
        std::all_of(ids.begin(), ids.end(), [](const ConstantId& id) { return id.base != 0; });
    auto it = packs_.find({ids, layout});
    if (is_kept && it != packs_.end() && it->second.bytes == bytes) {
      if (check_) check_(Tensor(DType::kUInt8, {bytes}, Pointer(it->second), nullptr));
      return it->second.data;
    }
    const Tensor buffer =
        is_kept ? memory_.Allocate(DType::kUInt8, {bytes}) : Tensor(DType::kUInt8, {bytes});
    pack(buffer.raw());
    if (is_kept) packs_[{ids, layout}] = {buffer.owner(), bytes};
    return buffer.owner();
  }

  // The same of one aligned constant, or of what is looked up in others beside it.
  std::shared_ptr<const void> Get(const Tensor& constant, ConstantId id, const std::string& layout,
                                  int64_t bytes,
                                  const std::function<void(const Tensor& source, void*)>& pack) {
    return Get(constant, Ids{id}, layout, bytes, pack);
  }
  std::shared_ptr<const void> Get(const Tensor& constant, const Ids& ids, const std::string& layout,
                                  int64_t bytes,
                                  const std::function<void(const Tensor& source, void*)>& pack) {
    return GetByRows(constant, ids, layout, bytes, RowsIn(constant),
                     [&](const Tensor& source, int64_t, void* to) { pack(source, to); });
  }

  // The same for a packing that takes some leading rows at a time, here `step`: `pack` is told the
  // first.
  std::shared_ptr<const void> GetByRows(
      const Tensor& constant, ConstantId id, const std::string& layout, int64_t bytes, int64_t step,
      const std::function<void(const Tensor& rows, int64_t first, void*)>& pack) {
    return GetByRows(constant, Ids{id}, layout, bytes, step, pack);
  }
  std::shared_ptr<const void> GetByRows(
      const Tensor& constant, const Ids& ids, const std::string& layout, int64_t bytes,
      int64_t step, const std::function<void(const Tensor& rows, int64_t first, void*)>& pack) {
    return Make(ids, layout, bytes, [&](void* to) {
      Reader reader(*this, constant, ids.front().base != 0);
      const int64_t rows = RowsIn(constant);
      for (int64_t first = 0; first == 0 || first < rows; first += std::max<int64_t>(step, 1)) {
        pack(reader.Rows(first, std::min(step, rows - first)), first, to);
      }
    });
  }

  // Whether a pack, which may come from a file, is sound for what `size` counts: asks `check`, of a
  // pack that is kept but once.
  bool IsSound(const Ids& ids, const std::string& layout, int64_t size,
               const std::function<bool()>& check) {
    std::lock_guard lock(mutex_);
    const auto it = packs_.find({ids, layout});
    if (it != packs_.end() && it->second.sound_for.contains(size)) return true;
    if (!check()) return false;
    if (it != packs_.end()) it->second.sound_for.insert(size);
    return true;
  }

  // Gives back what only packing needed.
  void Rest() {
    std::lock_guard lock(mutex_);
    staging_.Drop();
    memory_.Trim();
  }

  // Calls what watches reads of constants.
  void Check(const Tensor& constant) const {
    if (check_) check_(constant);
  }

  // A pack that was made elsewhere, aligned to 64.
  void Put(const Ids& ids, const std::string& layout, Pack pack) {
    std::lock_guard lock(mutex_);
    packs_[{ids, layout}] = std::move(pack);
  }
  Packs packs() const {
    std::lock_guard lock(mutex_);
    return packs_;
  }

 private:
  static void* Pointer(const Pack& pack) { return const_cast<void*>(pack.data.get()); }
  static int64_t RowsIn(const Tensor& tensor) { return tensor.rank() > 0 ? tensor.dims()[0] : 1; }
  static Tensor RowsOf(const Tensor& tensor, int64_t first, int64_t count) {
    std::vector<int64_t> dims = tensor.dims();
    const int64_t row_bytes = tensor.bytes() / dims[0];
    dims[0] = count;
    return Tensor(tensor.dtype(), std::move(dims),
                  static_cast<char*>(tensor.raw()) + first * row_bytes, tensor.owner());
  }

  mutable std::mutex mutex_;
  Files files_;
  Watch check_;
  // Guarded by mutex_.
  LastingMemory memory_;
  StagingMemory staging_;
  Packs packs_;
};

}  // namespace sardonyx
