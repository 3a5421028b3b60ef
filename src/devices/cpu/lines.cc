// Two steps as one: a few lines of the value between them are made, read while they are in the
// cache, and overwritten. Each part of an image makes anew the few lines at its upper end that the
// part before has made as well.

#include <array>
#include <cstring>

#include "base/round.h"
#include "devices/cpu/families.h"
#include "kernels/scratch_slots.h"

namespace sardonyx::cpu {
namespace {

// What a thread writes below this stays in its second level of cache from one step to the next.
constexpr int64_t kLeastBytes = 1 << 20;
// Lines of the value between that are kept, and made at a time; with the weights of both steps they
// are to stay in the second level of cache.
constexpr int64_t kBufferBytes = 256 << 10;
constexpr int64_t kStepBytes = 96 << 10;
constexpr int64_t kMostWeightBytes = 256 << 10;
constexpr size_t kMostInputs = 20;

class Joined {
 public:
  Joined(std::shared_ptr<const LineKernel> first, size_t first_inputs,
         std::shared_ptr<const LineKernel> second, size_t second_inputs, int threads)
      : first_(std::move(first)),
        second_(std::move(second)),
        first_inputs_(first_inputs),
        second_inputs_(second_inputs),
        slots_(ScratchSlots::CountFor(threads)) {
    const int64_t line = first_->out_bytes,
                  overlap = std::max<int64_t>(0, second_->window - second_->stride);
    step_ = std::max<int64_t>(2, kStepBytes / (line * second_->stride) / 2 * 2);
    lines_ = std::max(kBufferBytes / line, step_ * second_->stride + 2 * overlap);
    // A part for each thread, and again as many for the one that is first to end.
    parts_ = threads <= 1 || second_->batch >= 2 * threads
                 ? 1
                 : std::clamp<int64_t>(second_->out_lines / step_, 1, 2 * threads);
  }

  // Before it runs.
  void MeasureScratch() {
    for (int64_t part = 0; part < parts_; ++part) {
      Walk(part, [&](const Stride& stride) {
        scratch_ = std::max({scratch_, second_->scratch_bytes(stride.out),
                             stride.fresh.count() > 0 ? first_->scratch_bytes(stride.fresh) : 0});
      });
    }
  }

  bool Pays(int threads) const {
    const int64_t line = first_->out_bytes;
    return first_->batch * first_->out_lines * line >= kLeastBytes * threads &&
           lines_ * line <= 2 * kBufferBytes &&
           first_->weight_bytes + second_->weight_bytes <= kMostWeightBytes;
  }

  int64_t ScratchBytes() const { return slots_ * SlotBytes(); }

  void Run(const StepArgs& args) const {
    ScratchSlots slots(args.scratch, SlotBytes(), slots_);
    args.parallel.For(second_->batch * parts_, [&](int64_t task) {
      const ScratchSlots::Lease lease(slots);
      RunPart(args, task / parts_, task % parts_, reinterpret_cast<std::byte*>(lease.floats()));
    });
  }

 private:
  // One stride down the image: output lines, the lines between that are made for them, and where in
  // the buffer: at line `at` those that `out` reads begin, `kept` of them made before, which moved
  // there from line `from`.
  struct Stride {
    LineRange out, fresh;
    int64_t at, kept, from;
  };

  int64_t BufferBytes() const {
    return static_cast<int64_t>(AlignBytes(lines_ * first_->out_bytes));
  }
  int64_t SlotBytes() const { return BufferBytes() + static_cast<int64_t>(AlignBytes(scratch_)); }

  template <typename Visit>
  void Walk(int64_t part, Visit&& visit) const {
    const int64_t end = second_->out_lines * (part + 1) / parts_;
    LineRange held;
    int64_t at = 0;
    for (int64_t line = second_->out_lines * part / parts_; line < end; line += step_) {
      const LineRange out{line, std::min(end, line + step_)}, read = second_->Reads(out);
      const int64_t kept = std::max<int64_t>(0, held.end - read.first);
      const int64_t from = at + held.count() - kept;
      at = from + read.count() <= lines_ ? from : 0;
      visit(Stride{out, {read.first + kept, read.end}, at, kept, from});
      held = read;
    }
  }

  void RunPart(const StepArgs& args, int64_t image, int64_t part, std::byte* buffer) const {
    const LineKernel &first = *first_, &second = *second_;
    std::array<const void*, kMostInputs> first_in, second_in;
    std::copy_n(args.in, first_inputs_, first_in.begin());
    std::copy_n(args.in + first_inputs_, second_inputs_ - 1, second_in.begin() + 1);
    const auto make = [&](const LineKernel& kernel, const void** in, const void* x, void* y,
                          LineRange out) {
      in[0] = x;
      kernel.run({in, &y, buffer + BufferBytes(), {args.parallel.pool, 1}}, image, out);
    };
    const auto* x =
        static_cast<const std::byte*>(args.in[0]) + image * first.in_lines * first.in_bytes;
    auto* y = static_cast<std::byte*>(args.out[0]) + image * second.out_lines * second.out_bytes;
    Walk(part, [&](const Stride& stride) {
      std::byte* lines = buffer + stride.at * first.out_bytes;
      const int64_t kept = stride.kept * first.out_bytes;
      if (stride.at != stride.from) {
        std::memmove(lines, buffer + stride.from * first.out_bytes, kept);
      }
      if (stride.fresh.count() > 0) {
        make(first, first_in.data(), x + first.Reads(stride.fresh).first * first.in_bytes,
             lines + kept, stride.fresh);
      }
      make(second, second_in.data(), lines, y + stride.out.first * second.out_bytes, stride.out);
    });
  }

  std::shared_ptr<const LineKernel> first_, second_;
  size_t first_inputs_, second_inputs_;
  int slots_;
  int64_t lines_, step_, parts_, scratch_ = 0;
};

}  // namespace

std::optional<Bound> JoinLines(const Bound& first, size_t first_inputs, const Bound& second,
                               size_t second_inputs, int threads) {
  const LineKernel &made = *first.lines, &read = *second.lines;
  if (std::max(first_inputs, second_inputs) > kMostInputs || made.batch != read.batch ||
      made.out_lines != read.in_lines || made.out_bytes != read.in_bytes) {
    return {};
  }
  Joined joined(first.lines, first_inputs, second.lines, second_inputs, threads);
  if (!joined.Pays(threads)) return {};
  joined.MeasureScratch();
  Bound bound;
  bound.scratch_bytes = joined.ScratchBytes();
  bound.inplace = second.inplace >> 1 << first_inputs;
  bound.run = [joined](const StepArgs& args) { joined.Run(args); };
  return bound;
}

}  // namespace sardonyx::cpu
